//! An opened connection manager.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::sys::{Bell, Call, CmCommand, ForkToken, Kernel, set_nonblocking, wait_readable};

/// An opened `/dev/infiniband/rdma_cm`: an event channel, and the ids whose events it queues.
///
/// The functions of [`cm`](crate::cm) issue commands through it. It may be used from any thread;
/// commands for different ids run at the same time. The kernel takes commands only from the process
/// that opened it, and only while that process has the credentials that it had then.
///
/// Dropping it closes the descriptor. If that was the last one, the kernel destroys all ids before
/// `close(2)` returns, which takes seconds if there are a thousand connections.
#[derive(Debug)]
pub struct CmFile {
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) fd: OwnedFd,
    fork: ForkToken,
}

impl CmFile {
    /// Creates a file over `fd`, an opened connection manager.
    ///
    /// [`cm::open`](crate::cm::open) finds and opens that of the running kernel.
    ///
    /// # Safety
    /// 1. `fd` is a connection manager that `kernel` takes calls on: another file may take a
    ///    command for one of its own.
    #[expect(
        unsafe_code,
        reason = "another file may understand a command otherwise"
    )]
    pub unsafe fn new(kernel: Arc<dyn Kernel>, fd: OwnedFd) -> Self {
        Self {
            kernel,
            fd,
            fork: ForkToken::current(),
        }
    }

    /// Issues a command. One system call.
    ///
    /// # Errors
    /// The kernel's errno. [`ErrorKind::Forked`] in a child, before any system call.
    /// [`ErrorKind::PermissionDenied`] (EACCES): the process has other credentials than when it
    /// opened the file. [`ErrorKind::DeviceRemoved`] (ENXIO): the id's device is gone; the id can
    /// only be destroyed.
    pub fn command(&self, op: Op, command: &CmCommand<'_>) -> Result<()> {
        self.check_process(op)?;
        self.call(Call::Cm(command))
            .map(drop)
            .map_err(|errno| failure(op, errno))
    }

    /// Waits until there is an event, for at most `timeout` (`None`: without limit). Returns false
    /// after the timeout. One `poll(2)`; continues after a signal.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`] in a child; the errno of `poll(2)`.
    pub fn wait_event(&self, timeout: Option<Duration>) -> Result<bool> {
        self.wait_event_or(None, timeout)
    }

    /// As [`wait_event`](Self::wait_event); also ends, as if the time were up, once `bell` was
    /// rung.
    ///
    /// # Errors
    /// As there.
    pub fn wait_event_or(&self, bell: Option<&Bell>, timeout: Option<Duration>) -> Result<bool> {
        let op = Op::CmGetEvent;
        self.check_process(op)?;
        match wait_readable(self.fd(), bell, timeout) {
            Ok(readable) => Ok(readable == Some(true)),
            Err(errno) => Err(Error::os(op, errno)),
        }
    }

    /// Makes [`get_event`](crate::cm::get_event) fail with
    /// [`WouldBlock`](ErrorKind::WouldBlock) instead of waiting. No other command waits for a peer.
    /// One system call.
    ///
    /// # Errors
    /// The errno of `fcntl(2)`.
    pub fn set_nonblocking(&self) -> Result<()> {
        set_nonblocking(self.fd()).map_err(|errno| Error::os(Op::OpenConnectionManager, errno))
    }

    /// Refuses `op` in a child of the process that opened the file.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn check_process(&self, op: Op) -> Result<()> {
        if self.fork.is_current() {
            return Ok(());
        }
        Err(Error::new(op, ErrorKind::Forked)
            .hint("the kernel takes no commands from a child: open the connection manager in it"))
    }

    /// The descriptor, for waiting until it is readable (`epoll`): it is when there is an event.
    ///
    /// # Safety
    /// 1. Nothing is written to the descriptor or a copy of it: a command names memory that the
    ///    kernel writes to.
    #[expect(unsafe_code, reason = "commands can be written to it")]
    pub unsafe fn event_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The descriptor. It stays in this crate: commands that are written to it name memory that the
    /// kernel writes replies to.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn failure(op: Op, errno: Errno) -> Error {
    let error = Error::os(op, errno);
    match errno {
        Errno::ACCESS => error.hint(
            "the process changed its user, groups, capabilities or namespaces after it opened the \
             connection manager: open it afterwards",
        ),
        Errno::NXIO => error
            .with_kind(ErrorKind::DeviceRemoved)
            .hint("the device of this id was removed: destroy the id"),
        Errno::AGAIN if op == Op::CmGetEvent => error.with_kind(ErrorKind::WouldBlock),
        Errno::NOTRECOVERABLE => error
            .hint("the given `Kernel` panicked: whether the command was carried out is unknown"),
        _ => error,
    }
}
