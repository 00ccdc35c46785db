//! Waiting for a descriptor.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::error::Errno;

/// Waits until `fd` is readable, for at most `timeout` (`None`: without limit). Returns
/// `Some(true)` if it is readable, `Some(false)` if it is hung up or in error, `None` after the
/// timeout.
///
/// Continues after a signal.
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
        let found = if cfg!(miri) {
            look_by_epoll(fd, spec.as_ref())
        } else {
            look(fd, spec.as_ref())
        };
        match found {
            Err(Errno::INTR) => {}
            found => return found,
        }
    }
}

fn look(fd: BorrowedFd<'_>, timeout: Option<&Timespec>) -> Result<Option<bool>, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let found = poll(&mut fds, timeout)?;
    Ok((found != 0).then(|| fds[0].revents().contains(PollFlags::IN)))
}

/// The same by more system calls: Miri does not support `poll(2)`.
fn look_by_epoll(fd: BorrowedFd<'_>, timeout: Option<&Timespec>) -> Result<Option<bool>, Errno> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let wanted = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&set, fd, epoll::EventData::new_u64(0), wanted)?;
    let mut found = Vec::with_capacity(1);
    epoll::wait(&set, rustix::buffer::spare_capacity(&mut found), timeout)?;
    let flags = found.first().map(|event| event.flags);
    Ok(flags.map(|flags| flags.contains(epoll::EventFlags::IN)))
}
