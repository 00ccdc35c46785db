//! The only system calls of the library.
//!
//! Every ioctl, write, read and mmap on an RDMA file descriptor is a [`Call`]: a value that a
//! [`Kernel`] carries out. [`Linux`] is the real one. Tests put a fake or a hostile kernel in its
//! place, and a recorder can be wrapped around any of them, so the whole stack runs without a
//! device and every command can be read.

mod attr;
mod descriptor;
mod device;
mod fork;
mod ioctl;
mod kernel;
pub(crate) mod madvise;
mod map;
pub(crate) mod netlink;
pub(crate) mod open;
mod random;
pub mod recorder;
mod recvmmsg;
pub(crate) mod sysfs;
mod unwind;
mod wait;
mod write;

use std::os::fd::BorrowedFd;

pub use attr::{Attr, Command, Pointer, Uhw, Value, cells};
pub(crate) use attr::{number, slice_cells};
pub(crate) use descriptor::{NO_DESCRIPTOR, adopt_fd};
pub(crate) use device::is_driver;
pub use fork::ForkToken;
pub use kernel::{Call, Kernel, Linux, Reply};
pub use map::{Mapping, Protection};
pub use open::CharDevice;
pub use random::random_u32;
pub(crate) use unwind::contained;
pub(crate) use wait::wait_readable;
pub use write::WriteCommand;

use crate::error::Errno;

/// Makes reads of `fd` answer EAGAIN instead of waiting.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::NONBLOCK)
}

/// Bytes of a page of this machine.
pub fn page_size() -> usize {
    rustix::param::page_size()
}
