//! Completions that went with their queue, for shared receive queues that own their memory.
//!
//! A receive of a shared queue is reported to the completion queue of whichever queue pair it
//! served. Should that be destroyed before it was polled, the shared queue still has to learn that
//! the request is over, because its memory would stay away until the shared queue itself goes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_core::contract;
use uverbs_core::types::RESERVED_WR_IDS;

/// How many low bits of an id tell the requests of one queue apart.
pub(crate) const PLACE_BITS: u32 = 24;

/// Those of the process: ids of owned queues are unique in it.
static UNPOLLED: Unpolled = Unpolled::new();

/// Who is told of completions that nobody will poll.
pub(crate) fn witness() -> &'static dyn contract::Unpolled {
    &UNPOLLED
}

/// Notes completions of one queue's requests that went with their completion queue, as long as it
/// lives.
#[derive(Debug)]
pub(crate) struct Noted {
    of: &'static Unpolled,
    queue: u64,
}

impl Noted {
    /// From now on requests are noted whose ids have this upper part.
    pub(crate) fn new(queue: u64) -> Self {
        Self::among(&UNPOLLED, queue)
    }

    fn among(of: &'static Unpolled, queue: u64) -> Self {
        of.lock().entry(queue).or_default();
        Self { of, queue }
    }

    /// Takes the id of one.
    pub(crate) fn take(&self) -> Option<u64> {
        self.of.lock().get_mut(&self.queue)?.pop()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.of.lock().remove(&self.queue);
    }
}

/// Ids of receives that are over, for each shared queue that wants to know.
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
        // Who numbers requests as they like is asked for none.
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
    fn only_what_is_asked_for_is_noted() {
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
