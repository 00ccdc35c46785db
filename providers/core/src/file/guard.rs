//! The one place where a kernel is called. It may be somebody else's code, and panic.

use std::os::fd::{AsFd as _, BorrowedFd};

use super::UverbsFile;
use crate::error::Errno;
use crate::sys::{Call, Kernel as _, Reply, contained};

impl UverbsFile {
    /// Gives `call` to the kernel, on the descriptor of the device.
    #[inline]
    pub(super) fn call(&self, call: Call<'_>) -> Result<Reply, Errno> {
        self.call_on(self.fd.as_fd(), call)
    }

    /// The same on another descriptor.
    #[expect(unsafe_code, reason = "spends the promise that the file was made with")]
    #[inline]
    pub(super) fn call_on(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: (1) whoever made the file promised that `fd` is a device of this kernel, whose
        // event files are the only other descriptors that come here; (2, 3) and the same of
        // everything that is done with the file.
        contained_answer(|| unsafe { self.kernel.call(fd, call) })
    }
}

/// Asks a kernel. One that panics ends with ENOTRECOVERABLE: whether it did what was asked is
/// unknown ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), and the caller goes
/// on as after such an errno.
///
/// The outputs of a call are cells of plain numbers and descriptors, whole whenever the kernel
/// stops.
#[inline]
pub(super) fn contained_answer<R>(ask: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    contained(ask).unwrap_or(Err(Errno::NOTRECOVERABLE))
}
