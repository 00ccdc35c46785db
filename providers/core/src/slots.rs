//! A table whose indexes wrap around.
//!
//! # Safety
//!
//! [`Slots`] holds a power of two of values, and `mask` is their number less one: a masked index is
//! that of a value.
#![allow(unsafe_code, reason = "an index that was masked need not be checked")]

use std::sync::Arc;

/// A power of two of values, shared by handles. An index counts modulo their number, so that every
/// index is one of a value.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use uverbs_core::Slots;
///
/// let slots = Slots::<AtomicU64>::new(4);
/// slots.at(5).store(7, Ordering::Relaxed);
/// assert_eq!(slots.clone().at(1).load(Ordering::Relaxed), 7);
/// ```
#[derive(Debug)]
pub struct Slots<T> {
    values: Arc<[T]>,
    mask: usize,
}

impl<T: Default> Slots<T> {
    /// At least `count` values, and at least one.
    pub fn new(count: u32) -> Self {
        let count = (count as usize).next_power_of_two();
        Self {
            values: (0..count).map(|_| T::default()).collect(),
            mask: count - 1,
        }
    }
}

impl<T> Slots<T> {
    /// The value with this index.
    #[inline]
    pub fn at(&self, index: usize) -> &T {
        // SAFETY: the masked index is below the number of values, by the invariant.
        unsafe { self.values.get_unchecked(index & self.mask) }
    }

    /// How many there are.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.values.len()
    }
}

impl<T> Clone for Slots<T> {
    /// Another handle of the same values.
    fn clone(&self) -> Self {
        Self {
            values: Arc::clone(&self.values),
            mask: self.mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_index_is_masked_to_a_slot() {
        for (asked, there) in [(0, 1), (1, 1), (3, 4), (4, 4), (5, 8)] {
            let slots = Slots::<Cell<usize>>::new(asked);
            assert_eq!(slots.len(), there);
            for index in (0..2 * there).chain([usize::MAX]) {
                slots.at(index).set(index);
                assert_eq!(slots.at(index % there).get(), index);
            }
        }
    }
}
