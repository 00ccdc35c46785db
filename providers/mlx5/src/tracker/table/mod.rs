//! The table of queues that completions belong to.
//!
//! A completion carries the number that its queue was created with. Completion queues look it up in
//! a cache of their own, without a lock, and come here on a miss. A number is reused once no
//! waiting entry carries it: completions of a destroyed queue may stay in a completion queue
//! indefinitely, and determine what goes back to a shared receive queue.
//!
//! On devices whose completions carry not our number but only the device's, which the device may
//! reuse at any time, the queues that had it one after another are distinguished by the positions
//! of their completion queues when they were created.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, Weak};

use crate::cqe::CqShared;
use crate::cqe::Entry;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::tracker::keys::SignedKeys;
use crate::tracker::{QueuePairTracker, Receives, SrqTracker};

/// The owner of a completion.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// A queue pair, or a work queue, which is a queue pair that only receives.
    QueuePair(Arc<QueuePairTracker>),
    /// A shared receive queue that completions name directly: XRC.
    Srq(Arc<SrqTracker>),
    /// A destroyed queue pair that received from this queue: the requests that it used up go back.
    Gone(Arc<SrqTracker>),
}

impl Owner {
    /// What remains to be done for completions of a destroyed queue.
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

/// Numbers have 24 bits; the last one means none.
pub(crate) const NO_NUMBER: u32 = 0x00ff_ffff;

/// How many resting numbers are checked when a new one is needed.
const SOME: usize = 4;

/// The device's own number of a queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum DeviceNumber {
    QueuePair(u32),
    /// A shared receive queue of XRC.
    Srq(u32),
}

/// A position in a completion queue, which may have been destroyed.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    cq: Weak<CqShared>,
    position: u64,
}

impl Mark {
    pub(crate) fn new(cq: &Arc<CqShared>, position: u64) -> Self {
        Self {
            cq: Arc::downgrade(cq),
            position,
        }
    }

    /// Whether all entries before it were taken.
    fn is_passed(&self) -> bool {
        self.cq
            .upgrade()
            .is_none_or(|cq| cq.taken() >= self.position)
    }

    /// Whether `position` of `cq` is at or after it.
    fn is_before(&self, cq: &Weak<CqShared>, position: u64) -> bool {
        self.cq.ptr_eq(cq) && self.position <= position
    }
}

/// Positions in the completion queues of a queue's sends, and of its receives.
pub(crate) type Marks = [Option<Mark>; 2];

/// The queues of an opened device by number.
#[derive(Debug)]
pub(crate) struct Trackers {
    table: RwLock<Table>,
    /// Changes when an answer of the table about a number is no longer valid: caches are then
    /// stale.
    epoch: AtomicU64,
    /// Keys with signatures.
    pub(crate) keys: SignedKeys,
    /// What caches hold that have not found a queue pair.
    pub(crate) nobody: Arc<QueuePairTracker>,
}

impl Default for Trackers {
    fn default() -> Self {
        Self {
            table: RwLock::default(),
            epoch: AtomicU64::default(),
            keys: SignedKeys::default(),
            nobody: Arc::new(QueuePairTracker::new(0, Receives::None)),
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    /// Numbers that no entry carries any more. Their slots are empty.
    free: VecDeque<u32>,
    /// Numbers of destroyed queues, with the positions up to which completions that carry them may
    /// be waiting.
    resting: VecDeque<(u32, Marks)>,
    /// Our numbers for each of the device's, oldest first.
    by_device: BTreeMap<DeviceNumber, Vec<u32>>,
}

#[derive(Debug, Default)]
struct Slot {
    owner: Option<Owner>,
    /// The device's number of the queue, and the positions from which completions with that number
    /// belong to it.
    device: Option<Box<(DeviceNumber, Marks)>>,
}

impl Slot {
    /// Whether a receive that names the shared queue `number` can belong to it: two queues that had
    /// the same number one after the other may receive from different shared queues.
    fn receives_from(&self, number: u32) -> bool {
        match &self.owner {
            Some(Owner::QueuePair(pair)) => match &pair.recv {
                Receives::Shared(queue) => queue.may_be(number),
                _ => true,
            },
            Some(Owner::Gone(queue)) => queue.may_be(number),
            Some(Owner::Srq(_)) | None => true,
        }
    }
}

impl Table {
    /// Checks `count` of the resting numbers: those whose marks were passed are no longer carried
    /// by any entry. Returns whether the table had an answer for one of them.
    fn wake(&mut self, count: usize) -> bool {
        let mut spoke = false;
        for _ in 0..count.min(self.resting.len()) {
            let Some((number, until)) = self.resting.pop_front() else {
                break;
            };
            if until.iter().flatten().all(Mark::is_passed) {
                spoke |= self.free(number);
            } else {
                self.resting.push_back((number, until));
            }
        }
        spoke
    }

    /// No entry carries `number` any more. Returns whether the table had an answer for it.
    fn free(&mut self, number: u32) -> bool {
        self.free.push_back(number);
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return false;
        };
        if let Some(device) = slot.device.take()
            && let Some(numbers) = self.by_device.get_mut(&device.0)
        {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_device.remove(&device.0);
            }
        }
        slot.owner.take().is_some()
    }

