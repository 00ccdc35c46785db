//! The one way to a kernel: calls as values.
//!
//! # Safety
//!
//! Commands name memory by address: a kernel that registers it lets devices and peers use it. So
//! anybody may have a kernel, and [`Kernel::call`] is `unsafe`: its caller promises to look after
//! that.
#![allow(
    unsafe_code,
    reason = "says what a kernel, and whoever calls one, promises"
)]

use std::cell::Cell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::open::{CharDevice, number_of};
use super::{Command, Mapping, Protection, WriteCommand, device, ioctl, write};
use crate::error::{Errno, Result};
use crate::types::DriverId;

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
    ///
    /// # Safety
    /// 1. `fd` is a descriptor of a device that this kernel [takes calls on](Self::check_device),
    ///    or an event file that it handed out.
    /// 2. Neither the call, nor a request in a queue that it maps, makes a device or the kernel use
    ///    memory of this process in a way that breaks a rule of the language: memory is registered
    ///    and posted only while it stays allocated, and while nobody holds a reference that the use
    ///    of it contradicts.
    /// 3. What the call destroys or changes is the caller's own.
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno>;

    /// Refuses a descriptor that calls must not be made on: one that is no device of this kernel,
    /// or not of `driver`, if that is given.
    ///
    /// As it stands here it takes every descriptor: for kernels that look nothing up by it, or
    /// refuse in [`call`](Self::call). What it asks for that is not recorded. `number` is that of
    /// the device behind the descriptor, where the caller knows it.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with what the descriptor is.
    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        let _ = (fd, number, driver);
        Ok(())
    }
}

// SAFETY: what it hands out is what the kernel behind it hands out.
unsafe impl<K: Kernel + ?Sized> Kernel for Arc<K> {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller's promise is the one that the kernel behind it asks for.
        unsafe { (**self).call(fd, call) }
    }

    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        (**self).check_device(fd, number, driver)
    }
}

/// One call on an RDMA file descriptor, as a value.
#[derive(Clone, Copy, Debug)]
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
        /// The address where it would best lie, 0 for anywhere. What is there already stays: the
        /// memory is put elsewhere then.
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

// SAFETY: the running kernel installs the descriptors that it returns for the calling process. It
// is asked for them on devices alone, which its callers promise.
unsafe impl Kernel for Linux {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
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

    /// One system call where the number is not given or the driver is asked for, a few more where
    /// it is none of those fixed for the first 32 devices; and one for the driver.
    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        // Before something is asked of a descriptor, nobody's word is taken for what it is.
        let told = number.filter(|_| driver.is_none());
        device::check_verbs_device(told.map_or_else(|| number_of(fd), Ok)?)?;
        // SAFETY: the descriptor is of a verbs device, as just checked.
        driver.map_or(Ok(()), |driver| unsafe {
            device::check_driver(self, fd, driver)
        })
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
