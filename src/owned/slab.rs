//! What is in a queue: a table of fixed size whose indexes are used as work request ids.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use uverbs_core::types::RESERVED_WR_IDS;

use super::Memory;
use super::work::leave;
use crate::AddressHandle;
use crate::unpolled::PLACE_BITS;

/// Requests in a queue, each under an id that is unique in the process.
///
/// An id is [`RESERVED_WR_IDS`], a tag that no other table of the process has or had (39 bits), and
/// an index in the table (24 bits). Requests of users never have such an id. An index is reused
/// only after its request was taken out by the one completion with its id, or after the tag
/// changed, so an id never stands for two requests whose completions could be confused.
#[derive(Debug)]
pub(super) struct Slab {
    /// The upper bits that all of its ids have.
    base: u64,
    slots: Vec<Slot>,
    /// Where datagrams go, by slot: kept until they end, because requests refer to the kernel's
    /// handle by number. Empty until there is one.
    addresses: Vec<Option<AddressHandle>>,
    room: Room,
}

#[derive(Debug)]
struct Room {
    /// The first of the empty slots, which form a list; beyond the end if there are none.
    empty: usize,
    used: usize,
}

/// A request, or nothing. Only what is needed when the request ends.
#[derive(Debug)]
// Found by a shift, and in one cache line.
#[repr(align(64))]
pub(super) struct Slot {
    /// Its number among the requests that it is ordered with, and [`SPECIAL`] if something is to
    /// be done before it is taken out; 0 if the slot is empty.
    turn: u64,
    /// Of an empty slot, the next empty one.
    user_data: u64,
    memory: Memory,
}

/// In a turn: the request has an address, or others end with it.
pub(super) const SPECIAL: u64 = 1 << 63;

/// A request that is there.
#[derive(Debug)]
pub(super) struct Found<'a> {
    slot: &'a mut Slot,
    index: usize,
    room: &'a mut Room,
}

/// A request that was taken out.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) turn: u64,
    pub(super) user_data: u64,
    pub(super) memory: Memory,
}

/// The end of the list of empty slots: no table has as many.
const NONE: usize = usize::MAX;

/// Hands out tags, each once.
#[derive(Debug)]
struct Tags {
    next: AtomicU64,
}

/// Tags end here; the numbers above would not fit beside [`RESERVED_WR_IDS`].
const LAST_TAG: u64 = RESERVED_WR_IDS >> PLACE_BITS;

static TAGS: Tags = Tags {
    next: AtomicU64::new(0),
};

impl Tags {
    /// The common part of the ids of a new table. `None` once there are no more.
    fn take(&self) -> Option<u64> {
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tag| {
                (tag < LAST_TAG).then_some(tag + 1)
            })
            .ok()
            .map(|tag| RESERVED_WR_IDS | tag << PLACE_BITS)
    }
}

impl Slab {
    /// A table of `capacity` slots, at most 2^24. It has none if the process has used up all ids.
    pub(super) fn new(capacity: u32) -> Self {
        Self::with_tags(&TAGS, capacity)
    }

    fn with_tags(tags: &Tags, capacity: u32) -> Self {
        let mut slab = Self {
            base: tags.take().unwrap_or(0),
            ..Self::default()
        };
        slab.grow(capacity);
        slab
    }

    /// Makes room for `capacity` requests, at most 2^24. It never shrinks.
    pub(super) fn grow(&mut self, capacity: u32) {
        if self.base == 0 {
            return;
        }
        let (from, to) = (self.slots.len(), capacity.min(1 << PLACE_BITS) as usize);
        self.slots.reserve(to.saturating_sub(from));
        for next in from + 1..=to {
            let next = if next == to { self.room.empty } else { next };
            self.slots.push(Slot::empty(next));
        }
        if from < to {
            self.room.empty = from;
        }
    }

