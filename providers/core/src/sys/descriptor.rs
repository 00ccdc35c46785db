//! Descriptors as numbers: those that come in replies of legacy commands, and those that are closed
//! in one system call.
//!
//! # Safety
//!
//! The kernel installs a new descriptor for `GET_CONTEXT` and `CREATE_COMP_CHANNEL` and tells its
//! number in the reply; nobody else knows it. Every [`Kernel`](super::Kernel) promises that: a
//! number that it wrote into such a reply is that of a descriptor which the caller owns from then
//! on. Where it wrote none, there is still the mark that the caller put there, which is no number
//! of a descriptor. A [`Descriptor`] keeps its owner, and takes it out to close it when it is
//! dropped itself.
#![allow(
    unsafe_code,
    reason = "takes and ends ownership of descriptors by their numbers"
)]

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

/// What stands for a descriptor in a reply until the kernel writes its number.
pub(crate) const NO_DESCRIPTOR: u32 = u32::MAX;

/// Takes over the descriptor `number` of a reply that was [`NO_DESCRIPTOR`] before the command, if
/// it is one.
pub(crate) fn adopt_fd(number: u32) -> Option<OwnedFd> {
    let raw = RawFd::try_from(number).ok()?;
    // SAFETY: the two callers put the mark into the reply, which is no `RawFd`, and pass what
    // stands there after a successful command, once each. So the kernel wrote the number, and by
    // the rule above the descriptor is open and has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// A descriptor that is closed by one system call in every build. [`OwnedFd`] takes another one
/// first, where the debug assertions of the standard library are on.
#[derive(Debug)]
pub(super) struct Descriptor(ManuallyDrop<OwnedFd>);

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Self(ManuallyDrop::new(fd))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: nothing uses the field after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: `fd` was the owner, and gave its number to nobody else.
        unsafe { rustix::io::close(fd.into_raw_fd()) };
    }
}
