//! Threads that sleep until something happens to a socket.
//!
//! A thread that sleeps has a bell, which other threads ring when they have taken the completions
//! that it waits for: descriptors say nothing about those any more.
//!
//! # Safety
//!
//! `poll` gets an array of this call; `fcntl` changes a descriptor of the caller's.
//! `pthread_setcancelstate` has the type that it has in the C library; its state is put back before
//! the function of this library returns.
#![allow(unsafe_code, reason = "calls the C library")]

use std::cell::OnceCell;
use std::ffi::c_int;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uverbs_core::Op;
use uverbs_core::sys::Bell;

use crate::answer::Answer;
use crate::errno::Code;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

/// Carries out a function of sockets, in which a thread is not cancelled: it may have locked
/// something, and its frames catch.
pub(super) fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    let mut old = 0;
    // SAFETY: `old` is there.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    let value = body();
    // SAFETY: the state that was there before.
    unsafe { pthread_setcancelstate(old, &raw mut old) };
    value
}

/// Waits until one of the descriptors is ready, at most until `deadline`: how many are.
pub(super) fn poll(fds: &mut [libc::pollfd], deadline: Option<Instant>) -> Answer<usize> {
    let count = fds.len() as libc::nfds_t;
    let milliseconds = deadline.map_or(-1, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        let up = left.saturating_add(Duration::from_nanos(999_999));
        c_int::try_from(up.as_millis()).unwrap_or(c_int::MAX)
    });
    // SAFETY: an array of this many.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, milliseconds) };
    usize::try_from(ready).map_err(|_| Code::last())
}

/// Whether the descriptors are ready now.
pub(super) fn look(fds: &mut [libc::pollfd]) -> Answer<usize> {
    poll(fds, Some(Instant::now()))
}

pub(super) fn reads(fd: c_int) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Makes calls on a descriptor end with EAGAIN rather than wait.
pub(super) fn do_not_block(fd: c_int) -> Answer<()> {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(Code::last());
    }
    Ok(())
}

thread_local! {
    static BELL: OnceCell<Arc<Bell>> = const { OnceCell::new() };
}

/// The bell of this thread.
pub(super) fn bell() -> Answer<Arc<Bell>> {
    let found = BELL.try_with(|bell| {
        if let Some(bell) = bell.get() {
            return Ok(Arc::clone(bell));
        }
        let made = Arc::new(Bell::new(Op::CmGetEvent)?);
        Ok(Arc::clone(bell.get_or_init(|| made)))
    });
    found.unwrap_or(Err(Code::NO_ROOM))
}

/// The descriptor of a bell.
pub(super) fn fd_of(bell: &Bell) -> c_int {
    bell.as_fd().as_raw_fd()
}

/// The threads that sleep until something happens to one socket.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    count: AtomicUsize,
    bells: Mutex<Vec<Arc<Bell>>>,
}

impl Sleepers {
    /// From now on the bell is rung. What the thread waits for has to be looked at after this.
    pub(super) fn enter(&self, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.push(Arc::clone(bell));
        self.count.store(bells.len(), Ordering::SeqCst);
    }

    pub(super) fn leave(&self, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = bells.iter().position(|other| Arc::ptr_eq(other, bell)) {
            bells.swap_remove(at);
        }
        self.count.store(bells.len(), Ordering::SeqCst);
    }

    /// Wakes all but the calling thread.
    pub(super) fn wake(&self) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let own = BELL.try_with(|bell| bell.get().cloned()).ok().flatten();
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in bells.iter() {
            if own.as_ref().is_none_or(|own| !Arc::ptr_eq(own, bell)) {
                bell.ring();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(fd: c_int) -> bool {
        look(&mut [reads(fd)]) == Ok(1)
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_another() {
        let sleepers = Sleepers::default();
        std::thread::scope(|scope| {
            let (entered, waits) = std::sync::mpsc::channel();
            let asleep = scope.spawn({
                let sleepers = &sleepers;
                move || {
                    let bell = bell().unwrap();
                    sleepers.enter(&bell);
                    entered.send(()).unwrap();
                    let ready = poll(&mut [reads(fd_of(&bell))], None);
                    sleepers.leave(&bell);
                    bell.silence();
                    (ready, is_ready(fd_of(&bell)))
                }
            });
            waits.recv().unwrap();
            sleepers.wake();
            assert_eq!(asleep.join().unwrap(), (Ok(1), false));
        });
        assert_eq!(sleepers.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_thread_does_not_wake_itself() {
        let sleepers = Sleepers::default();
        let bell = bell().unwrap();
        sleepers.enter(&bell);
        sleepers.wake();
        assert!(!is_ready(fd_of(&bell)));
        sleepers.leave(&bell);
    }

    #[test]
    fn waits_end_at_their_time() {
        let bell = bell().unwrap();
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(poll(&mut [reads(fd_of(&bell))], Some(deadline)), Ok(0));
        assert!(Instant::now() >= deadline);
    }
}
