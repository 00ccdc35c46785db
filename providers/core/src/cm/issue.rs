//! Shared by the files of this folder: issuing commands.

use std::cell::Cell;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, Op, Result};
use crate::file::CmFile;
use crate::sys::{CmCommand, cells};

/// The value of a number in a reply until the kernel writes it. Ids are counted from 0, and so are
/// events.
pub(super) const UNWRITTEN: u32 = u32::MAX;

/// A command: its number, and the operation it is for.
#[derive(Clone, Copy)]
pub(super) struct Cm {
    pub(super) op: Op,
    pub(super) command: u32,
}

impl Cm {
    pub(super) const fn new(op: Op, command: u32) -> Self {
        Self { op, command }
    }

    /// Issues it and returns the reply; fields that the kernel did not write keep their values in
    /// `reply`.
    pub(super) fn call<Q, R>(self, file: &CmFile, request: &Q, mut reply: R) -> Result<R>
    where
        Q: IntoBytes + Immutable,
        R: FromBytes + IntoBytes,
    {
        self.send(file, request.as_bytes(), cells(&mut reply), &[])?;
        Ok(reply)
    }

    /// Issues it, for commands without a reply.
    pub(super) fn call_without_reply<Q>(self, file: &CmFile, request: &Q) -> Result<()>
    where
        Q: IntoBytes + Immutable,
    {
        self.send(file, request.as_bytes(), &[], &[])
    }

    pub(super) fn send(
        self,
        file: &CmFile,
        request: &[u8],
        reply: &[Cell<u8>],
        value: &[u8],
    ) -> Result<()> {
        file.command(
            self.op,
            &CmCommand {
                command: self.command,
                request,
                reply,
                value,
            },
        )
    }
}

/// Checks that the kernel wrote a number of its reply.
pub(super) fn written(op: Op, number: u32, what: &'static str) -> Result<u32> {
    if number == UNWRITTEN {
        return Err(Error::bad_reply(op, what));
    }
    Ok(number)
}

/// Milliseconds for a command; a longer time becomes the longest that its field holds.
pub(super) fn milliseconds(time: std::time::Duration) -> u32 {
    // Rounded up: the kernel takes 0 for "at once", or refuses it.
    let whole = time.as_millis();
    let rounded = if time.subsec_nanos().is_multiple_of(1_000_000) {
        whole
    } else {
        whole + 1
    };
    // The kernel converts to an int.
    u32::try_from(rounded)
        .unwrap_or(u32::MAX)
        .min(i32::MAX.unsigned_abs())
}