    /// Puts a request into an empty slot. Returns its memory if there is none.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        turn: u64,
        user_data: u64,
        memory: Memory,
    ) -> Result<u64, Memory> {
        let index = self.room.empty;
        let Some(slot) = self.slots.get_mut(index) else {
            return Err(memory);
        };
        self.room.empty = index_of(slot.user_data);
        self.room.used += 1;
        (slot.turn, slot.user_data) = (turn, user_data);
        leave(mem::replace(&mut slot.memory, memory));
        Ok(self.base | index as u64)
    }

    /// Keeps `address` as long as the request with this id is there.
    pub(super) fn keep(&mut self, id: u64, address: AddressHandle) {
        let index = self.index(id);
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.turn != 0) else {
            return;
        };
        slot.turn |= SPECIAL;
        if self.addresses.len() < self.slots.len() {
            self.addresses.resize(self.slots.len(), None);
        }
        if let Some(kept) = self.addresses.get_mut(index) {
            *kept = Some(address);
        }
    }

    /// The request with this id, to be taken out, if it is there and not special.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn find(&mut self, id: u64) -> Option<Found<'_>> {
        let index = self.index(id);
        let slot = self.slots.get_mut(index)?;
        if slot.turn.cast_signed() <= 0 {
            return None;
        }
        Some(Found {
            slot,
            index,
            room: &mut self.room,
        })
    }

    /// The same for any request. Its address, if it has one, is dropped.
    pub(super) fn find_any(&mut self, id: u64) -> Option<Found<'_>> {
        drop(self.take_address(id));
        let index = self.index(id);
        self.slots.get_mut(index)?.turn &= !SPECIAL;
        self.find(id)
    }

    /// Takes out the request with this id, if it is there. Its address, if it has one, is dropped.
    pub(super) fn take(&mut self, id: u64) -> Option<Taken> {
        self.find_any(id).map(Found::take)
    }

    /// Takes out the address of the request with this id, if it has one.
    pub(super) fn take_address(&mut self, id: u64) -> Option<AddressHandle> {
        let index = self.index(id);
        self.addresses.get_mut(index)?.take()
    }

    /// Drops the request with this id and turn if it has no memory. Whether it is there still.
    #[inline]
    pub(super) fn remove_bare(&mut self, id: u64, turn: u64) -> bool {
        let index = self.index(id);
        let slot = self.slots.get_mut(index);
        let Some(slot) = slot.filter(|slot| turn != 0 && slot.turn() == turn) else {
            return false;
        };
        if slot.has_memory() {
            return true;
        }
        self.room.used -= 1;
        let next = mem::replace(&mut self.room.empty, index);
        (slot.turn, slot.user_data) = (0, next as u64);
        if let Some(address) = self.addresses.get_mut(index) {
            *address = None;
        }
        false
    }

    /// The request with this id, if it is there.
    pub(super) fn get(&self, id: u64) -> Option<&Slot> {
        self.slots.get(self.index(id)).filter(|slot| slot.turn != 0)
    }

    /// The index that the request with this id has; beyond the end for the id of another table.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn index(&self, id: u64) -> usize {
        index_of(id ^ self.base)
    }

    /// Where the datagram with this id goes.
    pub(super) fn address(&self, id: u64) -> Option<&AddressHandle> {
        self.addresses.get(self.index(id))?.as_ref()
    }

    /// The upper part that all of its ids have, and no other ids.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// How many requests are in it.
    pub(super) fn len(&self) -> usize {
        self.room.used
    }
}

#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "64 bits on all machines there are"
)]
const fn index_of(number: u64) -> usize {
    number as usize
}

impl Found<'_> {
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn take(self) -> Taken {
        let Self { slot, index, room } = self;
        room.used -= 1;
        let next = mem::replace(&mut room.empty, index);
        Taken {
            turn: mem::replace(&mut slot.turn, 0),
            user_data: mem::replace(&mut slot.user_data, next as u64),
            memory: mem::replace(&mut slot.memory, Memory::None),
        }
    }
}

impl Slot {
    fn empty(next: usize) -> Self {
        Self {
            turn: 0,
            user_data: next as u64,
            memory: Memory::None,
        }
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn & !SPECIAL
    }

    /// Whether it has memory.
    pub(super) fn has_memory(&self) -> bool {
        !matches!(self.memory, Memory::None)
    }

    fn into_memory(self) -> Memory {
        self.memory
    }
}

impl Default for Slab {
    /// A table without slots, which has no ids.
    fn default() -> Self {
        Self {
            base: 0,
            slots: Vec::new(),
            addresses: Vec::new(),
            room: Room {
                empty: NONE,
                used: 0,
            },
        }
    }
}

impl IntoIterator for Slab {
    type Item = Memory;
    type IntoIter = std::iter::Map<std::vec::IntoIter<Slot>, fn(Slot) -> Memory>;

    /// The memory of everything that is in it; of empty slots, none. Its ids are no longer of any
    /// use.
    fn into_iter(self) -> Self::IntoIter {
        self.slots.into_iter().map(Slot::into_memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slab: &mut Slab, id: u64) -> Option<(u64, u64)> {
        let taken = slab.take(id)?;
        Some((taken.turn, taken.user_data))
    }

    fn bare(slab: &mut Slab, turn: u64, user_data: u64) -> Option<u64> {
        slab.insert(turn, user_data, Memory::None).ok()
    }

    #[test]
    fn a_request_comes_back_once_by_its_id() {
        let mut slab = Slab::new(2);
        let one = bare(&mut slab, 1, 10).unwrap();
        let two = slab.insert(2, 20, Memory::None).unwrap();
        assert_eq!(bare(&mut slab, 3, 30), None);
        assert!(slab.insert(3, 30, Memory::None).is_err());
        assert_eq!(slab.len(), 2);
        assert_eq!(taken(&mut slab, one), Some((1, 10)));
        assert_eq!(taken(&mut slab, one), None);
        assert!(slab.get(one).is_none());
        assert_eq!(taken(&mut slab, two), Some((2, 20)));
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn the_slot_emptied_last_is_used_first_and_none_is_lost() {
        let mut slab = Slab::new(3);
        let mut ids: Vec<_> = (1..4).map(|n| bare(&mut slab, n, n).unwrap()).collect();
        for n in 4..100 {
            let id = ids.remove((n % 3) as usize);
            assert!(taken(&mut slab, id).is_some());
            assert_eq!(bare(&mut slab, n, n), Some(id));
            assert_eq!(bare(&mut slab, n, n), None);
            ids.push(id);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), slab.len()), (3, 3));
    }

