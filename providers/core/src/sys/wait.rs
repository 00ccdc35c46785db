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
    let start = timeout.map(|timeout| (Instant::now(), timeout));
    let mut left = timeout;
    loop {
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
            Err(Errno::INTR) => {
                left = start.map(|(start, timeout)| timeout.saturating_sub(start.elapsed()));
            }
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::error::Op;

    type Look = fn(BorrowedFd<'_>, Option<&Bell>) -> Result<Option<bool>, Errno>;

    const NO_TIME: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };

    /// Each way of looking.
    const WAYS: [Look; 3] = [
        |fd, bell| look_by_epoll(fd, bell, Some(&NO_TIME)),
        |fd, bell| wait_readable(fd, bell, Some(Duration::ZERO)),
        |fd, bell| {
            if cfg!(miri) {
                look_by_epoll(fd, bell, Some(&NO_TIME))
            } else {
                look(fd, bell, Some(&NO_TIME))
            }
        },
    ];

    #[test]
    fn a_descriptor_with_something_to_read_is_told_from_one_without() {
        for way in WAYS {
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            assert_eq!(way(reader.as_fd(), None), Ok(None));
            writer.write_all(b"x").unwrap();
            assert_eq!(way(reader.as_fd(), None), Ok(Some(true)));
            reader.read_exact(&mut [0]).unwrap();
            assert_eq!(way(reader.as_fd(), None), Ok(None));
            drop(writer);
            assert_eq!(way(reader.as_fd(), None), Ok(Some(false)), "hung up");
        }
    }

    #[test]
    fn a_bell_ends_a_wait_until_it_is_silenced() {
        for way in WAYS {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let bell = Bell::new(Op::GetAsyncEvent).unwrap();
            assert_eq!(way(reader.as_fd(), Some(&bell)), Ok(None));
            bell.ring();
            assert_eq!(way(reader.as_fd(), Some(&bell)), Ok(None), "not readable");
            let forever = wait_readable(reader.as_fd(), Some(&bell), None);
            assert_eq!(forever, Ok(None), "and does not wait");
            writer.write_all(b"x").unwrap();
            assert_eq!(way(reader.as_fd(), Some(&bell)), Ok(Some(true)), "both");
            bell.silence();
            bell.silence();
            assert_eq!(way(bell.as_fd(), None), Ok(None));
        }
    }

    #[test]
    fn a_wait_takes_its_time() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (start, time) = (Instant::now(), Duration::from_millis(20));
        assert_eq!(wait_readable(reader.as_fd(), None, Some(time)), Ok(None));
        assert!(start.elapsed() >= time);
    }
}
