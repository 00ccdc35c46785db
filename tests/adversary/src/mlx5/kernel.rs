//! Dispatches the library's calls.
//!
//! # Safety
//!
//! Descriptors that it returns, as objects or by number, are open and owned by nobody else.
#![allow(unsafe_code, reason = "is a kernel")]

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use uverbs_core::Errno;
use uverbs_core::sys::{Call, Command, Kernel, Mapping, Reply, Uhw, Value};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE,
    UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_OBJECT_UAR,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Card;

/// A legacy command, as carried in an ioctl.
pub(super) struct Legacy<'a> {
    pub(super) number: u32,
    request: &'a [u8],
    reply: &'a [Cell<u8>],
    uhw: &'a Uhw<'a>,
}

impl Legacy<'_> {
    /// The core's request.
    pub(super) fn request<T: FromBytes>(&self) -> Result<T, Errno> {
        T::read_from_prefix(self.request)
            .map(|(words, _)| words)
            .map_err(|_| Errno::INVAL)
    }

    /// The driver's request.
    pub(super) fn driver<T: FromBytes>(&self) -> Result<T, Errno> {
        T::read_from_prefix(self.uhw.input)
            .map(|(words, _)| words)
            .map_err(|_| Errno::INVAL)
    }

    /// The core's reply.
    pub(super) fn answer<T: IntoBytes + Immutable>(&self, reply: &T) {
        put(self.reply, reply);
    }

    /// The driver's reply.
    pub(super) fn reply<T: IntoBytes + Immutable>(&self, reply: &T) {
        put(self.uhw.output, reply);
    }
}

/// Copies a reply into its cells, as far as it fits.
fn put<T: IntoBytes + Immutable>(cells: &[Cell<u8>], value: &T) {
    for (cell, byte) in cells.iter().zip(value.as_bytes()) {
        cell.set(*byte);
    }
}

/// A newly opened descriptor.
pub(super) fn descriptor() -> Result<OwnedFd, Errno> {
    File::open("/dev/null")
        .map(OwnedFd::from)
        .map_err(|_| Errno::MFILE)
}

/// The number of a descriptor whose ownership is given away.
pub(super) fn given_away() -> Result<u32, Errno> {
    u32::try_from(descriptor()?.into_raw_fd()).map_err(|_| Errno::MFILE)
}

fn ioctl(card: &Card, command: &Command<'_>) -> Result<(), Errno> {
    let what = (command.object, command.method);
    if what == (MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC) {
        allocate_uar(card, command);
        return Ok(());
    }
    // Otherwise the only ioctl is the one that frees such a page.
    if command.object == MLX5_IB_OBJECT_UAR {
        return Ok(());
    }
    if what != (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) {
        return Err(Errno::PROTONOSUPPORT);
    }
    let part = |id| {
        let mut attrs = command.attrs.iter();
        attrs
            .find(move |attr| attr.id == id)
            .map(|attr| &attr.value)
    };
    let number = match part(UVERBS_ATTR_WRITE_CMD) {
        Some(Value::Constant(number)) => u32::try_from(*number).map_err(|_| Errno::INVAL)?,
        _ => return Err(Errno::INVAL),
    };
    let request = match part(UVERBS_ATTR_CORE_IN) {
        Some(Value::In(bytes, _)) => *bytes,
        _ => &[],
    };
    let reply = match part(UVERBS_ATTR_CORE_OUT) {
        Some(Value::Out(cells, written)) => {
            written.set(true);
            *cells
        }
        _ => &[],
    };
    card.carry_out(&Legacy {
        number,
        request,
        reply,
        uhw: &command.uhw,
    })
}

/// Allocates a page of doorbells. Nothing listens there: the device's doorbell is rung when records
/// have moved.
fn allocate_uar(card: &Card, command: &Command<'_>) {
    for attr in command.attrs.iter().chain(command.uhw.attrs) {
        match &attr.value {
            Value::Out(cells, written) => {
                if attr.id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH {
                    put(cells, &4096_u32);
                }
                written.set(true);
            }
            Value::NewObject(slot) => slot.set(card.handle()),
            _ => {}
        }
    }
}

// SAFETY: descriptors in replies are new ones, given away here.
unsafe impl Kernel for Card {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => ioctl(self, command).map(|()| Reply::Done),
            Call::Map { len, .. } => Mapping::anonymous(len).map(Reply::Mapped),
            // There are no events; and whatever is written here was not requested.
            _ => Err(Errno::AGAIN),
        }
    }
}
