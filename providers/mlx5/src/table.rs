//! Which queue a completion is about.
//!
//! A completion carries the number that its queue was created with (or the queue pair's number, on devices that
//! have no such field). Completion queues look it up in a cache of their own, without a lock, and come here on a
//! miss. When a number is used again, completions of its former queue are told apart by their position.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::tracker::{QueuePairTracker, Receives, SrqTracker};

/// What a completion can be about.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// A queue pair, or a work queue, which is a queue pair that only receives.
    QueuePair(Arc<QueuePairTracker>),
    /// A shared receive queue that completions name themselves: XRC.
    Srq(Arc<SrqTracker>),
    /// A queue pair that is gone, and received from this queue: what it used up goes back.
    Gone(Arc<SrqTracker>),
}

impl Owner {
    /// What is left to do for completions of a queue that is gone.
    fn gone(self) -> Option<Self> {
        match self {
            Self::QueuePair(pair) => match &pair.recv {
                Receives::Shared(queue) => Some(Self::Gone(Arc::clone(queue))),
                _ => None,
            },
            Self::Srq(_) | Self::Gone(_) => None,
        }
    }
}

/// Numbers that rest before the first of them is used again: completions of its former queue may wait that long.
const RESTING: usize = 4096;

/// Numbers have 24 bits; the last one means none.
pub(crate) const NO_NUMBER: u32 = 0x00ff_ffff;

/// The queues of an opened device by number.
#[derive(Debug, Default)]
pub(crate) struct Trackers {
    table: RwLock<Table>,
    /// Moves when a number is given back: what caches hold of it is old.
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Option<Owner>>,
    free: VecDeque<u32>,
    by_device_number: HashMap<u32, Owner>,
}

impl Trackers {
    /// Gives a queue a number; `None` when all are in use.
    pub(crate) fn add(&self, owner: Owner) -> Option<u32> {
        let mut table = self.write();
        let may_grow = table.slots.len() < NO_NUMBER as usize;
        if (table.free.len() > RESTING || !may_grow)
            && let Some(number) = table.free.pop_front()
        {
            *table.slots.get_mut(number as usize)? = Some(owner);
            return Some(number);
        }
        let number = u32::try_from(table.slots.len()).ok()?;
        if number >= NO_NUMBER {
            return None;
        }
        table.slots.push(Some(owner));
        Some(number)
    }

    /// The queue `number` is gone.
    pub(crate) fn remove(&self, number: u32) {
        let mut table = self.write();
        if let Some(slot) = table.slots.get_mut(number as usize)
            && let Some(owner) = slot.take()
        {
            *slot = owner.gone();
            table.free.push_back(number);
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes a queue by the device's own number, for devices whose completions carry no other.
    pub(crate) fn add_device_number(&self, number: u32, owner: Owner) {
        let old = self.write().by_device_number.insert(number, owner);
        if old.is_some() {
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// The queue with the device's number is gone.
    pub(crate) fn remove_device_number(&self, number: u32) {
        if self.write().by_device_number.remove(&number).is_some() {
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// Moves whenever a number is given back.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The queue with this number.
    pub(crate) fn find(&self, number: u32) -> Option<Owner> {
        self.read().slots.get(number as usize)?.clone()
    }

    /// The queue with this number of the device's.
    pub(crate) fn find_device_number(&self, number: u32) -> Option<Owner> {
        self.read().by_device_number.get(&number).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner::QueuePair(Arc::new(QueuePairTracker::new(1, Receives::None)))
    }

    #[test]
    fn numbers_rest_and_come_back_and_the_epoch_says_so() {
        let trackers = Trackers::default();
        let [a, b] = [
            trackers.add(owner()).unwrap(),
            trackers.add(owner()).unwrap(),
        ];
        assert_eq!((a, b, trackers.epoch()), (0, 1, 0));
        trackers.remove(a);
        assert_eq!(trackers.epoch(), 1);
        assert!(trackers.find(a).is_none() && trackers.find(b).is_some());
        assert!(trackers.find(77).is_none());
        for _ in 0..RESTING {
            let number = trackers.add(owner()).unwrap();
            assert_ne!(number, a);
            trackers.remove(number);
        }
        assert_eq!(trackers.add(owner()), Some(a));
    }

    #[test]
    fn what_a_queue_pair_used_up_goes_back_when_it_is_gone() {
        let trackers = Trackers::default();
        let queue = Arc::new(SrqTracker::new(4));
        let recv = Receives::Shared(Arc::clone(&queue));
        let pair = Owner::QueuePair(Arc::new(QueuePairTracker::new(1, recv)));
        let number = trackers.add(pair).unwrap();
        trackers.remove(number);
        assert!(matches!(trackers.find(number), Some(Owner::Gone(_))));
        trackers.remove(number);
        assert!(trackers.find(number).is_none());
    }

    #[test]
    fn queues_are_found_by_the_devices_number() {
        let trackers = Trackers::default();
        trackers.add_device_number(0x55, owner());
        assert!(trackers.find_device_number(0x55).is_some());
        trackers.remove_device_number(0x55);
        assert!(trackers.find_device_number(0x55).is_none());
        assert_eq!(trackers.epoch(), 1);
    }
}
