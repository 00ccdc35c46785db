//! The one place where a [`Kernel`](crate::sys::Kernel) is called. An implementation may be foreign
//! code, and may panic.

use std::os::fd::{AsFd as _, BorrowedFd};

use super::{CmFile, UverbsFile};
use crate::error::Errno;
use crate::sys::{Call, Kernel as _, Reply, catch_panic};

impl UverbsFile {
    /// Passes `call` to the kernel, on the device's descriptor.
    #[inline]
    pub(super) fn call(&self, call: Call<'_>) -> Result<Reply, Errno> {
        self.call_on(self.fd.as_fd(), call)
    }

    /// The same on another descriptor.
    #[expect(unsafe_code, reason = "relies on the contract of `UverbsFile::new`")]
    #[inline]
    pub(super) fn call_on(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: (1) the caller of `UverbsFile::new` promised that `fd` is a device of this
        // kernel; the only other descriptors passed here are its event files. (2, 3) That promise
        // covers everything that is done with the file.
        catch_kernel_panic(|| unsafe { self.kernel.call(fd, call) })
    }
}

impl CmFile {
    /// Passes `call` to the kernel, on the connection manager's descriptor.
    #[expect(unsafe_code, reason = "relies on the contract of `CmFile::new`")]
    pub(super) fn call(&self, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: (1) the caller of `CmFile::new` promised that the descriptor is a connection
        // manager of this kernel, and only `Call::Cm` is passed here. (2) Its commands name no
        // memory but their own reply and value, and let no device access any. (3) Its ids are not
        // objects that memory depends on.
        catch_kernel_panic(|| unsafe { self.kernel.call(self.fd.as_fd(), call) })
    }
}

/// Calls a kernel. If it panics, the result is ENOTRECOVERABLE: whether the call was carried out is
/// unknown ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), and the caller
/// continues as after any other error.
///
/// The outputs of a call are cells of plain numbers and descriptors, so they are valid wherever the
/// kernel stops.
#[inline]
pub(super) fn catch_kernel_panic<R>(call: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    catch_panic(call).unwrap_or(Err(Errno::NOTRECOVERABLE))
}
