//! Which queue a completion is about.
//!
//! A completion carries the number that its queue was created with (or the queue pair's number, on devices that
//! have no such field). Completion queues look it up in a cache of their own, without a lock, and come here on a
//! miss. A number is used again at once: completions of its former queue are told apart by their position.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::tracker::{QueuePairTracker, SrqTracker};

/// What a completion can be about.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// A queue pair, or a work queue, which is a queue pair that only receives.
    QueuePair(Arc<QueuePairTracker>),
    /// A shared receive queue that completions name themselves: XRC.
    Srq(Arc<SrqTracker>),
}

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
    free: Vec<u32>,
    by_device_number: HashMap<u32, Owner>,
}

impl Trackers {
    /// Gives a queue a number; `None` when all are in use.
    pub(crate) fn add(&self, owner: Owner) -> Option<u32> {
        let mut table = self.write();
        if let Some(number) = table.free.pop() {
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
            && slot.take().is_some()
        {
            table.free.push(number);
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
    use crate::tracker::Receives;

    fn owner() -> Owner {
        Owner::QueuePair(Arc::new(QueuePairTracker::new(1, Receives::None)))
    }

    #[test]
    fn numbers_come_back_and_the_epoch_says_so() {
        let trackers = Trackers::default();
        let [a, b] = [
            trackers.add(owner()).unwrap(),
            trackers.add(owner()).unwrap(),
        ];
        assert_eq!((a, b, trackers.epoch()), (0, 1, 0));
        trackers.remove(a);
        trackers.remove(a);
        assert_eq!(trackers.epoch(), 1);
        assert!(trackers.find(a).is_none() && trackers.find(b).is_some());
        assert_eq!(trackers.add(owner()), Some(a));
        assert!(trackers.find(77).is_none());
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
