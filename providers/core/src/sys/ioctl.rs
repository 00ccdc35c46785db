//! Encodes a [`Command`] for the kernel and issues it.
//!
//! # Safety
//!
//! This file upholds that every address it passes to the kernel is that of a live buffer of the
//! stated length, writable where the kernel writes, for the whole system call. The kernel keeps
//! none of these addresses after the call (`drivers/infiniband/core/uverbs_ioctl.c`).
#![allow(
    unsafe_code,
    reason = "issues the ioctl and takes ownership of descriptors it returns"
)]

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use uverbs_uapi::ib_user_ioctl_cmds::{UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT};
use uverbs_uapi::rdma_user_ioctl_cmds::{
    RDMA_VERBS_IOCTL, UVERBS_ATTR_F_MANDATORY, UVERBS_ATTR_F_VALID_OUTPUT, ib_uverbs_attr,
    ib_uverbs_attr_enum_data, ib_uverbs_ioctl_hdr,
};
use zerocopy::{Immutable, IntoBytes};

use super::attr::{Attr, Command, Pointer, Value};
use crate::error::Errno;

/// The most attributes that a command may have; the longest core command has 18, and drivers add a
/// few.
const MAX_ATTRS: usize = 32;

/// The longest driver data that may contain an address to patch.
const MAX_PATCHED: usize = 256;

/// The marker in the attribute of a new descriptor until the kernel writes its number: -1.
const NO_FD: u64 = u64::MAX;

/// Header and attributes, in the kernel's layout.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Argument {
    header: ib_uverbs_ioctl_hdr,
    attrs: [ib_uverbs_attr; MAX_ATTRS],
}

/// Issues `command` on `fd` and stores the outputs in its cells.
// Not inlined, as its stack would be made for each doorbell, too.
#[inline(never)]
pub(super) fn verbs_ioctl(fd: BorrowedFd<'_>, command: &Command<'_>) -> Result<(), Errno> {
    let (uhw_in, uhw_out) = uhw_attrs(command);
    let attrs = || {
        command
            .attrs
            .iter()
            .chain([&uhw_in, &uhw_out])
            .chain(command.uhw.attrs)
            .filter(|attr| !matches!(attr.value, Value::Absent))
    };
    let mut patched = patch_buffer();
    let mut words = argument(command, attrs(), &mut patched)?;

    // SAFETY: `Argument` starts with the header that RDMA_VERBS_IOCTL takes and has room for the
    // attributes it announces, which `argument` counted; `encode` took every address in it from a
    // borrow that lives as long as `command`, with the length of that borrow.
    unsafe { rustix::ioctl::ioctl(fd, VerbsIoctl(&mut words)) }?;

    for (attr, answer) in attrs().zip(&words.attrs) {
        decode(attr, answer);
    }
    Ok(())
}

/// The header and the attributes, as many as it says.
fn argument<'a>(
    command: &Command<'_>,
    attrs: impl Iterator<Item = &'a Attr<'a>>,
    patched: &mut [u8; MAX_PATCHED],
) -> Result<Argument, Errno> {
    let mut words = Argument {
        header: ib_uverbs_ioctl_hdr::default(),
        attrs: [ib_uverbs_attr::default(); MAX_ATTRS],
    };
    let mut count = 0;
    for attr in attrs {
        *words.attrs.get_mut(count).ok_or(Errno::TOOBIG)? = encode(attr, patched)?;
        count += 1;
    }
    let length = size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<ib_uverbs_attr>();
    words.header.length = u16::try_from(length).map_err(|_| Errno::TOOBIG)?;
    words.header.object_id = command.object;
    words.header.method_id = command.method;
    words.header.num_attrs = u16::try_from(count).map_err(|_| Errno::TOOBIG)?;
    words.header.driver_id = command.driver_id;
    Ok(words)
}

