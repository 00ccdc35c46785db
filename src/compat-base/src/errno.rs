//! Errors as C programs see them: numbers.
//!
//! # Safety
//!
//! `__errno_location` (under its name of the C library) returns the address of the calling thread's
//! `errno`, which is written here and nowhere else.
#![allow(unsafe_code, reason = "sets errno")]

use std::ffi::c_int;

use uverbs_core::{Error, ErrorKind, PostError};

/// An errno.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Code(c_int);

impl Code {
    /// A wrong argument.
    pub const INVALID: Self = Self(libc::EINVAL);
    /// Not supported by the device, the kernel, or this library.
    pub const UNSUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// Something still uses the object.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// A queue is full.
    pub const NO_ROOM: Self = Self(libc::ENOMEM);
    /// There is no such entry.
    pub const NO_ENTRY: Self = Self(libc::ENOENT);
    /// The entry is empty.
    pub const NO_DATA: Self = Self(libc::ENODATA);
    /// EREMOTEIO: the device refused a command.
    pub const REFUSED: Self = Self(libc::EREMOTEIO);
    /// There is no RDMA in the kernel.
    pub const NO_SYSTEM: Self = Self(libc::ENOSYS);
    /// The library failed in a way that it should not.
    pub const PANICKED: Self = Self(libc::ENOTRECOVERABLE);

    /// The errno with this number.
    pub const fn new(number: c_int) -> Self {
        Self(number)
    }

    /// Its number, positive.
    pub const fn number(self) -> c_int {
        self.0
    }

    /// The last error of the C library in this thread.
    pub fn last() -> Self {
        let number = std::io::Error::last_os_error().raw_os_error();
        Self(number.unwrap_or(libc::EIO))
    }
}

/// Sets `errno`.
pub fn set(code: Code) {
    // SAFETY: the function has no conditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is this thread's own, for as long as it lives.
    unsafe { place.write(code.number()) };
}

/// The table of control-path errors.
///
/// Unsupported is EOPNOTSUPP whatever the kernel called it: programs test for exactly that.
impl From<Error> for Code {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Code {
    fn from(error: &Error) -> Self {
        if error.kind() == ErrorKind::Unsupported {
            return Self::UNSUPPORTED;
        }
        if let Some(errno) = error.errno() {
            return Self(errno.raw_os_error());
        }
        Self(match error.kind() {
            ErrorKind::PermissionDenied => libc::EPERM,
            ErrorKind::OutOfResources => libc::ENOMEM,
            ErrorKind::NotFound => libc::ENOENT,
            ErrorKind::Busy => libc::EBUSY,
            ErrorKind::DeviceRemoved | ErrorKind::BadReply => libc::EIO,
            ErrorKind::WouldBlock => libc::EAGAIN,
            ErrorKind::Interrupted => libc::EINTR,
            ErrorKind::TimedOut => libc::ETIMEDOUT,
            ErrorKind::Panicked => libc::ENOTRECOVERABLE,
            _ => libc::EINVAL,
        })
    }
}

/// The table of posting errors.
impl From<PostError> for Code {
    fn from(error: PostError) -> Self {
        Self(match error {
            PostError::QueueFull => libc::ENOMEM,
            PostError::UnsupportedOperation => libc::EOPNOTSUPP,
            PostError::Doorbell(errno) => errno.raw_os_error(),
            PostError::Poisoned => libc::EIO,
            _ => libc::EINVAL,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs_core::{Errno, Op};

    #[test]
    fn refusals_without_an_errno_have_one_here() {
        let of = |kind| Code::from(Error::new(Op::CreateQueuePair, kind)).number();
        assert_eq!(of(ErrorKind::LimitExceeded), libc::EINVAL);
        assert_eq!(of(ErrorKind::InvalidState), libc::EINVAL);
        assert_eq!(of(ErrorKind::Forked), libc::EINVAL);
        assert_eq!(of(ErrorKind::Busy), libc::EBUSY);
        assert_eq!(of(ErrorKind::OutOfResources), libc::ENOMEM);
        assert_eq!(of(ErrorKind::Unsupported), libc::EOPNOTSUPP);
    }

    #[test]
    fn unsupported_has_one_number() {
        for errno in [Errno::NOSYS, Errno::NOTTY, Errno::PROTONOSUPPORT] {
            let error = Error::os(Op::CreateFlow, errno);
            assert_eq!(Code::from(error), Code::UNSUPPORTED);
        }
        let error = Error::os(Op::CreateFlow, Errno::AGAIN);
        assert_eq!(Code::from(error).number(), libc::EAGAIN);
    }

    #[test]
    fn errno_is_what_was_set() {
        set(Code::NO_DATA);
        assert_eq!(Code::last(), Code::NO_DATA);
    }
}
