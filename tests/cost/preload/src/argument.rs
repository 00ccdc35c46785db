//! Commands of a C program: the argument of its ioctl as a [`Command`], and the answers in it.
//!
//! # Safety
//!
//! Addresses are those that the caller of [`carry_out`] vouches for. They are used while it runs,
//! as the kernel would use them, and are not kept here.
#![allow(unsafe_code, reason = "reads and writes memory that a program named")]

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;

use uverbs_core::Errno;
use uverbs_core::sys::{Attr, Call, Command, Kernel, Uhw, Value};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
    MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_METHOD_UAR_OBJ_DESTROY, MLX5_IB_OBJECT_UAR,
};
use uverbs_uapi::rdma_user_ioctl_cmds::{
    UVERBS_ATTR_F_MANDATORY, UVERBS_ATTR_F_VALID_OUTPUT, ib_uverbs_attr, ib_uverbs_ioctl_hdr,
};
use zerocopy::IntoBytes as _;

/// What an attribute carries, which its struct does not say.
#[derive(Clone, Copy)]
enum Carries {
    Constant,
    Input,
    Output,
    Object,
    NewObject,
}

/// A method: its object, its number, and its attributes.
type Method = (u16, u16, &'static [(u16, Carries)]);

/// The methods that the kernel has: legacy commands, and the pages of doorbells, for which there is
/// no such command.
const METHODS: [Method; 3] = [
    (
        UVERBS_OBJECT_DEVICE,
        UVERBS_METHOD_INVOKE_WRITE,
        &[
            (UVERBS_ATTR_WRITE_CMD, Carries::Constant),
            (UVERBS_ATTR_CORE_IN, Carries::Input),
            (UVERBS_ATTR_CORE_OUT, Carries::Output),
            (UVERBS_ATTR_UHW_IN, Carries::Input),
            (UVERBS_ATTR_UHW_OUT, Carries::Output),
        ],
    ),
    (
        MLX5_IB_OBJECT_UAR,
        MLX5_IB_METHOD_UAR_OBJ_ALLOC,
        &[
            (MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, Carries::NewObject),
            (MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, Carries::Constant),
            (MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, Carries::Output),
            (MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, Carries::Output),
            (MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, Carries::Output),
        ],
    ),
    (
        MLX5_IB_OBJECT_UAR,
        MLX5_IB_METHOD_UAR_OBJ_DESTROY,
        &[(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, Carries::Object)],
    ),
];

/// Carries out the command of an ioctl and stores the answers in its argument.
///
/// # Errors
/// As the kernel: EPROTONOSUPPORT for a method or a mandatory attribute that there is not, EINVAL
/// for an attribute without its memory; otherwise the errno of the command.
///
/// # Safety
/// 1. `argument` is that of the ioctl: a header with as many attributes behind it as it says, all
///    of it writable, with addresses of memory as long as the attributes say, readable if it is
///    input, writable if it is output.
/// 2. Nobody else accesses that memory meanwhile.
/// 3. Memory that the command registers, and queues that it names, stay valid until the object is
///    destroyed ([`Kernel::call`]).
pub unsafe fn carry_out(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    argument: NonNull<ib_uverbs_ioctl_hdr>,
) -> Result<(), Errno> {
    // SAFETY: a header is there, by 1.
    let header = unsafe { argument.read() };
    let first = argument.as_ptr().wrapping_add(1).cast::<ib_uverbs_attr>();
    // SAFETY: so many attributes follow, by 1, and nobody else accesses them, by 2.
    let words = unsafe { slice::from_raw_parts_mut(first, header.num_attrs.into()) };
    let known = METHODS
        .iter()
        .find(|(object, method, _)| (*object, *method) == (header.object_id, header.method_id));
    let (_, _, known) = known.ok_or(Errno::PROTONOSUPPORT)?;

    let new = Cell::new(0);
    let mut attrs = Vec::new();
    let mut uhw = Uhw::NONE;
    // Which of the argument's attributes each is.
    let mut places = Vec::new();
    let copies = words.to_vec();
    for (place, word) in copies.iter().enumerate() {
        let mandatory = word.flags & UVERBS_ATTR_F_MANDATORY != 0;
        let Some((id, carries)) = known.iter().find(|(id, _)| *id == word.attr_id) else {
            if mandatory {
                return Err(Errno::PROTONOSUPPORT);
            }
            continue;
        };
        let value = match carries {
            Carries::Constant => Value::Constant(word.data),
            Carries::Object => Value::Object(u32::try_from(word.data).map_err(|_| Errno::INVAL)?),
            Carries::NewObject => Value::NewObject(&new),
            // SAFETY: the caller vouches for the memory of attributes, by 1 and 2.
            Carries::Input => Value::In(unsafe { input(word) }?, None),
            // SAFETY: as above.
            Carries::Output => Value::Out(unsafe { output(word) }?, Cell::new(false)),
        };
        match (*id, &value) {
            (UVERBS_ATTR_UHW_IN, Value::In(bytes, _)) => uhw.input = bytes,
            (UVERBS_ATTR_UHW_OUT, Value::Out(cells, _)) => uhw.output = cells,
            _ => {
                let id = *id;
                attrs.push(Attr {
                    id,
                    mandatory,
                    value,
                });
                places.push(place);
            }
        }
    }
    let command = Command {
        object: header.object_id,
        method: header.method_id,
        driver_id: header.driver_id,
        attrs: &attrs,
        uhw,
    };
    // SAFETY: the kernel takes calls on any descriptor; the caller vouches for memory, by 3, and
    // whoever issues a command as C program owns the objects that it names.
    unsafe { kernel.call(fd, Call::Ioctl(&command)) }?;

    for (attr, place) in attrs.iter().zip(places) {
        let Some(word) = words.get_mut(place) else {
            continue;
        };
        match &attr.value {
            Value::Out(_, written) if written.get() => word.flags |= UVERBS_ATTR_F_VALID_OUTPUT,
            Value::NewObject(handle) => word.data = handle.get().into(),
            _ => {}
        }
    }
    Ok(())
}

/// The bytes of an input: up to eight are in the attribute itself.
///
/// # Safety
/// The memory that the attribute names is readable, and nobody writes to it while the bytes are
/// used.
unsafe fn input(word: &ib_uverbs_attr) -> Result<&[u8], Errno> {
    let length = usize::from(word.len);
    if let Some(bytes) = word.data.as_bytes().get(..length) {
        return Ok(bytes);
    }
    let start: *const u8 = address(word)?.as_ptr();
    // SAFETY: the caller vouches for the memory, and it is not at address 0.
    Ok(unsafe { slice::from_raw_parts(start, length) })
}

/// The bytes of an output.
///
/// # Safety
/// The memory that the attribute names is writable, and nobody else accesses it while the cells are
/// used.
unsafe fn output(word: &ib_uverbs_attr) -> Result<&[Cell<u8>], Errno> {
    let start: *const Cell<u8> = address(word)?.cast().as_ptr();
    // SAFETY: the caller vouches for the memory, and it is not at address 0.
    Ok(unsafe { slice::from_raw_parts(start, word.len.into()) })
}

fn address(word: &ib_uverbs_attr) -> Result<NonNull<u8>, Errno> {
    let address = usize::try_from(word.data).map_err(|_| Errno::FAULT)?;
    NonNull::new(ptr::with_exposed_provenance_mut(address)).ok_or(Errno::FAULT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs::File;
    use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

    use uverbs_uapi::ib_user_verbs::{IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context_resp};
    use uverbs_uapi::mlx5_abi::mlx5_ib_alloc_ucontext_resp;

    use super::*;
    use crate::node;

    /// An argument with room for five attributes.
    #[repr(C)]
    struct Argument {
        header: ib_uverbs_ioctl_hdr,
        attrs: [ib_uverbs_attr; 5],
    }

    impl Argument {
        fn new(object_id: u16, method_id: u16, given: &[ib_uverbs_attr]) -> Self {
            let mut attrs = [ib_uverbs_attr::default(); 5];
            attrs[..given.len()].copy_from_slice(given);
            let header = ib_uverbs_ioctl_hdr {
                object_id,
                method_id,
                num_attrs: u16::try_from(given.len()).unwrap(),
                ..Default::default()
            };
            Self { header, attrs }
        }

        fn issue(&mut self) -> Result<(), Errno> {
            let node = File::open("/dev/null").unwrap();
            let argument = NonNull::from_mut(self).cast();
            // SAFETY: header and attributes, whose memory is this test's; nothing is registered.
            unsafe { carry_out(&node::kernel(), node.as_fd(), argument) }
        }
    }

    fn word(attr_id: u16, len: usize, data: u64) -> ib_uverbs_attr {
        ib_uverbs_attr {
            attr_id,
            len: u16::try_from(len).unwrap(),
            flags: UVERBS_ATTR_F_MANDATORY,
            data,
            ..Default::default()
        }
    }

    fn output_to<T>(attr_id: u16, value: &mut T) -> ib_uverbs_attr {
        let address = ptr::from_mut(value).expose_provenance();
        word(attr_id, size_of::<T>(), address as u64)
    }

    #[test]
    fn a_legacy_command_is_answered_by_the_core_and_the_driver() {
        let (mut core, mut driver) = (
            ib_uverbs_get_context_resp::default(),
            mlx5_ib_alloc_ucontext_resp::default(),
        );
        let mut argument = Argument::new(
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_INVOKE_WRITE,
            &[
                word(
                    UVERBS_ATTR_WRITE_CMD,
                    8,
                    IB_USER_VERBS_CMD_GET_CONTEXT.into(),
                ),
                word(UVERBS_ATTR_CORE_IN, 8, 0),
                output_to(UVERBS_ATTR_CORE_OUT, &mut core),
                output_to(UVERBS_ATTR_UHW_OUT, &mut driver),
            ],
        );
        argument.issue().unwrap();
        assert_eq!(core.num_comp_vectors, 1);
        assert_eq!((driver.cqe_version, driver.num_ports), (1, 1));
        let written = argument.attrs[2].flags & UVERBS_ATTR_F_VALID_OUTPUT;
        assert_ne!(written, 0);
        // SAFETY: the reply gave the descriptor away.
        drop(unsafe { OwnedFd::from_raw_fd(core.async_fd.cast_signed()) });
    }

    #[test]
    fn a_page_of_doorbells_has_a_handle_and_a_length() {
        let mut length = 0_u32;
        let mut argument = Argument::new(
            MLX5_IB_OBJECT_UAR,
            MLX5_IB_METHOD_UAR_OBJ_ALLOC,
            &[
                word(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0),
                word(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8, 1),
                output_to(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &mut length),
            ],
        );
        argument.issue().unwrap();
        let handle = argument.attrs[0].data;
        assert_ne!(handle, 0);
        assert_eq!(length, 4096);
        let destroyed = [word(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 0, handle)];
        let method = MLX5_IB_METHOD_UAR_OBJ_DESTROY;
        let mut argument = Argument::new(MLX5_IB_OBJECT_UAR, method, &destroyed);
        argument.issue().unwrap();
    }

    #[test]
    fn what_the_kernel_does_not_have_is_refused_so_that_a_legacy_command_is_tried() {
        let mut method = Argument::new(UVERBS_OBJECT_DEVICE, 0x77, &[]);
        assert_eq!(method.issue(), Err(Errno::PROTONOSUPPORT));
        let what = (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
        let command = word(UVERBS_ATTR_WRITE_CMD, 8, 0x77);
        let mut argument = Argument::new(what.0, what.1, &[command, word(0x99, 0, 0)]);
        assert_eq!(argument.issue(), Err(Errno::PROTONOSUPPORT), "an attribute");
        argument.attrs[1].flags = 0;
        assert_eq!(argument.issue(), Err(Errno::OPNOTSUPP), "the command");
        let nowhere = word(UVERBS_ATTR_CORE_OUT, 8, 0);
        let mut argument = Argument::new(what.0, what.1, &[command, nowhere]);
        assert_eq!(argument.issue(), Err(Errno::FAULT));
    }
}
