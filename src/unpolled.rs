//! Completions that went with their queue, for shared receive queues that own their memory.
//!
//! A receive of a shared queue is reported to the completion queue of whichever queue pair it served.
//! Should that be destroyed before it was polled, the shared queue still has to learn that the request
//! is over, because its memory would stay away until the shared queue itself goes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_driver::contract;
use uverbs_driver::types::RESERVED_WR_IDS;

/// How many low bits of an id tell the requests of one queue apart.
pub(crate) const PLACE_BITS: u32 = 24;

/// Ids of receives that are over, for each shared queue of a context that wants to know.
#[derive(Debug, Default)]
pub(crate) struct Unpolled {
    by_queue: Mutex<BTreeMap<u64, Vec<u64>>>,
}

impl Unpolled {
    /// From now on requests with this upper part of their ids are noted.
    pub(crate) fn register(&self, queue: u64) {
        self.lock().entry(queue).or_default();
    }

    /// No longer.
    pub(crate) fn forget(&self, queue: u64) {
        self.lock().remove(&queue);
    }

    /// Takes one that was noted for this queue.
    pub(crate) fn take(&self, queue: u64) -> Option<u64> {
        self.lock().get_mut(&queue)?.pop()
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
        let unpolled = Unpolled::default();
        let queue = RESERVED_WR_IDS | 5 << PLACE_BITS;
        unpolled.completed(queue | 1);
        unpolled.register(queue);
        unpolled.completed(queue | 2);
        unpolled.completed(RESERVED_WR_IDS | 6 << PLACE_BITS);
        // A table without ids, and a request of a user.
        unpolled.register(0);
        unpolled.completed(7);
        assert_eq!(unpolled.take(0), None);
        assert_eq!(unpolled.take(queue), Some(queue | 2));
        assert_eq!(unpolled.take(queue), None);
        unpolled.completed(queue | 3);
        unpolled.forget(queue);
        assert_eq!(unpolled.take(queue), None);
    }
}