    /// A number that no entry carries; `None` if none is left.
    fn unused(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop_front() {
            return Some(number);
        }
        let number = u32::try_from(self.slots.len()).ok()?;
        if number >= NO_NUMBER {
            return None;
        }
        self.slots.push(Slot::default());
        Some(number)
    }
}

impl Trackers {
    /// Gives a queue a number; `None` if all are in use.
    pub(crate) fn add(&self, owner: Owner) -> Option<u32> {
        self.put(Slot {
            owner: Some(owner),
            device: None,
        })
    }

    /// Registers a queue by the device's number, which its completions carry from these marks on.
    /// Gives it a number of ours.
    pub(crate) fn add_device(
        &self,
        number: DeviceNumber,
        owner: Owner,
        since: Marks,
    ) -> Option<u32> {
        self.put(Slot {
            owner: Some(owner),
            device: Some(Box::new((number, since))),
        })
    }

    fn put(&self, slot: Slot) -> Option<u32> {
        let mut table = self.write();
        let mut spoke = table.wake(SOME);
        let mut number = table.unused();
        if number.is_none() {
            spoke |= table.wake(usize::MAX);
            number = table.unused();
        }
        if spoke {
            self.turn();
        }
        let number = number?;
        if let Some(device) = &slot.device {
            table.by_device.entry(device.0).or_default().push(number);
        }
        *table.slots.get_mut(number as usize)? = slot;
        Some(number)
    }

    /// The queue `number` was destroyed; up to these marks, its completions may be waiting.
    pub(crate) fn remove(&self, number: u32, until: Marks) {
        let mut table = self.write();
        if let Some(slot) = table.slots.get(number as usize)
            && let Some(Owner::QueuePair(pair)) = &slot.owner
        {
            // Before its number can be another's: caches may still have it.
            pair.end();
        }
        if until.iter().all(Option::is_none) {
            table.free(number);
        } else if let Some(slot) = table.slots.get_mut(number as usize) {
            slot.owner = slot.owner.take().and_then(Owner::gone);
            table.resting.push_back((number, until));
        }
        self.turn();
    }

    /// Makes caches stale. Called with the table locked.
    fn turn(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Changes when something that was found here is no longer valid.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The queue with this number.
    pub(crate) fn find(&self, number: u32) -> Option<Owner> {
        self.read().slots.get(number as usize)?.owner.clone()
    }

    /// The queue that an entry at `position` of `cq` belongs to, by the device's number.
    pub(crate) fn find_device(
        &self,
        cq: &Weak<CqShared>,
        position: u64,
        entry: &Entry<'_>,
    ) -> Option<Owner> {
        let receive = entry.tail.is_receive();
        // Receives of a shared queue carry its number, too.
        let shared = match entry.user_index() {
            number if receive && number != NO_NUMBER => number,
            _ => 0,
        };
        let table = self.read();
        let find = |number: DeviceNumber| {
            let slots = table.by_device.get(&number)?.iter().rev();
            slots
                .filter_map(|number| table.slots.get(*number as usize))
                .find(|slot| {
                    let since = slot.device.as_ref().map(|device| &device.1);
                    let side = since.and_then(|since| since[usize::from(receive)].as_ref());
                    side.is_some_and(|since| since.is_before(cq, position))
                        && slot.receives_from(shared)
                })
        };
        // For XRC that is all that is known about them.
        let slot = (shared != 0)
            .then(|| find(DeviceNumber::Srq(shared)))
            .flatten()
            .or_else(|| find(DeviceNumber::QueuePair(entry.tail.qpn())))?;
        slot.owner.clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