    #[test]
    fn a_reused_slot_has_nothing_of_its_former_request() {
        let mut slab = Slab::new(2);
        let list = Memory::List(vec![Memory::None, Memory::None]);
        let id = slab.insert(5, 50, list).unwrap();
        assert!(
            slab.get(id)
                .is_some_and(|slot| slot.has_memory() && slot.turn() == 5)
        );
        let memory = slab.take(id).unwrap().memory;
        assert!(matches!(memory, Memory::List(list) if list.len() == 2));
        // The next in this slot has none of it.
        assert_eq!(bare(&mut slab, 6, 60), Some(id));
        assert!(slab.get(id).is_some_and(|slot| !slot.has_memory()));
        let bare = slab.take(id).unwrap();
        assert!(matches!(bare.memory, Memory::None));
    }

    #[test]
    fn a_special_request_is_found_only_where_it_is_asked_for() {
        let mut slab = Slab::new(2);
        let id = bare(&mut slab, 7 | SPECIAL, 70).unwrap();
        assert!(slab.find(id).is_none());
        assert_eq!(slab.get(id).map(Slot::turn), Some(7));
        let taken = slab.find_any(id).map(Found::take).unwrap();
        assert_eq!((taken.turn, taken.user_data), (7, 70));
        assert!(slab.find_any(id).is_none());
        assert_eq!(bare(&mut slab, 8, 80), Some(id));
        assert!(slab.find(id).is_some());
    }

    #[test]
    fn ids_are_in_the_reserved_range() {
        let mut slab = Slab::new(3);
        for turn in 1..4 {
            assert!(bare(&mut slab, turn, 0).unwrap() >= RESERVED_WR_IDS);
        }
    }

    #[test]
    fn ids_of_other_tables_and_made_up_ones_find_nothing() {
        let mut slab = Slab::new(4);
        let mut other = Slab::new(4);
        let mine = bare(&mut slab, 1, 0).unwrap();
        let others = bare(&mut other, 1, 0).unwrap();
        assert!(slab.take(others).is_none());
        for bit in 0..64 {
            assert!(slab.take(mine ^ 1 << bit).is_none(), "{bit}");
        }
        for made_up in [0, u64::MAX, mine + 4] {
            assert!(slab.take(made_up).is_none(), "{made_up:#x}");
        }
        assert_eq!(taken(&mut slab, mine), Some((1, 0)));
    }

    #[test]
    fn a_table_that_grows_keeps_what_is_in_it() {
        let mut slab = Slab::new(1);
        let first = bare(&mut slab, 1, 1).unwrap();
        slab.grow(3);
        slab.grow(2);
        let more: Vec<_> = (2..4).map(|n| bare(&mut slab, n, n).unwrap()).collect();
        assert_eq!(bare(&mut slab, 9, 9), None);
        assert_eq!(taken(&mut slab, first), Some((1, 1)));
        slab.grow(5);
        let again: Vec<_> = (4..7).map(|n| bare(&mut slab, n, n).unwrap()).collect();
        assert_eq!(bare(&mut slab, 9, 9), None);
        assert!(again.contains(&first));
        assert_eq!(taken(&mut slab, more[1]), Some((3, 3)));
        assert_eq!(slab.into_iter().count(), 5);
    }

    #[test]
    fn a_table_has_no_slots_once_all_tags_are_used_up() {
        let tags = Tags {
            next: AtomicU64::new(LAST_TAG - 1),
        };
        let mut last = Slab::with_tags(&tags, 1);
        assert!(bare(&mut last, 1, 0).is_some_and(|id| id >= RESERVED_WR_IDS));
        for _ in 0..3 {
            let mut none = Slab::with_tags(&tags, 1);
            none.grow(5);
            assert_eq!(bare(&mut none, 1, 0), None);
            assert!(none.take(0).is_none());
        }
    }

    #[test]
    fn the_empty_table_knows_no_id() {
        let mut none = Slab::default();
        assert!(none.take(0).is_none());
        assert!(none.get(RESERVED_WR_IDS).is_none());
    }
}
