//! Waiting for a descriptor.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Errno;

/// Waits until `fd` is readable, for at most `timeout` (`None`: for ever). Returns what it found:
/// readable (`Some(true)`), hung up or broken (`Some(false)`), neither in that time (`None`).
///
/// Signals do not end it.
///
/// # Errors
/// The errno of `poll(2)`.
pub(crate) fn wait_readable(
    fd: BorrowedFd<'_>,
    timeout: Option<Duration>,
) -> Result<Option<bool>, Errno> {
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        let spec = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, spec.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(fds[0].revents().contains(PollFlags::IN))),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
