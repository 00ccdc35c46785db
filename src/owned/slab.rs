//! What is in a queue: a table of fixed size whose indexes are used as work request ids.

use std::sync::atomic::{AtomicU64, Ordering};

use uverbs_core::types::RESERVED_WR_IDS;

use crate::unpolled::PLACE_BITS;

/// Values in a queue, each under an id that is unique in the process.
///
/// An id is [`RESERVED_WR_IDS`], a tag that no other table of the process has or had (39 bits), and
/// an index in the table (24 bits). Requests of users never have such an id. An index is reused
/// only after its value was taken out by the one completion with its id, or after the tag changed,
/// so an id never stands for two requests whose completions could be confused.
#[derive(Debug)]
pub(super) struct Slab<T> {
    /// The upper bits that all of its ids have.
    base: u64,
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

const PLACES: u64 = 1 << PLACE_BITS;

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

impl<T> Slab<T> {
    /// A table of `capacity` slots, at most 2^24. It has none if the process has used up all ids.
    pub(super) fn new(capacity: u32) -> Self {
        Self::with_tags(&TAGS, capacity)
    }

    fn with_tags(tags: &Tags, capacity: u32) -> Self {
        let base = tags.take();
        let mut slab = Self {
            base: base.unwrap_or(0),
            places: Vec::new(),
            free: Vec::new(),
        };
        if base.is_some() {
            slab.grow(capacity);
        }
        slab
    }

    /// Makes room for `capacity` values, at most 2^24. It never shrinks.
    pub(super) fn grow(&mut self, capacity: u32) {
        if self.base == 0 {
            return;
        }
        let capacity = capacity.min(1 << PLACE_BITS);
        let from = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        if capacity <= from {
            return;
        }
        self.free.reserve(capacity as usize - self.free.len());
        self.places.resize_with(capacity as usize, || None);
        self.free.extend((from..capacity).rev());
    }

    /// Puts `value` into a free slot. Returns the value if there is none.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(super) fn insert(&mut self, value: T) -> Result<u64, T> {
        let Some(index) = self.free.pop() else {
            return Err(value);
        };
        match self.places.get_mut(index as usize) {
            // Only an empty place: then there is nothing to drop.
            Some(place @ None) => {
                *place = Some(value);
                Ok(self.base | u64::from(index))
            }
            _ => Err(value),
        }
    }

    /// Takes out the value with this id, if it is there.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let index = self.place(id)?;
        let value = self.places.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    /// The value with this id, if it is there.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<&T> {
        let index = self.place(id)?;
        self.places.get(index as usize)?.as_ref()
    }

    /// The index that the value with this id would have, if the id is one of this table.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "24 bits are left")]
    fn place(&self, id: u64) -> Option<u32> {
        let place = id ^ self.base;
        (place < PLACES).then_some(place as u32)
    }

    /// The upper part that all of its ids have, and no other ids.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// How many values are in it.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> Default for Slab<T> {
    /// A table without slots, which has no ids.
    fn default() -> Self {
        Self {
            base: 0,
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> IntoIterator for Slab<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Option<T>>>;

    /// Everything that is in it. Its ids are no longer of any use.
    fn into_iter(self) -> Self::IntoIter {
        self.places.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_once_by_its_id() {
        let mut slab = Slab::new(2);
        let one = slab.insert("one").unwrap();
        let two = slab.insert("two").unwrap();
        assert_eq!(slab.insert("three"), Err("three"));
        assert_eq!(slab.remove(one), Some("one"));
        assert_eq!(slab.remove(one), None);
        assert_eq!(slab.remove(two), Some("two"));
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn ids_are_those_that_users_cannot_have() {
        let mut slab = Slab::new(3);
        for value in 0..3 {
            assert!(slab.insert(value).unwrap() >= RESERVED_WR_IDS);
        }
    }

    #[test]
    fn ids_of_other_tables_and_made_up_ones_find_nothing() {
        let mut slab = Slab::new(4);
        let mut other = Slab::new(4);
        let mine = slab.insert(()).unwrap();
        assert_eq!(other.insert(()).map(|id| slab.remove(id)), Ok(None));
        for bit in 0..64 {
            assert_eq!(slab.remove(mine ^ 1 << bit), None, "{bit}");
        }
        for made_up in [0, u64::MAX, mine + 4] {
            assert_eq!(slab.remove(made_up), None, "{made_up:#x}");
        }
        assert_eq!(slab.remove(mine), Some(()));
    }

    #[test]
    fn a_table_that_grows_keeps_what_is_in_it() {
        let mut slab = Slab::new(1);
        let first = slab.insert(1).unwrap();
        slab.grow(3);
        slab.grow(2);
        let more: Vec<_> = (2..4).map(|value| slab.insert(value).unwrap()).collect();
        assert_eq!(slab.insert(9), Err(9));
        assert_eq!(slab.remove(first), Some(1));
        assert_eq!(slab.remove(more[1]), Some(3));
        assert_eq!(slab.into_iter().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn when_all_tags_are_used_up_there_is_a_table_without_places() {
        let tags = Tags {
            next: AtomicU64::new(LAST_TAG - 1),
        };
        let mut last = Slab::with_tags(&tags, 1);
        assert!(last.insert(()).is_ok_and(|id| id >= RESERVED_WR_IDS));
        for _ in 0..3 {
            let mut none = Slab::with_tags(&tags, 1);
            none.grow(5);
            assert_eq!(none.insert(()), Err(()));
            assert_eq!(none.remove(0), None);
        }
    }

    #[test]
    fn the_empty_table_knows_no_id() {
        let mut none = Slab::<()>::default();
        assert_eq!(none.remove(0), None);
        assert_eq!(none.get(RESERVED_WR_IDS), None);
    }
}
