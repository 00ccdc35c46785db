//! A log of the calls to the fake kernel, for assertions.

use crate::fault::invoked;
use uverbs_core::error::Errno;
use uverbs_core::sys::{Call, Protection};

/// One call, as the kernel saw it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The request.
    pub call: CallKind,
    /// The result.
    pub answer: Result<(), Errno>,
}

/// The request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CallKind {
    /// An ioctl method of an object, by `UVERBS_OBJECT_*` and `UVERBS_METHOD_*`.
    Method(u16, u16),
    /// A legacy command through `INVOKE_WRITE`, by its number with flags.
    Invoked(u32),
    /// A legacy command through `write(2)`, by its number with flags.
    Written(u32),
    /// A command of the connection manager, by its number.
    Cm(u32),
    /// `mmap(2)`.
    Map {
        /// Offset.
        offset: u64,
        /// Bytes.
        len: usize,
        /// How the memory may be accessed.
        protection: Protection,
    },
    /// `read(2)` into a buffer of this many bytes.
    Read(usize),
}

impl CallKind {
    pub(super) fn of(call: &Call<'_>) -> Self {
        match *call {
            Call::Ioctl(command) => match invoked(command) {
                Some(number) => Self::Invoked(number),
                None => Self::Method(command.object, command.method),
            },
            Call::Write(command) => Self::Written(command.number()),
            Call::Cm(command) => Self::Cm(command.command),
            Call::Read(buffer) => Self::Read(buffer.len()),
            Call::Map {
                offset,
                len,
                protection,
                ..
            } => Self::Map {
                offset,
                len,
                protection,
            },
        }
    }
}
