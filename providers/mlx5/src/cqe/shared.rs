//! The part of a completion queue that is shared with the queues that report to it: its ring, and
//! how many entries were taken.

use std::sync::{Arc, PoisonError};

use uverbs_core::contract::Link;
use uverbs_core::{Op, Result};

use super::Entry;
use super::ring::CqRing;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, barrier};

/// The part of a completion queue that other queues can access.
#[derive(Debug)]
pub(crate) struct CqShared {
    ring: Mutex<Arc<CqRing>>,
    /// Entries taken, and given back to the device.
    taken: AtomicU64,
}

impl CqShared {
    /// The shared part of a completion queue that another queue is created with.
    pub(crate) fn of(op: Op, cq: Link<'_>) -> Result<Arc<Self>> {
        cq.shared(op).cloned()
    }

    /// No entry of `ring` has been taken yet.
    pub(crate) fn new(ring: &Arc<CqRing>) -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::new(Arc::clone(ring)),
            taken: AtomicU64::new(0),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Arc<CqRing>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of entries taken; the thread that took an entry knows its queue.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Records that the entries up to `position` have been taken.
    #[inline]
    pub(crate) fn take(&self, position: u64) {
        self.taken.store(position, Ordering::Release);
    }

    /// The position after the last entry that the device has written.
    ///
    /// Entries of a queue that was destroyed or reset are before it, since it writes no more.
    pub(crate) fn produced(&self) -> u64 {
        self.walk(|_| ())
    }

    /// The position after the last entry that the device has written, if an entry before it that
    /// has not been taken may satisfy `is_about`. For queues that have been destroyed or reset.
    pub(crate) fn waiting(&self, is_about: impl Fn(&Entry<'_>) -> bool) -> Option<u64> {
        let mut found = false;
        let end = self.walk(|entry| found |= is_about(entry));
        (found && self.taken() < end).then_some(end)
    }

    /// Visits the waiting entries, up to the last one written before the call, or a few beyond it.
    /// An entry that is taken meanwhile may be missed, or seen with what the device wrote over it.
    fn walk(&self, mut each: impl FnMut(&Entry<'_>)) -> u64 {
        let ring = self.lock();
        let mut position = self.taken();
        // The device cannot have written more than this before now.
        let most = position.saturating_add(ring.entries().into());
        loop {
            while position < most
                && let Some(look) = ring.look_at(position)
            {
                barrier::from_device();
                each(&Entry::new(look.block, look.tail));
                position += ring.stands_for(position, look.tail);
            }
            // Entries given back meanwhile may have been overwritten, which ends the walk too soon.
            // A thread that sees the overwritten entry also sees that it was given back.
            barrier::from_device();
            let taken = self.taken();
            if taken <= position || position >= most {
                return position;
            }
            position = taken;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::contract::Link;
    use uverbs_core::{ErrorKind, Object, Op, cmd};

    use super::*;
    use crate::tests::scripted::Scripted;
    use crate::tracker::SrqTracker;

    #[test]
    fn a_queue_of_another_provider_is_refused() {
        let (_kernel, file) = Scripted::new();
        let object = Object::new(&file, &cmd::cq::KIND, 7, []);
        let object = Arc::new(object);
        let ring = Arc::new(CqRing::alone(2, 64, 0).unwrap());
        let shared = CqShared::new(&ring);
        let op = Op::CreateQueuePair;
        let found = CqShared::of(op, Link::new(&object, &shared)).unwrap();
        assert!(Arc::ptr_eq(&found, &shared));
        for error in [
            CqShared::of(op, Link::plain(&object)).unwrap_err(),
            CqShared::of(op, Link::new(&object, &7_u32)).unwrap_err(),
            SrqTracker::of(op, Link::new(&object, &shared)).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    }

    /// An entry of the queue pair `number`, with other bits beside the number.
    fn write(ring: &CqRing, position: u64, number: u32, beside: u32) {
        let first = ring.first(position);
        let index = u64::from(beside << 24 | number) << 32;
        ring.units.put(first + 2, [index.to_be(), 0]);
        let lap = (position / u64::from(ring.entries())) % 2;
        ring.units.put(first + 3, [0, lap.to_be()]);
    }

    #[test]
    fn entries_of_one_queue_pair_have_one_raw_index() {
        let ring = CqRing::alone(2, 64, 0).unwrap();
        let numbers = [(0x00_1234, 0), (0x00_1234, 0xa5), (0x01_1234, 0xa5), (0, 0)];
        for (position, (number, beside)) in (0..).zip(numbers) {
            write(&ring, position, number, beside);
        }
        let entry = |position| {
            let look = ring.look_at(position).unwrap();
            Entry::new(look.block, look.tail)
        };
        let index = |position| entry(position).raw_index();
        let beside = (0..4).map(|position| index(position) == index(0));
        assert_eq!(beside.collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn a_walk_visits_all_entries_that_wait_and_no_other() {
        let ring = Arc::new(CqRing::alone(3, 64, 0).unwrap());
        let shared = CqShared::new(&ring);
        for position in 0..5 {
            write(&ring, position, 7, 0);
        }
        shared.take(2);
        let mut visited = 0;
        let end = shared.walk(|entry| {
            assert_eq!(entry.user_index(), 7);
            visited += 1;
        });
        assert_eq!((end, visited), (5, 3));
    }

    #[test]
    fn a_walk_goes_on_behind_entries_that_were_taken_and_overwritten() {
        let ring = Arc::new(CqRing::alone(3, 64, 0).unwrap());
        let shared = CqShared::new(&ring);
        for position in 0..5 {
            write(&ring, position, position as u32, 0);
        }
        let mut visited = Vec::new();
        let end = shared.walk(|entry| {
            visited.push(entry.user_index());
            if visited.len() == 1 {
                shared.take(3);
                write(&ring, 8 + 1, 9, 0);
            }
        });
        assert_eq!((end, visited), (5, vec![0, 3, 4]));
    }

    #[test]
    fn a_walk_ends_where_the_ring_did_when_it_began() {
        let ring = Arc::new(CqRing::alone(1, 64, 0).unwrap());
        let shared = CqShared::new(&ring);
        write(&ring, 0, 0, 0);
        write(&ring, 1, 1, 0);
        let mut visited = 0;
        let end = shared.walk(|_| {
            visited += 1;
            shared.take(4);
            write(&ring, 2, 2, 0);
            write(&ring, 3, 3, 0);
        });
        assert!(visited <= 2, "{visited}");
        assert_eq!(end, 4);
    }
}