/// The two attributes that carry driver data, absent if there is none.
fn uhw_attrs<'a>(command: &Command<'a>) -> (Attr<'a>, Attr<'a>) {
    let uhw = &command.uhw;
    let input = Attr::maybe(
        (!uhw.input.is_empty()).then_some(uhw.input),
        UVERBS_ATTR_UHW_IN,
        |id, bytes| Attr::new(id, Value::In(bytes, uhw.pointer)),
    );
    let output = Attr::maybe(
        (!uhw.output.is_empty()).then_some(uhw.output),
        UVERBS_ATTR_UHW_OUT,
        Attr::output,
    );
    (input.optional(), output.optional())
}

fn encode(attr: &Attr<'_>, patched: &mut [u8; MAX_PATCHED]) -> Result<ib_uverbs_attr, Errno> {
    let mut word = ib_uverbs_attr {
        attr_id: attr.id,
        flags: if attr.mandatory {
            UVERBS_ATTR_F_MANDATORY
        } else {
            0
        },
        ..ib_uverbs_attr::default()
    };
    match &attr.value {
        Value::In(bytes, None) => encode_bytes(&mut word, bytes)?,
        Value::In(bytes, Some(pointer)) => {
            encode_bytes(&mut word, patch(bytes, pointer, patched)?)?;
        }
        Value::Out(cells, _) => {
            word.len = u16::try_from(cells.len()).map_err(|_| Errno::INVAL)?;
            word.data = cells.as_ptr().expose_provenance() as u64;
        }
        Value::Constant(value) => {
            word.len = 8;
            word.data = *value;
        }
        Value::Enum(element, payload) => {
            encode_bytes(&mut word, payload)?;
            word.attr_data = ib_uverbs_attr_enum_data {
                elem_id: *element,
                reserved: 0,
            }
            .into();
        }
        Value::Object(handle) => word.data = u64::from(*handle),
        Value::Objects(handles) => encode_bytes(&mut word, handles.as_bytes())?,
        Value::Fd(fd) => word.data = i64::from(fd.as_raw_fd()).cast_unsigned(),
        // If the kernel writes no handle, the caller's marker for "none" stays in place.
        Value::NewObject(handle) => word.data = u64::from(handle.get()),
        // Likewise if it writes no descriptor: 0 would be a valid one, with another owner.
        Value::NewFd(_) => word.data = NO_FD,
        Value::Absent => {}
    }
    Ok(word)
}

/// Up to 8 bytes are passed in the attribute itself, more by address.
fn encode_bytes(word: &mut ib_uverbs_attr, bytes: &[u8]) -> Result<(), Errno> {
    word.len = u16::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
    word.data = if bytes.len() <= 8 {
        let mut inline = [0; 8];
        inline[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(inline)
    } else {
        bytes.as_ptr().expose_provenance() as u64
    };
    Ok(())
}

/// A copy of `bytes` with the address of the pointer's buffer filled in.
pub(super) fn patch<'p>(
    bytes: &[u8],
    pointer: &Pointer<'_>,
    patched: &'p mut [u8; MAX_PATCHED],
) -> Result<&'p [u8], Errno> {
    let copy = patched.get_mut(..bytes.len()).ok_or(Errno::TOOBIG)?;
    copy.copy_from_slice(bytes);
    let address = pointer.buffer.as_ptr().expose_provenance() as u64;
    copy.get_mut(pointer.offset..)
        .and_then(|rest| rest.first_chunk_mut::<8>())
        .ok_or(Errno::INVAL)?
        .copy_from_slice(&address.to_ne_bytes());
    Ok(copy)
}

/// Scratch for [`patch`].
pub(super) const fn patch_buffer() -> [u8; MAX_PATCHED] {
    [0; MAX_PATCHED]
}

fn decode(attr: &Attr<'_>, answer: &ib_uverbs_attr) {
    match &attr.value {
        Value::Out(_, written) => written.set(answer.flags & UVERBS_ATTR_F_VALID_OUTPUT != 0),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "handles have 32 bits; the kernel puts them in the low half"
        )]
        Value::NewObject(handle) => handle.set(answer.data as u32),
        Value::NewFd(slot) => slot.set(new_fd(answer)),
        _ => {}
    }
}

