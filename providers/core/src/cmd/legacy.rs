//! Shared by the files of this folder: issuing legacy commands, and checking replies.

use std::cell::Cell;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Uhw, WriteCommand, cells};

/// The value of a handle slot until the kernel writes it. Handles start at 0 and fit 31 bits.
pub(super) const NO_HANDLE: u32 = u32::MAX;

/// A slot that shows whether the kernel wrote a handle.
pub(super) fn handle_slot() -> Cell<u32> {
    Cell::new(NO_HANDLE)
}

/// Checks that `raw` is the handle of a new object.
pub(super) fn new_handle(op: Op, raw: u32) -> Result<u32> {
    if i32::try_from(raw).is_ok() {
        Ok(raw)
    } else {
        Err(Error::bad_reply(op, "no handle for the new object"))
    }
}

/// A legacy command: its number, its encoding, and the operation it is for.
#[derive(Clone, Copy)]
pub(super) struct Legacy {
    op: Op,
    command: u32,
    extended: bool,
}

impl Legacy {
    /// An `IB_USER_VERBS_CMD_*`.
    pub(super) const fn plain(op: Op, command: u32) -> Self {
        Self {
            op,
            command,
            extended: false,
        }
    }

    /// An `IB_USER_VERBS_EX_CMD_*`.
    pub(super) const fn extended(op: Op, command: u32) -> Self {
        Self {
            op,
            command,
            extended: true,
        }
    }

    /// Issues it and returns the reply; fields that the kernel did not write keep their values in
    /// `reply`.
    pub(super) fn call<Q, R>(
        self,
        file: &UverbsFile,
        request: &Q,
        mut reply: R,
        uhw: &Uhw<'_>,
    ) -> Result<R>
    where
        Q: IntoBytes + Immutable + ?Sized,
        R: FromBytes + IntoBytes,
    {
        self.send(file, request.as_bytes(), cells(&mut reply), uhw)?;
        Ok(reply)
    }

    /// Issues it, for commands without a reply.
    pub(super) fn call_without_reply<Q>(
        self,
        file: &UverbsFile,
        request: &Q,
        uhw: &Uhw<'_>,
    ) -> Result<()>
    where
        Q: IntoBytes + Immutable + ?Sized,
    {
        self.send(file, request.as_bytes(), &[], uhw)
    }

    /// Issues it with a reply whose length is known only at run time.
    pub(super) fn send(
        self,
        file: &UverbsFile,
        request: &[u8],
        reply: &[Cell<u8>],
        uhw: &Uhw<'_>,
    ) -> Result<()> {
        file.legacy(self.op, &self.command(request, reply, uhw))
    }

    /// Issues it on the data path: see [`UverbsFile::issue_fast`].
    pub(super) fn issue_fast<Q>(
        self,
        file: &UverbsFile,
        request: &Q,
        reply: &[Cell<u8>],
    ) -> Result<(), Errno>
    where
        Q: IntoBytes + Immutable,
    {
        file.issue_fast(
            self.op,
            &self.command(request.as_bytes(), reply, &Uhw::NONE),
        )
    }

    fn command<'a>(
        self,
        request: &'a [u8],
        reply: &'a [Cell<u8>],
        uhw: &Uhw<'a>,
    ) -> WriteCommand<'a> {
        WriteCommand {
            command: self.command,
            extended: self.extended,
            request,
            reply,
            uhw: *uhw,
        }
    }
}

/// Adds an explanation of the errno to the failure of a create.
pub(super) fn explain_create(error: Error) -> Error {
    match error.errno() {
        Some(Errno::AGAIN) => {
            error.hint("the rdma cgroup of this process allows no more such objects (rdma.max)")
        }
        _ => error,
    }
}

/// The same for commands that pin memory.
pub(super) fn explain_pin(error: Error) -> Error {
    match error.errno() {
        Some(Errno::NOMEM) => error.hint(
            "raise the limit of locked memory (ulimit -l, LimitMEMLOCK=) or grant CAP_IPC_LOCK",
        ),
        Some(Errno::FAULT) => {
            error.hint("the range must be mapped, and writable for local or remote write")
        }
        _ => explain_create(error),
    }
}
