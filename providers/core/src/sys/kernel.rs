//! The interface to a kernel: calls as values.
//!
//! # Safety
//!
//! Commands name memory by address, and a kernel that registers memory lets devices and peers
//! access it. So anyone may hold a kernel, but [`Kernel::call`] is `unsafe`: its caller is
//! responsible for that memory.
#![allow(
    unsafe_code,
    reason = "defines what kernels, and their callers, must uphold"
)]

use std::cell::Cell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::open::{CharDevice, number_of};
use super::{CmCommand, Command, Mapping, Protection, WriteCommand, cm, device, ioctl, write};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::types::DriverId;

/// Carries out calls on RDMA file descriptors.
///
/// An implementation carries out a call completely or not at all: after `Err` no output cell of the
/// call may be relied on, except with EREMOTEIO, which comes with the device's own output.
///
/// # Safety
/// Descriptors that an implementation returns, in attributes or by number in the replies of
/// `GET_CONTEXT` and `CREATE_COMP_CHANNEL`, are open and owned by the caller from then on.
pub unsafe trait Kernel: fmt::Debug + Send + Sync {
    /// Carries out one call on `fd`.
    ///
    /// # Errors
    /// The errno of the system call.
    ///
    /// # Safety
    /// 1. `fd` is a descriptor of a device that this kernel [takes calls on](Self::check_device),
    ///    or an event file that it returned; for [`Call::Cm`] it is a connection manager file that
    ///    this kernel takes calls on (`/dev/infiniband/rdma_cm`), and no other call goes to such a
    ///    file.
    /// 2. Neither the call, nor a request in a queue that it maps, makes a device or the kernel
    ///    access memory of this process in a way that violates Rust's rules: memory is registered
    ///    and posted only while it stays allocated, and while no reference exists that the access
    ///    would violate.
    /// 3. The caller owns the objects that the call destroys or modifies.
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno>;

    /// Refuses a descriptor that is not a device of this kernel, or not one of `driver`, if that is
    /// given.
    ///
    /// The default implementation accepts every descriptor: for kernels that do not use the
    /// descriptor, or that refuse in [`call`](Self::call). Calls made for the check are not
    /// recorded. `number` is that of the device behind the descriptor, if the caller knows it.
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

    /// Refuses a descriptor that is not a connection manager of this kernel
    /// (`/dev/infiniband/rdma_cm`).
    ///
    /// The default implementation refuses every descriptor. `number` is that of the device behind
    /// the descriptor, if the caller knows it.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with what the descriptor is;
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the kernel has no connection manager.
    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> Result<()> {
        let _ = (fd, number);
        Err(
            Error::new(Op::OpenConnectionManager, ErrorKind::Unsupported)
                .hint("this `Kernel` has no connection manager"),
        )
    }
}

// SAFETY: the descriptors that it returns are those that the kernel behind it returns.
unsafe impl<K: Kernel + ?Sized> Kernel for Arc<K> {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller upholds the same contract for the kernel behind it.
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

    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> Result<()> {
        (**self).check_connection_manager(fd, number)
    }
}

/// One call on an RDMA file descriptor, as a value.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// `ioctl(RDMA_VERBS_IOCTL)`: a method of an object with its attributes.
    Ioctl(&'a Command<'a>),
    /// `write(2)` of a legacy command.
    Write(&'a WriteCommand<'a>),
    /// `write(2)` of a command of the connection manager.
    Cm(&'a CmCommand<'a>),
    /// `read(2)` of an event.
    Read(&'a [Cell<u8>]),
    /// `mmap(2)` of device or queue memory.
    Map {
        /// The offset by which the kernel knows the memory, in bytes.
        offset: u64,
        /// Bytes; not zero.
        len: usize,
        /// How this process may access it.
        protection: Protection,
        /// The preferred address, or 0 for any. If the range is in use, the memory is mapped
        /// elsewhere.
        near: usize,
    },
}

/// What a [`Call`] returns besides its output cells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The command was carried out.
    Done,
    /// This many bytes were read.
    Read(usize),
    /// The memory is mapped.
    Mapped(Mapping),
}

/// The running Linux kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

// SAFETY: the running kernel installs the descriptors that it returns for the calling process.
// Calls are made only on devices, which the caller promises.
unsafe impl Kernel for Linux {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => ioctl::verbs_ioctl(fd, command).map(|()| Reply::Done),
            Call::Write(command) => write::write_command(fd, command).map(|()| Reply::Done),
            Call::Cm(command) => cm::write_cm(fd, command).map(|()| Reply::Done),
            Call::Read(buffer) => read(fd, buffer).map(Reply::Read),
            Call::Map {
                offset,
                len,
                protection,
                near,
            } => Mapping::of_fd(fd, offset, len, protection, near).map(Reply::Mapped),
        }
    }

    /// One system call if the number is not given or the driver is checked, a few more if the
    /// number is not one of those fixed for the first 32 devices; and one for the driver.
    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        // Before a command is issued on a descriptor, the caller's number is not trusted.
        let known_number = number.filter(|_| driver.is_none());
        device::check_verbs_device(known_number.map_or_else(|| number_of(fd), Ok)?)?;
        // SAFETY: the descriptor is that of a verbs device, as just checked.
        driver.map_or(Ok(()), |driver| unsafe {
            device::check_driver(self, fd, driver)
        })
    }

    /// One system call if the number is not given; a few more to find out what number the
    /// connection manager has.
    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> Result<()> {
        device::check_cm_device(number.map_or_else(|| number_of(fd), Ok)?)
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
