//! Waking a thread that waits for a descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Op, Result};

/// Ends [`UverbsFile::wait_readable_or`](crate::file::UverbsFile::wait_readable_or) from another
/// thread (`eventfd(2)`).
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// One that has not been rung. One system call.
    ///
    /// # Errors
    /// The errno of `eventfd(2)`: EMFILE or ENFILE for too many descriptors.
    pub fn new(op: Op) -> Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|errno| Error::os(op, errno))
    }

    /// Ends the wait of whoever waits, or the next one. One system call; never blocks.
    pub fn ring(&self) {
        // It can only fail when it has been rung 2^64 times: then it is readable, too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes waits last again. One system call; never blocks.
    pub fn silence(&self) {
        // It fails when it was not rung.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// The descriptor, which is readable once it was rung.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
