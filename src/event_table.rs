//! The numbers that kernel events carry: table indexes with a generation, never addresses.
//!
//! An event that arrives after its object is gone finds another generation, or none, and is
//! recognised as stale, so nothing has to wait for it. Generations are counted for the whole
//! process, so a number identifies one object across all contexts, permanently.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::event::EventSource;

/// The low bits of a number are the index, the 40 bits above are the generation.
const INDEX_BITS: u32 = 24;
const LAST_GENERATION: u64 = (1 << (64 - INDEX_BITS)) - 1;

/// The generation that was assigned last; the first is 1, so that no number is 0.
static GENERATION: AtomicU64 = AtomicU64::new(0);

fn next_generation(last: &AtomicU64) -> Option<u64> {
    last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        (last < LAST_GENERATION).then_some(last + 1)
    })
    .ok()
    .map(|last| last + 1)
}

/// The objects of a context that events can be about.
#[derive(Debug, Default)]
pub(crate) struct EventTable {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    /// The index that was freed last; [`NOWHERE`] if all are in use.
    free: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NOWHERE,
        }
    }
}

/// No index of the table.
const NOWHERE: u32 = u32::MAX;

/// How many entries the table grows by, at least: most contexts have no more queues.
const MORE: usize = 6;

#[derive(Debug, Default)]
struct Entry {
    generation: u64,
    /// While the entry is free: the index that was freed before it.
    next_free: u32,
    source: Option<EventSource>,
    /// How many completion events were read, if the object wants to know.
    events: Option<Arc<AtomicU32>>,
}

/// A number in use. Dropping it makes later events with it stale.
#[derive(Debug)]
pub(crate) struct EventKey {
    event_table: Arc<EventTable>,
    number: u64,
}

impl Table {
    /// A free index. `None` if all possible ones are in use.
    fn place(&mut self) -> Option<u32> {
        let free = self.free;
        if let Some(entry) = self.entries.get(free as usize) {
            self.free = entry.next_free;
            return Some(free);
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        if index >= 1 << INDEX_BITS {
            return None;
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve(MORE);
        }
        self.entries.push(Entry::default());
        Some(index)
    }
}

impl EventTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new number, which means nothing until [`EventKey::announce`] says what it stands for.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with 2^24 numbers of a context in use;
    /// [`OutOfResources`](ErrorKind::OutOfResources) once the process has used 2^40.
    pub(crate) fn reserve(self: &Arc<Self>, op: Op) -> Result<EventKey> {
        self.reserve_counted(op, None)
    }

    /// The same, for an object that wants to know how many completion events with it were read.
    pub(crate) fn reserve_counted(
        self: &Arc<Self>,
        op: Op,
        events: Option<&Arc<AtomicU32>>,
    ) -> Result<EventKey> {
        let generation = next_generation(&GENERATION).ok_or_else(|| {
            Error::new(op, ErrorKind::OutOfResources).fact("objects_created", LAST_GENERATION)
        })?;
        let mut table = self.lock();
        let too_many = || Error::limit(op, "objects", 1 << INDEX_BITS, (1 << INDEX_BITS) - 1);
        let index = table.place().ok_or_else(too_many)?;
        if let Some(entry) = table.entries.get_mut(index as usize) {
            entry.generation = generation;
            entry.events = events.cloned();
        }
        drop(table);
        Ok(EventKey {
            event_table: Arc::clone(self),
            number: generation << INDEX_BITS | u64::from(index),
        })
    }

    /// What `number` stands for now; counts that a completion event with it was read.
    pub(crate) fn take_event(&self, number: u64) -> Option<EventSource> {
        let table = self.lock();
        let entry = table.entries.get(index_of(number) as usize)?;
        if entry.generation != generation_of(number) {
            return None;
        }
        if let Some(events) = &entry.events {
            events.fetch_add(1, Ordering::Release);
        }
        entry.source
    }

    /// What `number` stands for now.
    pub(crate) fn find(&self, number: u64) -> Option<EventSource> {
        let table = self.lock();
        let entry = table.entries.get(index_of(number) as usize)?;
        (entry.generation == generation_of(number)).then_some(entry.source)?
    }
}

impl EventKey {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Says what the number stands for.
    pub(crate) fn announce(&self, source: EventSource) {
        let mut table = self.event_table.lock();
        if let Some(entry) = table.entries.get_mut(index_of(self.number) as usize) {
            entry.source = Some(source);
        }
    }
}

impl Drop for EventKey {
    fn drop(&mut self) {
        let mut table = self.event_table.lock();
        let before = table.free;
        let index = index_of(self.number);
        if let Some(entry) = table.entries.get_mut(index as usize) {
            entry.source = None;
            entry.events = None;
            entry.next_free = before;
            table.free = index;
        }
    }
}

fn index_of(number: u64) -> u32 {
    (number & ((1 << INDEX_BITS) - 1)) as u32
}

fn generation_of(number: u64) -> u64 {
    number >> INDEX_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(event_table: &Arc<EventTable>) -> EventKey {
        event_table.reserve(Op::CreateQueuePair).unwrap()
    }

    fn source(user_data: u64) -> EventSource {
        EventSource::CompletionQueue { user_data }
    }

    #[test]
    fn a_number_means_its_object_and_no_other() {
        let event_table = Arc::new(EventTable::default());
        let (one, two) = (reserve(&event_table), reserve(&event_table));
        one.announce(source(1));
        two.announce(source(2));
        assert_eq!(event_table.find(one.number()), Some(source(1)));
        assert_eq!(event_table.find(two.number()), Some(source(2)));
        assert_ne!(one.number(), 0);
    }

    #[test]
    fn a_stale_number_finds_nothing_even_when_its_place_is_used_again() {
        let event_table = Arc::new(EventTable::default());
        let gone = reserve(&event_table);
        gone.announce(source(1));
        let number = gone.number();
        drop(gone);
        assert_eq!(event_table.find(number), None);
        let next = reserve(&event_table);
        next.announce(source(2));
        assert_eq!(
            index_of(next.number()),
            index_of(number),
            "the place is used again"
        );
        assert_eq!(event_table.find(number), None);
    }

    #[test]
    fn places_are_used_again_before_the_table_grows() {
        let event_table = Arc::new(EventTable::default());
        let first: Vec<_> = (0..20).map(|_| reserve(&event_table)).collect();
        let mut places: Vec<_> = first
            .iter()
            .map(|event_key| index_of(event_key.number()))
            .collect();
        drop(first);
        let again: Vec<_> = (0..20).map(|_| reserve(&event_table)).collect();
        let mut again: Vec<_> = again
            .iter()
            .map(|event_key| index_of(event_key.number()))
            .collect();
        places.sort_unstable();
        again.sort_unstable();
        assert_eq!(places, (0..20).collect::<Vec<_>>());
        assert_eq!(again, places);
    }

    #[test]
    fn numbers_the_kernel_made_up_find_nothing() {
        let event_table = Arc::new(EventTable::default());
        assert_eq!(event_table.find(0), None);
        assert_eq!(event_table.find(u64::MAX), None);
    }

    #[test]
    fn contexts_have_no_number_in_common() {
        let numbers: std::collections::HashSet<_> = (0..10)
            .map(|_| reserve(&Arc::new(EventTable::default())).number())
            .collect();
        assert_eq!(numbers.len(), 10);
    }

    #[test]
    fn generations_end_and_do_not_begin_anew() {
        let last = AtomicU64::new(LAST_GENERATION - 1);
        assert_eq!(next_generation(&last), Some(LAST_GENERATION));
        assert_eq!(next_generation(&last), None);
        assert_eq!(next_generation(&last), None);
    }
}