/// The descriptor that a create method returned in its attribute.
fn new_fd(answer: &ib_uverbs_attr) -> Option<OwnedFd> {
    let raw = RawFd::try_from(answer.data.cast_signed())
        .ok()
        .filter(|fd| *fd >= 0)?;
    // SAFETY: the command succeeded, and the attribute is one that creates a descriptor. The value
    // is not the marker that was there, so the kernel wrote it: it installed the descriptor for
    // this call, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// `RDMA_VERBS_IOCTL` with its argument.
struct VerbsIoctl<'a>(&'a mut Argument);

// SAFETY: the opcode's argument is the prefix of `Argument`, the pointer is to that value, and the
// kernel writes to it, as `IS_MUTATING` says.
unsafe impl Ioctl for VerbsIoctl<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        RDMA_VERBS_IOCTL as Opcode
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The address of an output buffer, for a request that carries it as a number.
pub(super) fn address(cells: &[Cell<u8>]) -> u64 {
    cells.as_ptr().expose_provenance() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::fd::{AsFd as _, IntoRawFd as _};

    use super::*;

    fn command<'a>(attrs: &'a [Attr<'a>]) -> Command<'a> {
        Command {
            object: 0x31,
            method: 0x32,
            driver_id: 0x33,
            attrs,
            uhw: super::super::Uhw::NONE,
        }
    }

    /// A mandatory attribute that is encoded: its length, its value, and the kind of an enum.
    fn encoded(value: Value<'_>) -> (u16, u64, u8) {
        let word = encode(&Attr::new(0x1234, value), &mut patch_buffer()).unwrap();
        assert_eq!((word.attr_id, word.flags), (0x1234, 1));
        let [kind, _] = zerocopy::transmute!(word.attr_data);
        (word.len, word.data, kind)
    }

    fn at(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn the_kernel_gets_the_argument_itself() {
        let mut words = argument(&command(&[]), [].iter(), &mut patch_buffer()).unwrap();
        let start = std::ptr::from_mut(&mut words).cast();
        let mut call = VerbsIoctl(&mut words);
        assert_eq!(call.as_ptr(), start);
        assert_eq!(call.opcode(), RDMA_VERBS_IOCTL as Opcode);
    }

    #[test]
    fn the_header_announces_the_attributes() {
        for count in [0_u16, 1, 2, 31, 32] {
            let attrs: Vec<_> = (0..count).map(|id| Attr::object(id, id.into())).collect();
            let all = command(&attrs);
            let words = argument(&all, attrs.iter(), &mut patch_buffer()).unwrap();
            assert_eq!(words.header.length, 24 + 16 * count);
            assert_eq!(words.header.num_attrs, count);
            assert_eq!(
                (
                    words.header.object_id,
                    words.header.method_id,
                    words.header.driver_id
                ),
                (0x31, 0x32, 0x33)
            );
            let last = words.attrs[usize::from(count.saturating_sub(1))];
            assert_eq!(last.data, u64::from(count.saturating_sub(1)));
        }
        let attrs: Vec<_> = (0..33).map(|id| Attr::object(id, 0)).collect();
        let refused = argument(&command(&attrs), attrs.iter(), &mut patch_buffer());
        assert_eq!(refused.err(), Some(Errno::TOOBIG));
    }

    #[test]
    fn values_are_in_the_attribute_and_longer_ones_behind_it() {
        let nine = [9; 9];
        let cells = [const { Cell::new(0) }; 12];
        let handles = [1, 2, 3];
        let null = std::fs::File::open("/dev/null").unwrap();
        let number = u64::from(null.as_raw_fd().cast_unsigned());
        let (object, fd) = (Cell::new(0x77), Cell::new(None));
        for (value, expected) in [
            (Value::In(&[], None), (0, 0, 0)),
            (
                Value::In(&[1, 2], None),
                (2, u64::from_ne_bytes([1, 2, 0, 0, 0, 0, 0, 0]), 0),
            ),
            (Value::In(&[5; 8], None), (8, u64::from_ne_bytes([5; 8]), 0)),
            (Value::In(&nine, None), (9, at(&nine), 0)),
            (
                Value::Out(&cells, Cell::new(false)),
                (12, address(&cells), 0),
            ),
            (Value::Constant(0x0102_0304_0506), (8, 0x0102_0304_0506, 0)),
            (Value::Enum(3, &nine), (9, at(&nine), 3)),
            (Value::Object(0x55), (0, 0x55, 0)),
            (Value::Objects(&handles), (12, at(handles.as_bytes()), 0)),
            (Value::Fd(null.as_fd()), (0, number, 0)),
            (Value::NewObject(&object), (0, 0x77, 0)),
            (Value::NewFd(&fd), (0, u64::MAX, 0)),
        ] {
            assert_eq!(encoded(value.clone()), expected, "{value:?}");
        }
        let optional = Attr::object(1, 2).optional();
        assert_eq!(encode(&optional, &mut patch_buffer()).unwrap().flags, 0);
    }

    #[test]
    fn driver_data_names_its_buffer() {
        let buffer = [const { Cell::new(0) }; 4];
        let pointer = |offset| Pointer {
            offset,
            buffer: &buffer,
        };
        let mut patched = patch_buffer();
        let input = [7; 24];
        let copy = patch(&input, &pointer(9), &mut patched).unwrap();
        let mut expected = input;
        expected[9..17].copy_from_slice(&address(&buffer).to_ne_bytes());
        assert_eq!(copy, expected);
        assert_eq!(patch(&input, &pointer(17), &mut patched), Err(Errno::INVAL));
        let long = [0; MAX_PATCHED + 1];
        assert_eq!(patch(&long, &pointer(0), &mut patched), Err(Errno::TOOBIG));

        let output = [const { Cell::new(0) }; 5];
        let mut all = command(&[]);
        all.uhw = super::super::Uhw::new(&[1; 3], &output);
        let (uhw_in, uhw_out) = uhw_attrs(&all);
        assert_eq!((uhw_in.id, uhw_in.mandatory), (UVERBS_ATTR_UHW_IN, false));
        assert_eq!(
            (uhw_out.id, uhw_out.mandatory),
            (UVERBS_ATTR_UHW_OUT, false)
        );
        assert!(matches!(uhw_in.value, Value::In([1, 1, 1], None)));
        assert!(matches!(uhw_out.value, Value::Out(cells, _) if cells.len() == 5));
        let (uhw_in, uhw_out) = uhw_attrs(&command(&[]));
        assert!(matches!(uhw_in.value, Value::Absent));
        assert!(matches!(uhw_out.value, Value::Absent));
    }

    #[test]
    fn answers_are_taken_from_their_attributes() {
        let cells = [const { Cell::new(0) }; 4];
        for (flags, written) in [(0, false), (2, true), (3, true)] {
            let attr = Attr::output(1, &cells);
            decode(
                &attr,
                &ib_uverbs_attr {
                    flags,
                    ..ib_uverbs_attr::default()
                },
            );
            let Value::Out(_, seen) = &attr.value else {
                return;
            };
            assert_eq!(seen.get(), written, "{flags}");
        }
        let object = Cell::new(0);
        let answer = |data| ib_uverbs_attr {
            data,
            ..ib_uverbs_attr::default()
        };
        decode(&Attr::new_object(1, &object), &answer(0x1_0000_0007));
        assert_eq!(object.get(), 7);
        let null = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        let slot = Cell::new(None);
        decode(
            &Attr::new_fd(1, &slot),
            &answer(u64::from(null.cast_unsigned())),
        );
        let fd: OwnedFd = slot.take().unwrap();
        assert_eq!(fd.as_raw_fd(), null);
    }

    #[test]
    fn a_descriptor_that_was_not_written_is_none() -> Result<(), Errno> {
        let slot = Cell::new(None);
        let requested = Attr::new_fd(7, &slot);
        let word = encode(&requested, &mut patch_buffer())?;
        assert_eq!(word.data, u64::MAX);
        // The kernel reported success and left the attribute as it was.
        decode(&requested, &word);
        assert!(slot.take().is_none());
        Ok(())
    }
}
