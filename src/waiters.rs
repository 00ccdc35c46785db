//! Tasks that wait for the same thing, and waking them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakers of futures, each at an index that its future keeps until it is dropped.
///
/// All are woken at once. So a future that is dropped, or forgotten, after it was woken takes
/// nobody else's turn.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Waiters {
    /// Puts `waker` at the place of `key`, which it gets if it has none. Returns the waker that
    /// was there: dropping it may run foreign code, which must not happen under a lock.
    pub(crate) fn register(&mut self, key: &mut Option<usize>, waker: Waker) -> Option<Waker> {
        let at = *key.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            })
        });
        self.places.get_mut(at)?.replace(waker)
    }

    /// Gives the place back. Returns the waker that was there.
    pub(crate) fn remove(&mut self, key: &mut Option<usize>) -> Option<Waker> {
        let at = key.take()?;
        self.free.push(at);
        self.places.get_mut(at)?.take()
    }

    /// Moves all wakers to `wake`.
    pub(crate) fn take_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.places.iter_mut().filter_map(Option::take));
    }
}

/// Wakes all, in the order of their places; returns how many panicked. To be called without a lock.
pub(crate) fn wake_all(wakers: &mut Vec<Waker>) -> u64 {
    let mut panicked = 0;
    for waker in wakers.drain(..) {
        // Whoever waits next must be woken, whatever this one does.
        if catch_unwind(AssertUnwindSafe(move || waker.wake())).is_err() {
            panicked += 1;
        }
    }
    panicked
}
