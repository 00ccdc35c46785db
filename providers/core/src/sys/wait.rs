//! Waiting for a descriptor.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::Bell;
use crate::error::Errno;

/// Waits until `fd` is readable or `bell` was rung, for at most `timeout` (`None`: without limit).
/// Returns `Some(true)` if `fd` is readable, `Some(false)` if it is hung up or in error, `None`
/// after the timeout and for the bell alone.
///
/// Continues after a signal.
///
/// # Errors
/// The errno of `poll(2)`.
pub(crate) fn wait_readable(
    fd: BorrowedFd<'_>,
    bell: Option<&Bell>,
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
            look_by_epoll(fd, bell, spec.as_ref())
        } else {
            look(fd, bell, spec.as_ref())
        };
        match found {
            Err(Errno::INTR) => {}
            found => return found,
        }
    }
}

fn look(
    fd: BorrowedFd<'_>,
    bell: Option<&Bell>,
    timeout: Option<&Timespec>,
) -> Result<Option<bool>, Errno> {
    let wanted = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds = [wanted(fd), wanted(bell.map_or(fd, Bell::as_fd))];
    let count = 1 + usize::from(bell.is_some());
    poll(&mut fds[..count], timeout)?;
    let events = fds[0].revents();
    Ok((!events.is_empty()).then(|| events.contains(PollFlags::IN)))
}

/// The same by more system calls: Miri does not support `poll(2)`.
fn look_by_epoll(
    fd: BorrowedFd<'_>,
    bell: Option<&Bell>,
    timeout: Option<&Timespec>,
) -> Result<Option<bool>, Errno> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let wanted = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&set, fd, epoll::EventData::new_u64(0), wanted)?;
    if let Some(bell) = bell {
        epoll::add(&set, bell.as_fd(), epoll::EventData::new_u64(1), wanted)?;
    }
    let mut found = Vec::with_capacity(2);
    epoll::wait(&set, rustix::buffer::spare_capacity(&mut found), timeout)?;
    // The data of an event is a field of a packed struct.
    let ours = found.iter().find(|event| { event.data }.u64() == 0);
    Ok(ours.map(|event| { event.flags }.contains(epoll::EventFlags::IN)))
}
