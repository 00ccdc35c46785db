//! Completions that were lost with their queue, for shared receive queues that own their memory.
//!
//! A receive of a shared queue is reported to the completion queue of the queue pair that it
//! served. If that completion queue is destroyed before the completion is polled, the shared queue
//! still has to learn that the request is over; otherwise its memory would not be returned until
//! the shared queue itself is destroyed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_core::contract;
use uverbs_core::types::RESERVED_WR_IDS;

/// How many low bits of an id distinguish the requests of one queue.
pub(crate) const PLACE_BITS: u32 = 24;

/// One for the whole process, in which ids of owned queues are unique.
static UNPOLLED: Unpolled = Unpolled::new();

/// What is notified of completions that will never be polled.
pub(crate) fn observer() -> &'static dyn contract::Unpolled {
    &UNPOLLED
}

/// While it lives, records the completions of one queue's requests that were lost with their
/// completion queue.
#[derive(Debug)]
pub(crate) struct Noted {
    of: &'static Unpolled,
    queue: u64,
}

impl Noted {
    /// From now on, requests whose ids have this upper part are recorded.
    pub(crate) fn new(queue: u64) -> Self {
        Self::among(&UNPOLLED, queue)
    }

    fn among(of: &'static Unpolled, queue: u64) -> Self {
        of.lock().entry(queue).or_default();
        Self { of, queue }
    }

    /// Takes the id of one such request.
    pub(crate) fn take(&self) -> Option<u64> {
        self.of.lock().get_mut(&self.queue)?.pop()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.of.lock().remove(&self.queue);
    }
}

/// Ids of receives that are over, for each shared queue that registered for them.
#[derive(Debug)]
struct Unpolled {
    by_queue: Mutex<BTreeMap<u64, Vec<u64>>>,
}

impl Unpolled {
    const fn new() -> Self {
        Self {
            by_queue: Mutex::new(BTreeMap::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u64>>> {
        // Nothing is half done under the lock.
        self.by_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl contract::Unpolled for Unpolled {
    fn completed(&self, wr_id: u64) {
        // Requests that users number themselves are not recorded.
        if wr_id < RESERVED_WR_IDS {
            return;
        }
        if let Some(ids) = self.lock().get_mut(&(wr_id >> PLACE_BITS << PLACE_BITS)) {
            ids.push(wr_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Unpolled as _;

    #[test]
    fn only_completions_of_the_given_queue_are_noted() {
        static OURS: Unpolled = Unpolled::new();
        let queue = RESERVED_WR_IDS | 5 << PLACE_BITS;
        OURS.completed(queue | 1);
        let noted = Noted::among(&OURS, queue);
        OURS.completed(queue | 2);
        OURS.completed(RESERVED_WR_IDS | 6 << PLACE_BITS);
        // A table without ids, and a request of a user.
        let users = Noted::among(&OURS, 0);
        OURS.completed(7);
        assert_eq!(users.take(), None);
        assert_eq!(noted.take(), Some(queue | 2));
        assert_eq!(noted.take(), None);
        OURS.completed(queue | 3);
        drop(noted);
        assert_eq!(Noted::among(&OURS, queue).take(), None);
    }
}
