//! Classes of failure, and the names of errnos.

use std::fmt;
use std::io;

use super::Errno;

/// The class of a control-path failure.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument, or a combination of arguments, is invalid (EINVAL, EFAULT, ERANGE).
    InvalidInput,
    /// The request exceeds a limit of the device or of this library; the facts say which.
    LimitExceeded,
    /// The kernel or the device does not support the operation (EOPNOTSUPP, EPROTONOSUPPORT,
    /// ENOSYS, ENOTTY).
    Unsupported,
    /// This process may not do it (EPERM, EACCES).
    PermissionDenied,
    /// Memory, locked memory, handles or device resources ran out (ENOMEM, ENOSPC, EMFILE, ENFILE,
    /// EAGAIN of a cgroup).
    OutOfResources,
    /// There is no such device, port, entry or object (ENOENT, ENODEV, ENXIO, ENODATA).
    NotFound,
    /// The object is still in use (EBUSY, EEXIST).
    Busy,
    /// The device was removed while it was open (EIO after a removal, ENOLINK after a fatal error
    /// of an mlx5 device).
    DeviceRemoved,
    /// The handle was created before `fork`, and this process is the child.
    Forked,
    /// The object's state does not allow the operation.
    InvalidState,
    /// The kernel's reply is incomplete or invalid.
    BadReply,
    /// Nothing is available yet, and the descriptor is non-blocking (EAGAIN).
    WouldBlock,
    /// Interrupted by a signal (EINTR).
    Interrupted,
    /// The time limit passed (ETIMEDOUT).
    TimedOut,
    /// The `Kernel` implementation that the context was given panicked (reported as
    /// ENOTRECOVERABLE).
    Panicked,
    /// Any other errno.
    Other,
}

impl ErrorKind {
    pub(super) fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::INVAL | Errno::FAULT | Errno::RANGE | Errno::OVERFLOW | Errno::TOOBIG => {
                Self::InvalidInput
            }
            Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::NOSYS | Errno::NOTTY => {
                Self::Unsupported
            }
            Errno::PERM | Errno::ACCESS => Self::PermissionDenied,
            Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE | Errno::AGAIN => {
                Self::OutOfResources
            }
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NODATA => Self::NotFound,
            Errno::BUSY | Errno::EXIST => Self::Busy,
            Errno::INTR => Self::Interrupted,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::NOTRECOVERABLE => Self::Panicked,
            _ => Self::Other,
        }
    }

    pub(super) fn io_kind(self) -> io::ErrorKind {
        match self {
            Self::InvalidInput | Self::LimitExceeded => io::ErrorKind::InvalidInput,
            Self::Unsupported => io::ErrorKind::Unsupported,
            Self::PermissionDenied => io::ErrorKind::PermissionDenied,
            Self::OutOfResources => io::ErrorKind::OutOfMemory,
            Self::NotFound => io::ErrorKind::NotFound,
            Self::Busy => io::ErrorKind::ResourceBusy,
            Self::BadReply => io::ErrorKind::InvalidData,
            Self::WouldBlock => io::ErrorKind::WouldBlock,
            Self::Interrupted => io::ErrorKind::Interrupted,
            Self::TimedOut => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput => "invalid argument",
            Self::LimitExceeded => "limit exceeded",
            Self::Unsupported => "unsupported by this device or kernel",
            Self::PermissionDenied => "permission denied",
            Self::OutOfResources => "out of resources",
            Self::NotFound => "not found",
            Self::Busy => "still in use",
            Self::DeviceRemoved => "the device was removed",
            Self::Forked => "the handle belongs to the parent of this process",
            Self::InvalidState => "wrong state",
            Self::BadReply => "unusable answer from the kernel",
            Self::WouldBlock => "nothing there yet",
            Self::Interrupted => "interrupted by a signal",
            Self::TimedOut => "timed out",
            Self::Panicked => "the given `Kernel` panicked",
            Self::Other => "failed",
        })
    }
}

/// The symbolic name of an errno (`EINVAL`), or its number if it has no name here.
pub(crate) fn errno_name(errno: Errno) -> impl fmt::Display {
    struct Name(Errno);
    impl fmt::Display for Name {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match NAMES.iter().find(|(errno, _)| *errno == self.0) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "errno {}", self.0.raw_os_error()),
            }
        }
    }
    Name(errno)
}

