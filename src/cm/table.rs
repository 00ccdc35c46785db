//! The numbers that events carry, and the events that nobody has taken yet.
//!
//! A number is an index with a generation, never an address. An event that was under way when its
//! id was destroyed finds another generation, or none, and is recognised as stale; so nothing is
//! acknowledged, and destroying an id waits for nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use uverbs_core::cm::{Event, EventKind};
use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::waiters::Waiters;

/// The low bits of a number are the index, the 40 bits above are the generation.
const INDEX_BITS: u32 = 24;
const LAST_GENERATION: u64 = (1 << (64 - INDEX_BITS)) - 1;

/// The generation that was assigned last, in the whole process; the first is 1, so that no number
/// is 0, with which the kernel reports nothing.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The most events of one id that wait to be taken, other than requests: a kernel that invents more
/// cannot fill memory.
const MOST: usize = 64;
/// The same for all ids whose events are read from the channel.
const MOST_LOOSE: usize = 1 << 16;

/// Who takes the events of an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Takes {
    /// Whoever waits for this id. For a listener, at most this many requests are kept.
    Itself { requests: usize },
    /// Whoever reads the channel.
    Channel,
}

#[derive(Debug)]
struct Entry {
    takes: Takes,
    events: VecDeque<Event>,
    waiters: Waiters,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u64,
    entry: Option<Entry>,
}

/// The ids of a channel.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Events for whoever reads the channel.
    pub(super) loose: VecDeque<Event>,
}

/// What became of an event.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// To be woken without a lock.
    pub(super) wake: Vec<Waker>,
    /// The id of a request that nobody wants.
    pub(super) unwanted: Option<u32>,
}

/// What is left of an id's entry: dropping wakers may run foreign code, which must not happen under
/// a lock.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Nobody waits any more.
    pub(super) waiters: Waiters,
    /// Ids of requests that were not taken.
    pub(super) requests: Vec<u32>,
}

impl Table {
    /// A new number.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with 2^24 ids;
    /// [`OutOfResources`](ErrorKind::OutOfResources) once the process has used 2^40 numbers.
    pub(super) fn reserve(&mut self, op: Op, takes: Takes) -> Result<u64> {
        let generation = GENERATION
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                (last < LAST_GENERATION).then_some(last + 1)
            })
            .map_err(|_| {
                Error::new(op, ErrorKind::OutOfResources).fact("ids_created", LAST_GENERATION)
            })?
            + 1;
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index >= 1 << INDEX_BITS {
            return Err(Error::limit(
                op,
                "ids",
                1 << INDEX_BITS,
                (1 << INDEX_BITS) - 1,
            ));
        }
        let slot = Slot {
            generation,
            entry: Some(Entry {
                takes,
                events: VecDeque::new(),
                waiters: Waiters::default(),
            }),
        };
        match self.slots.get_mut(index) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        Ok(generation << INDEX_BITS | index as u64)
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let index = usize::try_from(number & ((1 << INDEX_BITS) - 1)).ok()?;
        let slot = self.slots.get_mut(index)?;
        (slot.generation == number >> INDEX_BITS).then_some(slot)
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.slot(number)?.entry.as_mut()
    }

    /// Events with this number are stale from now on.
    pub(super) fn release(&mut self, number: u64) -> Remains {
        let Some(entry) = self.slot(number).and_then(|slot| slot.entry.take()) else {
            return Remains::default();
        };
        let index = number & ((1 << INDEX_BITS) - 1);
        self.free.extend(usize::try_from(index));
        let mut events = entry.events;
        if entry.takes == Takes::Channel {
            let (own, others) = std::mem::take(&mut self.loose)
                .into_iter()
                .partition(|event| event.uid == number);
            events = own;
            self.loose = others;
        }
        let is_request = |event: &Event| event.kind == EventKind::ConnectRequest;
        let requests = events.iter().filter(|event| is_request(event));
        Remains {
            requests: requests.map(|event| event.id).collect(),
            waiters: entry.waiters,
        }
    }

    /// Puts an event where it belongs.
    pub(super) fn sort(&mut self, event: &Event) -> Sorted {
        let is_request = event.kind == EventKind::ConnectRequest;
        let unwanted = is_request.then_some(event.id);
        let has_room = self.loose.len() < MOST_LOOSE;
        let Some(entry) = self.entry(event.uid) else {
            return Sorted {
                unwanted,
                ..Sorted::default()
            };
        };
        match entry.takes {
            Takes::Channel if has_room => self.loose.push_back(*event),
            Takes::Channel => {
                return Sorted {
                    unwanted,
                    ..Sorted::default()
                };
            }
            Takes::Itself { requests } => {
                let most = if is_request { requests } else { MOST };
                let kept = |other: &&Event| (other.kind == EventKind::ConnectRequest) == is_request;
                if entry.events.iter().filter(kept).count() >= most {
                    return Sorted {
                        unwanted,
                        ..Sorted::default()
                    };
                }
                entry.events.push_back(*event);
                let mut wake = Vec::new();
                entry.waiters.take_all(&mut wake);
                return Sorted {
                    wake,
                    unwanted: None,
                };
            }
        }
        Sorted::default()
    }

    /// Those who wait for an event of any id; nobody is woken by one any more.
    #[cfg(feature = "tokio")]
    pub(super) fn take_waiters(&mut self) -> Vec<Waker> {
        let mut all = Vec::new();
        for entry in self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut()) {
            entry.waiters.take_all(&mut all);
        }
        all
    }

    /// Takes the next event of an id.
    pub(super) fn take(&mut self, number: u64) -> Option<Event> {
        self.entry(number)?.events.pop_front()
    }

    /// Has `waker` woken by the next event of the id, at the place of `key`. Returns a waker that
    /// is no longer needed.
    pub(super) fn wait(
        &mut self,
        number: u64,
        key: &mut Option<usize>,
        waker: Waker,
    ) -> Option<Waker> {
        match self.entry(number) {
            Some(entry) => entry.waiters.register(key, waker),
            None => Some(waker),
        }
    }

    /// Gives a place up. Returns the waker that was there.
    #[cfg(feature = "tokio")]
    pub(super) fn leave(&mut self, number: u64, key: &mut Option<usize>) -> Option<Waker> {
        self.entry(number)?.waiters.remove(key)
    }
}
