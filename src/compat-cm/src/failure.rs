//! Errnos that programs expect of this library, where those of the commands have other names.

use crate::errno::Code;

/// There is no such device, or the id has none.
pub(crate) const NO_DEVICE: Code = Code::new(libc::ENODEV);
/// The peer refused.
pub(crate) const REFUSED: Code = Code::new(libc::ECONNREFUSED);
/// There is no such option.
pub(crate) const NO_OPTION: Code = Code::new(libc::ENOSYS);
/// There is no such group.
pub(crate) const NO_ADDRESS: Code = Code::new(libc::EADDRNOTAVAIL);

/// The status of an event for an error.
pub(crate) fn status(code: Code) -> i32 {
    -code.number()
}

/// The error of an event's status, which is a negative errno, or a code of the peer.
pub(crate) fn of_status(status: i32) -> Code {
    Code::new(status.saturating_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_negative_errnos() {
        assert_eq!(status(NO_DEVICE), -libc::ENODEV);
        assert_eq!(of_status(-libc::ETIMEDOUT).number(), libc::ETIMEDOUT);
        assert_eq!(of_status(8).number(), 8);
    }
}
