//! Descriptors as numbers: those in replies of legacy commands, and those closed by one system
//! call.
//!
//! # Safety
//!
//! The kernel installs a new descriptor for `GET_CONTEXT` and `CREATE_COMP_CHANNEL` and returns its
//! number in the reply; nothing else knows the number. Every [`Kernel`](super::Kernel) promises
//! that a number that it wrote into such a reply is that of an open descriptor which the caller
//! owns from then on. If it wrote none, the reply still contains the marker that the caller put
//! there, which is never the number of a descriptor. A [`Descriptor`] holds its `OwnedFd`, and
//! takes it out to close it when it is dropped itself.
#![allow(
    unsafe_code,
    reason = "takes and ends ownership of descriptors by their numbers"
)]

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

/// The marker in a reply until the kernel writes the number of a descriptor.
pub(crate) const NO_DESCRIPTOR: u32 = u32::MAX;

/// Takes ownership of the descriptor `number` of a reply that held [`NO_DESCRIPTOR`] before the
/// command; `None` if it still does.
pub(crate) fn adopt_fd(number: u32) -> Option<OwnedFd> {
    let raw = RawFd::try_from(number).ok()?;
    // SAFETY: the two callers put the marker into the reply, which is not a valid `RawFd`, and pass
    // the value after a successful command, once each. So the kernel wrote the number, and by the
    // rule above the descriptor is open and has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// A descriptor that is closed by exactly one system call in every build. [`OwnedFd`] makes another
/// one first if the debug assertions of the standard library are enabled.
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
        // SAFETY: the field is not used after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: `fd` owned the descriptor and is consumed here, so nothing else closes it.
        unsafe { rustix::io::close(fd.into_raw_fd()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::wait_readable;

    #[test]
    fn a_descriptor_is_closed_when_it_is_dropped() {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = Descriptor::from(OwnedFd::from(writer));
        let look = || wait_readable(reader.as_fd(), None, Some(std::time::Duration::ZERO));
        assert_eq!(look(), Ok(None), "open");
        assert!(rustix::io::write(&writer, b"x").is_ok());
        assert_eq!(look(), Ok(Some(true)));
        rustix::io::read(&reader, &mut [0; 1]).unwrap();
        drop(writer);
        assert_eq!(look(), Ok(Some(false)), "hung up");
    }

    #[test]
    fn a_marker_is_no_descriptor() {
        assert!(adopt_fd(NO_DESCRIPTOR).is_none());
        assert!(adopt_fd(0x8000_0000).is_none());
    }
}
