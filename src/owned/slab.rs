//! What is in a queue: a table of fixed size whose indexes are used as work request ids.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use uverbs_core::types::RESERVED_WR_IDS;

use super::work::leave;
use super::{Buffer, Memory};
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
    /// The first of the empty slots, which form a list; beyond the end if there are none.
    empty: usize,
    used: usize,
}

/// A request, or nothing. Only what is needed when the request ends; the parts of an ordinary one
/// are separate fields, so that it gets here and back without being assembled in between.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its number among the requests that it is ordered with; 0 if the slot is empty.
    turn: u64,
    user_data: u64,
    /// Bytes of memory; of an empty slot, the next empty one.
    len: usize,
    buffer: Option<Buffer>,
    /// What an ordinary request does not have.
    more: Option<More>,
}

#[derive(Debug)]
struct More {
    /// Its memory, if that is not a buffer.
    memory: Memory,
    /// Kept until it ends, because the request refers to the kernel's handle by number.
    address: Option<AddressHandle>,
}

/// A request that was taken out, of whose memory the rest is taken out with it, too.
#[derive(Debug)]
#[must_use = "its memory may still be in the slot"]
pub(super) struct Taken<'a> {
    pub(super) turn: u64,
    pub(super) user_data: u64,
    /// Bytes of memory.
    pub(super) len: usize,
    buffer: Option<Buffer>,
    more: Option<&'a mut Option<More>>,
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
            let next = if next == to { self.empty } else { next };
            self.slots.push(Slot::empty(next));
        }
        if from < to {
            self.empty = from;
        }
    }

    /// The first empty slot, and its id; `None` if all are in use.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn vacant(&mut self) -> Option<(&mut Slot, u64)> {
        let index = self.empty;
        let slot = self.slots.get_mut(index)?;
        self.empty = slot.len;
        self.used += 1;
        Some((slot, self.base | index as u64))
    }

    /// Puts a request into an empty slot. Returns the buffer if there is none.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        turn: u64,
        user_data: u64,
        buffer: Buffer,
        len: usize,
    ) -> Result<u64, Buffer> {
        let Some((slot, id)) = self.vacant() else {
            return Err(buffer);
        };
        (slot.turn, slot.user_data, slot.len) = (turn, user_data, len);
        leave(slot.buffer.replace(buffer));
        Ok(id)
    }

    /// Puts a request without memory into an empty slot; `None` if there is none.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn insert_bare(&mut self, turn: u64, user_data: u64) -> Option<u64> {
        let (slot, id) = self.vacant()?;
        (slot.turn, slot.user_data, slot.len) = (turn, user_data, 0);
        Some(id)
    }

    /// Puts any request into an empty slot. Returns what it has if there is none.
    pub(super) fn insert_any(
        &mut self,
        turn: u64,
        user_data: u64,
        memory: Memory,
        address: Option<AddressHandle>,
    ) -> Result<u64, (Memory, Option<AddressHandle>)> {
        let len = memory.len();
        let Some((slot, id)) = self.vacant() else {
            return Err((memory, address));
        };
        (slot.turn, slot.user_data, slot.len) = (turn, user_data, len);
        let memory = match memory {
            Memory::Buffer(buffer, _) => {
                slot.buffer = Some(buffer);
                Memory::None
            }
            other => other,
        };
        let any = address.is_some() || !matches!(memory, Memory::None);
        slot.more = any.then_some(More { memory, address });
        Ok(id)
    }

    /// Takes out the request with this id, if it is there.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn take(&mut self, id: u64) -> Option<Taken<'_>> {
        let index = self.index(id);
        let slot = self.slots.get_mut(index)?;
        if slot.turn == 0 {
            return None;
        }
        let turn = mem::replace(&mut slot.turn, 0);
        let len = mem::replace(&mut slot.len, self.empty);
        self.empty = index;
        self.used -= 1;
        Some(Taken {
            turn,
            user_data: slot.user_data,
            len,
            buffer: slot.buffer.take(),
            more: match &mut slot.more {
                None => None,
                more => Some(more),
            },
        })
    }

    /// Drops the request with this id, if it is there.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(taken) = self.take(id) {
            drop(taken.apart());
        }
    }

    /// The request with this id, if it is there.
    pub(super) fn get(&self, id: u64) -> Option<&Slot> {
        self.slots.get(self.index(id)).filter(|slot| slot.turn != 0)
    }

    /// The index that the request with this id has; beyond the end for the id of another table.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "64 bits on all machines there are"
    )]
    fn index(&self, id: u64) -> usize {
        (id ^ self.base) as usize
    }

    /// The upper part that all of its ids have, and no other ids.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// How many requests are in it.
    pub(super) fn len(&self) -> usize {
        self.used
    }
}

