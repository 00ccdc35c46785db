//! The one way to a kernel: calls as values.
//!
//! # Safety
//!
//! Commands name memory by address: a kernel that registers it lets devices and peers use it. So
//! the real kernel is had only through [`Linux::new`], whose caller promises to look after that.
#![allow(
    unsafe_code,
    reason = "says what a kernel, and whoever uses the real one, promises"
)]

use std::cell::Cell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Command, Mapping, Protection, WriteCommand, ioctl, write};
use crate::error::Errno;

/// Carries out calls on RDMA file descriptors.
///
/// An implementation answers a call completely or not at all: on `Err` no output cell of the call
/// may be relied on, but for EREMOTEIO, with which a device's own words come back.
///
/// # Safety
/// Descriptors that it hands out, in attributes or by number in the replies of `GET_CONTEXT` and
/// `CREATE_COMP_CHANNEL`, are open and belong to the caller from then on.
pub unsafe trait Kernel: fmt::Debug + Send + Sync {
    /// Carries out one call on `fd`.
    ///
    /// # Errors
    /// The errno of the system call.
    fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno>;
}

// SAFETY: what it hands out is what the kernel behind it hands out.
unsafe impl<K: Kernel + ?Sized> Kernel for Arc<K> {
    fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        (**self).call(fd, call)
    }
}

/// One call on an RDMA file descriptor, as a value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'a> {
    /// `ioctl(RDMA_VERBS_IOCTL)`: a method of an object with its attributes.
    Ioctl(&'a Command<'a>),
    /// `write(2)` of a legacy command.
    Write(&'a WriteCommand<'a>),
    /// `read(2)` of an event.
    Read(&'a [Cell<u8>]),
    /// `mmap(2)` of device or queue memory.
    Map {
        /// The kernel's cookie for the memory, in bytes.
        offset: u64,
        /// Bytes; not zero.
        len: usize,
        /// What this process may do with it.
        protection: Protection,
        /// The address where it would best lie, 0 for anywhere. What is there already stays: the memory is put elsewhere then.
        near: usize,
    },
}

/// What a [`Call`] gives back besides its output cells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The command was carried out.
    Done,
    /// So many bytes were read.
    Read(usize),
    /// The memory is mapped.
    Mapped(Mapping),
}

/// The kernel this process runs on.
#[derive(Debug)]
pub struct Linux(());

impl Linux {
    /// The way to the running kernel.
    ///
    /// # Safety
    /// No command given to it, and no request put into a queue it mapped, makes a device use memory
    /// of this process in a way that breaks a rule of the language: memory is registered and posted
    /// only while it stays allocated, and while nobody holds a reference that the device's use of it contradicts.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: the running kernel installs the descriptors that it returns for the calling process.
unsafe impl Kernel for Linux {
    fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => ioctl::verbs_ioctl(fd, command).map(|()| Reply::Done),
            Call::Write(command) => write::write_command(fd, command).map(|()| Reply::Done),
            Call::Read(buffer) => read(fd, buffer).map(Reply::Read),
            Call::Map {
                offset,
                len,
                protection,
                near,
            } => Mapping::of_fd(fd, offset, len, protection, near).map(Reply::Mapped),
        }
    }
}

fn read(fd: BorrowedFd<'_>, buffer: &[Cell<u8>]) -> Result<usize, Errno> {
    write::with_buffer(buffer.len(), |bytes| {
        let count = rustix::io::read(fd, &mut *bytes)?;
        for (cell, byte) in buffer.iter().zip(&*bytes).take(count) {
            cell.set(*byte);
        }
        Ok(count)
    })
}