/// The errno with this name, or with this number if it has no name here.
pub fn errno_of(name: &str) -> Option<Errno> {
    let known = NAMES.iter().find(|(_, known)| *known == name);
    known.map(|(errno, _)| *errno).or_else(|| {
        let number: u16 = name.strip_prefix("errno ")?.parse().ok()?;
        // The range that Linux reserves for errnos in return values.
        (1..4096)
            .contains(&number)
            .then(|| Errno::from_raw_os_error(number.into()))
    })
}

const NAMES: &[(Errno, &str)] = &[
    (Errno::TOOBIG, "E2BIG"),
    (Errno::ACCESS, "EACCES"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::BADF, "EBADF"),
    (Errno::BADMSG, "EBADMSG"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::FAULT, "EFAULT"),
    (Errno::INTR, "EINTR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::IO, "EIO"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NFILE, "ENFILE"),
    (Errno::NODATA, "ENODATA"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOLINK, "ENOLINK"),
    (Errno::NOENT, "ENOENT"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NOTRECOVERABLE, "ENOTRECOVERABLE"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::NXIO, "ENXIO"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::PERM, "EPERM"),
    (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
    (Errno::RANGE, "ERANGE"),
    (Errno::REMOTEIO, "EREMOTEIO"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
];

#[cfg(test)]
mod tests {
    use super::{Errno, ErrorKind};
    use std::collections::HashSet;
    use std::io;

    #[test]
    fn names_of_errnos_are_read_back() {
        for errno in [
            Errno::INVAL,
            Errno::HOSTUNREACH,
            Errno::from_raw_os_error(99),
        ] {
            let name = super::errno_name(errno).to_string();
            assert_eq!(super::errno_of(&name), Some(errno), "{name}");
        }
        for name in ["", "EUNKNOWN", "errno", "errno 0", "errno 4096", "errno -1"] {
            assert_eq!(super::errno_of(name), None, "{name}");
        }
    }

    /// Each kind, an errno that it stands for where there is one, and what it is to `std`.
    const KINDS: [(ErrorKind, Option<Errno>, io::ErrorKind); 16] = [
        (
            ErrorKind::InvalidInput,
            Some(Errno::INVAL),
            io::ErrorKind::InvalidInput,
        ),
        (ErrorKind::LimitExceeded, None, io::ErrorKind::InvalidInput),
        (
            ErrorKind::Unsupported,
            Some(Errno::NOTTY),
            io::ErrorKind::Unsupported,
        ),
        (
            ErrorKind::PermissionDenied,
            Some(Errno::ACCESS),
            io::ErrorKind::PermissionDenied,
        ),
        (
            ErrorKind::OutOfResources,
            Some(Errno::MFILE),
            io::ErrorKind::OutOfMemory,
        ),
        (
            ErrorKind::NotFound,
            Some(Errno::NXIO),
            io::ErrorKind::NotFound,
        ),
        (
            ErrorKind::Busy,
            Some(Errno::EXIST),
            io::ErrorKind::ResourceBusy,
        ),
        (ErrorKind::DeviceRemoved, None, io::ErrorKind::Other),
        (ErrorKind::Forked, None, io::ErrorKind::Other),
        (ErrorKind::InvalidState, None, io::ErrorKind::Other),
        (ErrorKind::BadReply, None, io::ErrorKind::InvalidData),
        (ErrorKind::WouldBlock, None, io::ErrorKind::WouldBlock),
        (
            ErrorKind::Interrupted,
            Some(Errno::INTR),
            io::ErrorKind::Interrupted,
        ),
        (
            ErrorKind::TimedOut,
            Some(Errno::TIMEDOUT),
            io::ErrorKind::TimedOut,
        ),
        (
            ErrorKind::Panicked,
            Some(Errno::NOTRECOVERABLE),
            io::ErrorKind::Other,
        ),
        (ErrorKind::Other, Some(Errno::PIPE), io::ErrorKind::Other),
    ];

    #[test]
    fn every_kind_has_a_text_and_a_kind_of_std() {
        for (kind, errno, io) in KINDS {
            assert_eq!(kind.io_kind(), io, "{kind}");
            if let Some(errno) = errno {
                assert_eq!(ErrorKind::from_errno(errno), kind, "{errno}");
            }
        }
        let words: HashSet<_> = KINDS.iter().map(|(kind, ..)| kind.to_string()).collect();
        assert_eq!(words.len(), KINDS.len());
    }
}
