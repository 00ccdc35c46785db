//! A command of the ioctl interface as a value: object, method, attributes.
//!
//! Outputs are [`Cell`]s that the kernel fills, so a command is a shared, covariant value that can
//! be printed, recorded, and answered by a fake kernel.

use std::cell::Cell;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

use zerocopy::{FromBytes, IntoBytes};

/// A method of an object, with all its inputs and outputs.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// `UVERBS_OBJECT_*`.
    pub object: u16,
    /// `UVERBS_METHOD_*` of that object.
    pub method: u16,
    /// `RDMA_DRIVER_*` of the device: the driver that the driver attributes belong to.
    pub driver_id: u32,
    /// The method's own attributes.
    pub attrs: &'a [Attr<'a>],
    /// The driver data.
    pub uhw: Uhw<'a>,
}

/// One attribute.
#[derive(Clone)]
pub struct Attr<'a> {
    /// `UVERBS_ATTR_*` of the method.
    pub id: u16,
    /// A kernel that does not know a mandatory attribute refuses the command (EPROTONOSUPPORT); it
    /// ignores an unknown optional one.
    pub mandatory: bool,
    /// What it carries.
    pub value: Value<'a>,
}

/// What an attribute carries.
#[derive(Clone)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Nothing: the attribute is not sent. This lets a command list optional attributes in place.
    Absent,
    /// Bytes for the kernel. Up to 8 are passed inside the attribute, more by reference.
    In(&'a [u8], Option<Pointer<'a>>),
    /// Bytes from the kernel, and whether it wrote them.
    Out(&'a [Cell<u8>], Cell<bool>),
    /// Flags, a size or an enum, as 64 bits.
    Constant(u64),
    /// One of several payloads, chosen by number.
    Enum(u8, &'a [u8]),
    /// The handle of an object of this context.
    Object(u32),
    /// Where the kernel puts the handle of the object that the command creates.
    NewObject(&'a Cell<u32>),
    /// Handles of several objects.
    Objects(&'a [u32]),
    /// A descriptor: an object of this context (completion channel, event file), or any other file.
    Fd(BorrowedFd<'a>),
    /// Where the kernel puts the descriptor that the command creates.
    NewFd(&'a Cell<Option<OwnedFd>>),
}

impl Value<'_> {
    /// The value of an attribute of up to 8 bytes as a number, in this machine's byte order.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::In(bytes, _) => number(bytes),
            _ => None,
        }
    }
}

/// A buffer whose address is part of the driver data.
#[derive(Clone, Copy)]
pub struct Pointer<'a> {
    /// Offset of the 64-bit address in the driver data.
    pub offset: usize,
    /// The buffer, which the kernel writes to.
    pub buffer: &'a [Cell<u8>],
}

/// Driver data: what a provider adds to a core command (`UVERBS_ATTR_UHW_IN`,
/// `UVERBS_ATTR_UHW_OUT`, driver attributes).
#[derive(Clone, Copy, Default)]
pub struct Uhw<'a> {
    /// The driver's request.
    pub input: &'a [u8],
    /// An address inside the request.
    pub pointer: Option<Pointer<'a>>,
    /// The driver's reply.
    pub output: &'a [Cell<u8>],
    /// Attributes in the driver's namespace; they exist only on the ioctl interface.
    pub attrs: &'a [Attr<'a>],
}

/// The bytes of `value` as output cells.
pub fn cells<T: FromBytes + IntoBytes>(value: &mut T) -> &[Cell<u8>] {
    Cell::from_mut(value.as_mut_bytes()).as_slice_of_cells()
}

/// The bytes of a slice that the kernel fills, as output cells.
pub(crate) fn slice_cells<T: FromBytes + IntoBytes>(values: &mut [T]) -> &[Cell<u8>] {
    Cell::from_mut(values.as_mut_bytes()).as_slice_of_cells()
}

