//! What is in a queue: a table of fixed size whose indexes travel as work request ids.

use std::sync::atomic::{AtomicU32, Ordering};

/// Values in a queue. An id is of use once, in its own table, while its value is there.
///
/// An id has three parts: a tag that no other table of the process has (32 bits), a generation
/// that tells the uses of a place apart (8), and the place (24).
#[derive(Debug)]
pub(super) struct Slab<T> {
    tag: u32,
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u8,
    value: Option<T>,
}

static NEXT_TAG: AtomicU32 = AtomicU32::new(1);

fn next_tag() -> u32 {
    NEXT_TAG.fetch_add(1, Ordering::Relaxed)
}

const PLACE_BITS: u32 = 24;

impl<T> Slab<T> {
    /// A table of `capacity` places, at most 2^24.
    pub(super) fn new(capacity: u32) -> Self {
        let mut slab = Self {
            tag: next_tag(),
            places: Vec::new(),
            free: Vec::new(),
        };
        slab.grow(capacity);
        slab
    }

    /// Makes room for `capacity` values, at most 2^24. It never shrinks.
    pub(super) fn grow(&mut self, capacity: u32) {
        let from = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        for index in from..capacity.min(1 << PLACE_BITS) {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            self.free.push(index);
        }
    }

    /// Takes a place for `value`. The value comes back when there is none.
    pub(super) fn insert(&mut self, value: T) -> Result<u64, T> {
        let Some(index) = self.free.pop() else {
            return Err(value);
        };
        match self.places.get_mut(index as usize) {
            Some(place) => {
                place.generation = place.generation.wrapping_add(1);
                place.value = Some(value);
                Ok(id(self.tag, place.generation, index))
            }
            None => Err(value),
        }
    }

    /// Takes the value with this id out, if it is there.
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let (tag, generation, index) = parts(id);
        let place = self.places.get_mut(index as usize)?;
        if tag != self.tag || generation != place.generation {
            return None;
        }
        let value = place.value.take()?;
        self.free.push(index);
        Some(value)
    }

    /// The value with this id, if it is there.
    pub(super) fn get(&self, id: u64) -> Option<&T> {
        let (tag, generation, index) = parts(id);
        let place = self.places.get(index as usize)?;
        (tag == self.tag && generation == place.generation).then_some(place.value.as_ref())?
    }

    /// Takes everything out. Ids given before are of no use any more.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.tag = next_tag();
        let mut values = Vec::new();
        for (index, place) in (0..).zip(&mut self.places) {
            if let Some(value) = place.value.take() {
                values.push(value);
                self.free.push(index);
            }
        }
        values
    }

    /// How many values are in it.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

fn id(tag: u32, generation: u8, index: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(generation) << PLACE_BITS | u64::from(index)
}

fn parts(id: u64) -> (u32, u8, u32) {
    let [t0, t1, t2, t3, generation, i0, i1, i2] = id.to_be_bytes();
    (
        u32::from_be_bytes([t0, t1, t2, t3]),
        generation,
        u32::from_be_bytes([0, i0, i1, i2]),
    )
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
    fn a_used_place_has_another_id() {
        let mut slab = Slab::new(1);
        let first = slab.insert(1).unwrap();
        assert_eq!(slab.remove(first), Some(1));
        let second = slab.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(slab.remove(first), None);
    }

    #[test]
    fn ids_of_other_tables_and_made_up_ones_find_nothing() {
        let mut slab = Slab::new(4);
        let mut other = Slab::new(4);
        let mine = slab.insert(()).unwrap();
        assert_eq!(other.insert(()).map(|id| slab.remove(id)), Ok(None));
        for made_up in [0, u64::MAX, mine ^ 1, mine ^ 1 << 24, mine ^ 1 << 32] {
            assert_eq!(slab.remove(made_up), None, "{made_up:#x}");
        }
        assert_eq!(slab.remove(mine), Some(()));
    }

    #[test]
    fn what_is_drained_has_no_id_any_more() {
        let mut slab = Slab::new(3);
        let id = slab.insert(7).unwrap();
        assert_eq!(slab.drain(), [7]);
        assert_eq!(slab.remove(id), None);
        assert!(
            (0..3).all(|value| slab.insert(value).is_ok()),
            "all places are free again"
        );
    }
}