impl Slot {
    fn empty(next: usize) -> Self {
        Self {
            turn: 0,
            user_data: 0,
            len: next,
            buffer: None,
            more: None,
        }
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether it has memory.
    pub(super) fn has_memory(&self) -> bool {
        let more = self.more.as_ref().map(|more| &more.memory);
        self.buffer.is_some() || more.is_some_and(|memory| !matches!(memory, Memory::None))
    }

    pub(super) fn address(&self) -> Option<&AddressHandle> {
        self.more.as_ref()?.address.as_ref()
    }

    fn into_memory(self) -> Memory {
        match (self.buffer, self.more) {
            (Some(buffer), _) => Memory::Buffer(buffer, self.len),
            (None, Some(more)) => more.memory,
            (None, None) => Memory::None,
        }
    }
}

impl Taken<'_> {
    /// Its memory. Its address, if it has one, is dropped.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(super) fn into_memory(self) -> Memory {
        let Self {
            turn,
            user_data,
            len,
            buffer,
            more,
        } = self;
        if more.is_some() {
            // A new value: one that is passed on is in memory, and this need not be.
            let taken = Taken {
                turn,
                user_data,
                len,
                buffer,
                more,
            };
            return taken.apart().0;
        }
        match buffer {
            Some(buffer) => Memory::Buffer(buffer, len),
            None => Memory::None,
        }
    }

    /// Its memory and its address.
    #[cold]
    #[inline(never)]
    pub(super) fn apart(self) -> (Memory, Option<AddressHandle>) {
        let (memory, address) = match self.more.and_then(Option::take) {
            Some(more) => (more.memory, more.address),
            None => (Memory::None, None),
        };
        match self.buffer {
            Some(buffer) => (Memory::Buffer(buffer, self.len), address),
            None => (memory, address),
        }
    }
}

impl Default for Slab {
    /// A table without slots, which has no ids.
    fn default() -> Self {
        Self {
            base: 0,
            slots: Vec::new(),
            empty: NONE,
            used: 0,
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
        let found = (taken.turn, taken.user_data);
        drop(taken.apart());
        Some(found)
    }

    #[test]
    fn a_request_comes_back_once_by_its_id() {
        let mut slab = Slab::new(2);
        let one = slab.insert_bare(1, 10).unwrap();
        let two = slab.insert_any(2, 20, Memory::None, None).unwrap();
        assert_eq!(slab.insert_bare(3, 30), None);
        assert!(slab.insert_any(3, 30, Memory::None, None).is_err());
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
        let mut ids: Vec<_> = (1..4).map(|n| slab.insert_bare(n, n).unwrap()).collect();
        for n in 4..100 {
            let id = ids.remove((n % 3) as usize);
            assert!(taken(&mut slab, id).is_some());
            assert_eq!(slab.insert_bare(n, n), Some(id));
            assert_eq!(slab.insert_bare(n, n), None);
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
        let id = slab.insert_any(5, 50, list, None).unwrap();
        assert!(
            slab.get(id)
                .is_some_and(|slot| slot.has_memory() && slot.turn() == 5)
        );
        let (memory, address) = slab.take(id).unwrap().apart();
        assert!(matches!(memory, Memory::List(list) if list.len() == 2));
        assert!(address.is_none());
        // The next in this slot has none of it.
        assert_eq!(slab.insert_bare(6, 60), Some(id));
        assert!(slab.get(id).is_some_and(|slot| !slot.has_memory()));
        let bare = slab.take(id).unwrap();
        assert_eq!(bare.len, 0);
        assert!(matches!(bare.into_memory(), Memory::None));
    }

    #[test]
    fn ids_are_in_the_reserved_range() {
        let mut slab = Slab::new(3);
        for turn in 1..4 {
            assert!(slab.insert_bare(turn, 0).unwrap() >= RESERVED_WR_IDS);
        }
    }

    #[test]
    fn ids_of_other_tables_and_made_up_ones_find_nothing() {
        let mut slab = Slab::new(4);
        let mut other = Slab::new(4);
        let mine = slab.insert_bare(1, 0).unwrap();
        let others = other.insert_bare(1, 0).unwrap();
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
        let first = slab.insert_bare(1, 1).unwrap();
        slab.grow(3);
        slab.grow(2);
        let more: Vec<_> = (2..4).map(|n| slab.insert_bare(n, n).unwrap()).collect();
        assert_eq!(slab.insert_bare(9, 9), None);
        assert_eq!(taken(&mut slab, first), Some((1, 1)));
        slab.grow(5);
        let again: Vec<_> = (4..7).map(|n| slab.insert_bare(n, n).unwrap()).collect();
        assert_eq!(slab.insert_bare(9, 9), None);
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
        assert!(
            last.insert_bare(1, 0)
                .is_some_and(|id| id >= RESERVED_WR_IDS)
        );
        for _ in 0..3 {
            let mut none = Slab::with_tags(&tags, 1);
            none.grow(5);
            assert_eq!(none.insert_bare(1, 0), None);
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