/// Reads a number in this machine's byte order, of any size up to 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    let start = if cfg!(target_endian = "little") {
        0
    } else {
        word.len().checked_sub(bytes.len())?
    };
    word.get_mut(start..start + bytes.len())?
        .copy_from_slice(bytes);
    Some(u64::from_ne_bytes(word))
}

impl<'a> Attr<'a> {
    /// A mandatory attribute.
    pub const fn new(id: u16, value: Value<'a>) -> Self {
        Self {
            id,
            mandatory: true,
            value,
        }
    }

    /// Makes the attribute optional: a kernel that does not know it ignores it.
    #[must_use]
    pub fn optional(self) -> Self {
        Self {
            mandatory: false,
            ..self
        }
    }

    /// Bytes for the kernel.
    pub fn input<T: IntoBytes + zerocopy::Immutable + ?Sized>(id: u16, value: &'a T) -> Self {
        Self::new(id, Value::In(value.as_bytes(), None))
    }

    /// Bytes from the kernel.
    pub fn output(id: u16, cells: &'a [Cell<u8>]) -> Self {
        Self::new(id, Value::Out(cells, Cell::new(false)))
    }

    /// Flags, a size or an enum that the kernel takes as 64 bits.
    pub fn constant(id: u16, value: impl Into<u64>) -> Self {
        Self::new(id, Value::Constant(value.into()))
    }

    /// The handle of an object.
    pub fn object(id: u16, handle: u32) -> Self {
        Self::new(id, Value::Object(handle))
    }

    /// Where the kernel puts the new object's handle.
    pub fn new_object(id: u16, handle: &'a Cell<u32>) -> Self {
        Self::new(id, Value::NewObject(handle))
    }

    /// A descriptor.
    pub fn fd(id: u16, fd: BorrowedFd<'a>) -> Self {
        Self::new(id, Value::Fd(fd))
    }

    /// Where the kernel puts the new descriptor.
    pub fn new_fd(id: u16, fd: &'a Cell<Option<OwnedFd>>) -> Self {
        Self::new(id, Value::NewFd(fd))
    }

    /// `attr(id, value)` for `Some(value)`; for `None`, an attribute that is not sent.
    pub fn maybe<T>(value: Option<T>, id: u16, attr: impl FnOnce(u16, T) -> Self) -> Self {
        match value {
            Some(value) => attr(id, value),
            None => Self::new(id, Value::Absent),
        }
    }

    /// True for a mandatory output that the kernel did not write.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.mandatory && matches!(&self.value, Value::Out(_, written) if !written.get())
    }
}

impl<'a> Uhw<'a> {
    /// No driver data.
    pub const NONE: Uhw<'static> = Uhw {
        input: &[],
        pointer: None,
        output: &[],
        attrs: &[],
    };

    /// A driver's request and reply.
    pub const fn new(input: &'a [u8], output: &'a [Cell<u8>]) -> Self {
        Self {
            input,
            pointer: None,
            output,
            attrs: &[],
        }
    }

    /// Whether a legacy command carries nothing of it.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty() && self.pointer.is_none()
    }

    /// True if a legacy command cannot carry it.
    pub(crate) fn needs_ioctl(&self) -> bool {
        self.attrs
            .iter()
            .any(|attr| attr.mandatory && !matches!(attr.value, Value::Absent))
    }
}

impl fmt::Debug for Attr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.mandatory { "" } else { "?" };
        write!(f, "{:#x}{optional}: {:?}", self.id, self.value)
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::In(bytes, _) => write!(f, "in {} bytes", bytes.len()),
            Self::Out(cells, written) => {
                let state = if written.get() { "" } else { ", not written" };
                write!(f, "out {} bytes{state}", cells.len())
            }
            Self::Constant(value) => write!(f, "{value:#x}"),
            Self::Enum(element, payload) => write!(f, "enum {element}, {} bytes", payload.len()),
            Self::Object(handle) => write!(f, "object {handle}"),
            Self::NewObject(handle) => write!(f, "new object {}", handle.get()),
            Self::Objects(handles) => write!(f, "objects {handles:?}"),
            Self::Fd(fd) => write!(f, "fd {fd:?}"),
            Self::NewFd(_) => f.write_str("new fd"),
        }
    }
}

