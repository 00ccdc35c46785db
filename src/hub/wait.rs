//! Threads that wait. Where no driver runs, one of them stands in for it; when that one has what it
//! waited for, it calls the next.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use uverbs_core::Result;

use super::bells::{Bell, Bells};
use super::error::ConnectionError;
use super::shared::Shared;
use super::spin::Wait;

/// Whose turn it is to stand in for a driver.
#[derive(Debug)]
pub(super) struct Turns {
    is_taken: AtomicBool,
    /// Threads that will be called.
    followers: Mutex<VecDeque<Arc<Waiting>>>,
    /// Wakes the one whose turn it is.
    bell: Arc<Bell>,
}

/// A thread that waits; also its waker.
#[derive(Debug)]
struct Waiting {
    thread: Thread,
    woken: AtomicBool,
    /// Sleeps in the kernel, where only the bell wakes it.
    is_in_kernel: AtomicBool,
    bell: Arc<Bell>,
}

/// It is this thread's turn, until this is dropped.
#[derive(Debug)]
struct StandIn<'s>(&'s Turns);

/// This thread will be called, until this is dropped.
struct Follower<'s> {
    shared: &'s Shared,
    waiting: &'s Arc<Waiting>,
}

impl Turns {
    pub(super) fn new(bells: &Bells) -> Result<Self> {
        Ok(Self {
            is_taken: AtomicBool::new(false),
            followers: Mutex::default(),
            bell: bells.keep(Bell::thread()?),
        })
    }

    fn followers(&self) -> MutexGuard<'_, VecDeque<Arc<Waiting>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::SeqCst)
    }

    /// Calls the thread that has waited longest.
    fn call_next(&self) {
        let next = self.followers().pop_front();
        if let Some(next) = next {
            next.thread.unpark();
        }
    }
}

impl Shared {
    /// Runs `future` on this thread, for at most `timeout`. Drives the hub if nothing else does.
    pub(super) fn block_on<F: Future>(
        &self,
        future: F,
        wait: Wait,
        timeout: Duration,
    ) -> Option<F::Output> {
        let since = (timeout < Duration::MAX).then(Instant::now);
        let waiting = Arc::new(Waiting {
            thread: thread::current(),
            woken: AtomicBool::new(false),
            is_in_kernel: AtomicBool::new(false),
            bell: Arc::clone(&self.turns.bell),
        });
        let waker = Waker::from(Arc::clone(&waiting));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        let mut turn = None;
        loop {
            waiting.woken.store(false, Ordering::SeqCst);
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Some(output);
            }
            let left = since.map_or(timeout, |since| timeout.saturating_sub(since.elapsed()));
            if self.drivers.load(Ordering::Acquire) > 0 {
                turn = None;
                if left.is_zero() {
                    return None;
                }
                waiting.park(left);
                continue;
            }
            if turn.is_none() {
                turn = StandIn::take(&self.turns);
            }
            if turn.is_some() {
                if let Err(error) = self.stand_in(&waiting, wait, left) {
                    self.close(ConnectionError::Failed(error.kind()));
                }
            } else if !left.is_zero() {
                self.follow(&waiting, left);
            }
            if left.is_zero() {
                // What the last turn took may be it.
                return match future.as_mut().poll(&mut cx) {
                    Poll::Ready(output) => Some(output),
                    Poll::Pending => None,
                };
            }
        }
    }

    /// Takes completions, or sleeps until there are some, this thread is woken, or the time is up.
    fn stand_in(&self, waiting: &Waiting, wait: Wait, left: Duration) -> Result<()> {
        if self.attempt(wait, left, || waiting.is_woken())? > 0 || left.is_zero() {
            return Ok(());
        }
        waiting.is_in_kernel.store(true, Ordering::SeqCst);
        // Whoever wakes it sees that it is there, or is seen here.
        let slept = if waiting.is_woken() {
            Ok(())
        } else {
            self.sleep(&waiting.bell, left)
        };
        waiting.is_in_kernel.store(false, Ordering::SeqCst);
        slept?;
        self.turn().map(|_| ())
    }

    /// Sleeps until this thread is woken or called, or the time is up.
    fn follow(&self, waiting: &Arc<Waiting>, left: Duration) {
        self.turns.followers().push_back(Arc::clone(waiting));
        let _follower = Follower {
            shared: self,
            waiting,
        };
        // Whoever has the turn calls those who are in the list when it ends.
        if self.turns.is_taken() {
            waiting.park(left);
        }
    }
}

impl Waiting {
    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    fn park(&self, limit: Duration) {
        if !self.is_woken() {
            thread::park_timeout(limit);
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if self.is_in_kernel.load(Ordering::SeqCst) {
            self.bell.ring_thread();
        }
    }
}

impl<'s> StandIn<'s> {
    fn take(turns: &'s Turns) -> Option<Self> {
        // One that is made and dropped again would end the other's turn.
        if turns.is_taken.swap(true, Ordering::SeqCst) {
            return None;
        }
        Some(Self(turns))
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::SeqCst);
        self.0.call_next();
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        let turns = &self.shared.turns;
        let mut followers = turns.followers();
        let before = followers.len();
        followers.retain(|other| !Arc::ptr_eq(other, self.waiting));
        let was_called = followers.len() == before;
        drop(followers);
        // It may have no use for the turn; whoever takes it calls another one in the end.
        if was_called && !turns.is_taken() {
            turns.call_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_turn() {
        let turns = Turns::new(&Bells::default()).unwrap();
        let turn = StandIn::take(&turns).unwrap();
        for _ in 0..2 {
            assert!(StandIn::take(&turns).is_none(), "it is not over yet");
        }
        drop(turn);
        assert!(StandIn::take(&turns).is_some());
    }
}
