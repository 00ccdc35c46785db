//! All system calls of the library.
//!
//! Every ioctl, write, read and mmap on an RDMA file descriptor is a [`Call`]: a value that a
//! [`Kernel`] carries out. [`Linux`] is the real one. Tests substitute a fake or a hostile kernel,
//! and a recorder can wrap any of them, so the whole stack runs without a device and every command
//! can be inspected.

mod attr;
mod bell;
mod cm;
mod descriptor;
mod device;
mod fork;
mod ioctl;
mod kernel;
pub(crate) mod madvise;
mod map;
pub(crate) mod netlink;
pub(crate) mod open;
mod processors;
mod random;
pub mod recorder;
mod recvmmsg;
mod route;
mod shared_memory;
pub(crate) mod sysfs;
mod unwind;
mod wait;
mod write;

use std::os::fd::BorrowedFd;

pub use attr::{Attr, Command, Pointer, Uhw, Value, cells};
pub(crate) use attr::{number, slice_cells};
pub use bell::Bell;
pub use cm::CmCommand;
pub(crate) use descriptor::{NO_DESCRIPTOR, adopt_fd};
pub(crate) use device::{CM, check_cm_device, is_driver};
pub use fork::ForkToken;
pub use kernel::{Call, Kernel, Linux, Reply};
pub use map::{Mapping, Protection};
pub use open::CharDevice;
pub use processors::has_one_processor;
pub use random::random_u32;
pub use recorder::fields::{Place, find as struct_layout, places as struct_places};
pub(crate) use route::send_byte;
pub use route::source_towards;
pub use shared_memory::{PageSize, SharedMemory};
pub(crate) use unwind::catch_panic;
pub(crate) use wait::wait_readable;
pub use write::WriteCommand;

use crate::error::Errno;

/// Makes reads of `fd` fail with EAGAIN instead of blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::NONBLOCK)
}

/// The page size of this machine, in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}