impl fmt::Debug for Uhw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uhw in {} out {}", self.input.len(), self.output.len())?;
        if self.attrs.is_empty() {
            return Ok(());
        }
        write!(f, " {:?}", self.attrs)
    }
}

impl fmt::Debug for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pointer at {} to {} bytes",
            self.offset,
            self.buffer.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_any_size() {
        assert_eq!(number(&[7]), Some(7));
        assert_eq!(number(&0x102_u16.to_ne_bytes()), Some(0x102));
        assert_eq!(number(&7_u32.to_ne_bytes()), Some(7));
        assert_eq!(number(&u64::MAX.to_ne_bytes()), Some(u64::MAX));
        assert_eq!(number(&[]), Some(0));
        assert_eq!(number(&[0; 9]), None);
    }

    #[test]
    fn a_value_is_a_number_if_it_is_short() {
        assert_eq!(
            Value::Constant(0x1234_5678_9abc).number(),
            Some(0x1234_5678_9abc)
        );
        assert_eq!(Value::In(&7_u32.to_ne_bytes(), None).number(), Some(7));
        assert_eq!(Value::In(&[0; 9], None).number(), None);
        for other in [Value::Absent, Value::Object(3), Value::Enum(1, &[2])] {
            assert_eq!(other.number(), None, "{other:?}");
        }
    }

    #[test]
    fn attributes_are_printed_by_what_they_carry() {
        let (handle, cell) = (Cell::new(8), [const { Cell::new(0) }; 4]);
        let written = Attr::output(2, &cell);
        if let Value::Out(_, flag) = &written.value {
            flag.set(true);
        }
        for (attr, text) in [
            (Attr::input(1, &[0_u8; 3]), "0x1: in 3 bytes"),
            (written, "0x2: out 4 bytes"),
            (Attr::output(0x30, &cell), "0x30: out 4 bytes, not written"),
            (Attr::constant(4, 18_u32).optional(), "0x4?: 0x12"),
            (
                Attr::new(5, Value::Enum(2, &[0; 6])),
                "0x5: enum 2, 6 bytes",
            ),
            (Attr::object(6, 7), "0x6: object 7"),
            (Attr::new_object(7, &handle), "0x7: new object 8"),
            (Attr::new(8, Value::Objects(&[1, 2])), "0x8: objects [1, 2]"),
            (Attr::new_fd(9, &Cell::new(None)), "0x9: new fd"),
            (
                Attr::maybe(None::<u8>, 10, |_, _| panic!("absent")),
                "0xa: absent",
            ),
        ] {
            assert_eq!(format!("{attr:?}"), text);
        }
        let attrs = [Attr::constant(0x1002, 1_u32)];
        let uhw = Uhw {
            attrs: &attrs,
            ..Uhw::new(&[0; 5], &cell)
        };
        assert_eq!(format!("{uhw:?}"), "uhw in 5 out 4 [0x1002: 0x1]");
        assert_eq!(format!("{:?}", Uhw::NONE), "uhw in 0 out 0");
        let pointer = Pointer {
            offset: 8,
            buffer: &cell,
        };
        assert_eq!(format!("{pointer:?}"), "pointer at 8 to 4 bytes");
    }

    #[test]
    fn a_driver_s_mandatory_attribute_needs_the_ioctl() {
        let needs = |attrs: &[Attr<'_>]| Uhw { attrs, ..Uhw::NONE }.needs_ioctl();
        assert!(!needs(&[]));
        assert!(!needs(&[Attr::constant(1, 1_u32).optional()]));
        assert!(!needs(&[Attr::new(1, Value::Absent)]));
        assert!(needs(&[
            Attr::new(1, Value::Absent),
            Attr::constant(2, 1_u32)
        ]));
    }
}
