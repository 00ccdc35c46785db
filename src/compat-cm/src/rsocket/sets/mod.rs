//! Sets of sockets and other descriptors that are waited for again and again (`repoll_create`).
//!
//! What is ready is found by `poll` at each call, and told again as long as it is. Threads that
//! wait hear of changes to their set. A child after `fork` has none of its parent's sets.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libc::epoll_event;
use libc::pollfd;
use uverbs_core::Op;
use uverbs_core::sys::{Bell, ForkToken};

use super::poll;
use super::sleep::{self, Sleepers};
use super::stream::lock;
use crate::answer::Answer;
use crate::errno::Code;

/// Events that have the same bits in `poll`.
const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;

const NO_SET: Code = Code::new(libc::EBADF);

struct Member {
    fd: c_int,
    events: i16,
    data: u64,
}

struct Set {
    /// Its descriptor is the set's number, and never ready.
    _number: Bell,
    process: ForkToken,
    members: Mutex<Vec<Member>>,
    sleepers: Sleepers,
    is_closed: AtomicBool,
}

static SETS: RwLock<BTreeMap<c_int, ManuallyDrop<Arc<Set>>>> = RwLock::new(BTreeMap::new());

pub(super) fn create() -> Answer<c_int> {
    let bell = Bell::new(Op::CmGetEvent)?;
    let number = sleep::fd_of(&bell);
    let set = Set {
        _number: bell,
        process: ForkToken::current(),
        members: Mutex::default(),
        sleepers: Sleepers::default(),
        is_closed: AtomicBool::new(false),
    };
    let mut sets = SETS.write().unwrap_or_else(PoisonError::into_inner);
    // If there is another one, it is the parent's, whose descriptor was closed here.
    sets.insert(number, ManuallyDrop::new(Arc::new(set)));
    Ok(number)
}

fn find(number: c_int) -> Answer<Arc<Set>> {
    let sets = SETS.read().unwrap_or_else(PoisonError::into_inner);
    let set = sets.get(&number).filter(|set| set.process.is_current());
    set.map(|set| Arc::clone(set)).ok_or(NO_SET)
}

/// Ends an empty set.
pub(super) fn close(number: c_int) -> Answer<()> {
    let set = find(number)?;
    if !lock(&set.members).is_empty() {
        return Err(Code::BUSY);
    }
    let mut sets = SETS.write().unwrap_or_else(PoisonError::into_inner);
    drop(sets.remove(&number).map(ManuallyDrop::into_inner));
    drop(sets);
    set.is_closed.store(true, Ordering::SeqCst);
    set.sleepers.wake();
    Ok(())
}

/// Adds, changes or removes a member.
pub(super) fn change(
    number: c_int,
    how: c_int,
    fd: c_int,
    event: Answer<&epoll_event>,
) -> Answer<()> {
    if fd < 0 {
        return Err(NO_SET);
    }
    let set = find(number).map_err(|_| Code::INVALID)?;
    if number == fd {
        return Err(Code::INVALID);
    }
    let member = || -> Answer<Member> {
        let event = event?;
        Ok(Member {
            fd,
            events: (event.events & EVENTS) as i16,
            data: event.u64,
        })
    };
    let mut members = lock(&set.members);
    let at = members.iter().position(|member| member.fd == fd);
    match (how, at) {
        (libc::EPOLL_CTL_ADD, None) => members.push(member()?),
        (libc::EPOLL_CTL_ADD, Some(_)) => return Err(Code::new(libc::EEXIST)),
        (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Code::NO_ENTRY),
        (libc::EPOLL_CTL_MOD, Some(at)) => {
            let changed = member()?;
            if let Some(member) = members.get_mut(at) {
                *member = changed;
            }
        }
        (libc::EPOLL_CTL_DEL, Some(at)) => drop(members.swap_remove(at)),
        _ => return Err(Code::INVALID),
    }
    drop(members);
    set.sleepers.wake();
    Ok(())
}

/// Waits until a member is ready, at most so many milliseconds, forever if below 0: how many events
/// there are.
pub(super) fn wait(number: c_int, events: &mut [epoll_event], timeout: c_int) -> Answer<c_int> {
    let set = find(number).map_err(|_| Code::INVALID)?;
    if events.is_empty() {
        return Err(Code::INVALID);
    }
    let found = set.poll(None, events, 0)?;
    if found > 0 || timeout == 0 {
        return Ok(found);
    }
    let deadline = u64::try_from(timeout).ok();
    let deadline =
        deadline.and_then(|time| Instant::now().checked_add(Duration::from_millis(time)));
    // One of this call, which is rung for nothing else.
    let bell = Arc::new(Bell::new(Op::CmGetEvent)?);
    set.sleepers.enter(&bell);
    let answer = loop {
        if set.is_closed.load(Ordering::SeqCst) {
            break Ok(0);
        }
        let left = deadline.map_or(-1, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            let up = left.saturating_add(Duration::from_nanos(999_999));
            c_int::try_from(up.as_millis()).unwrap_or(c_int::MAX)
        });
        match set.poll(Some(&bell), events, left) {
            Ok(0) if left != 0 => {}
            answer => break answer,
        }
    };
    set.sleepers.leave(&bell);
    answer
}

impl Set {
    /// Waits once, also for a change of the set.
    fn poll(
        &self,
        bell: Option<&Bell>,
        events: &mut [epoll_event],
        timeout: c_int,
    ) -> Answer<c_int> {
        let changes = bell.map_or(-1, sleep::fd_of);
        let (mut fds, data) = {
            let members = lock(&self.members);
            let fds = members.iter().map(|member| pollfd {
                events: member.events,
                ..sleep::reads(member.fd)
            });
            let fds: Vec<_> = std::iter::once(sleep::reads(changes)).chain(fds).collect();
            let data: Vec<_> = members.iter().map(|member| member.data).collect();
            (fds, data)
        };
        poll::poll(&mut fds, timeout)?;
        if let Some(bell) = bell {
            bell.silence();
        }
        let found = fds.iter().skip(1).zip(data);
        let found = found.filter(|(fd, _)| fd.revents != 0);
        let mut count = 0;
        for (place, (fd, data)) in events.iter_mut().zip(found) {
            *place = epoll_event {
                events: u32::from(fd.revents.cast_unsigned()) & EVENTS,
                u64: data,
            };
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
