//! A table whose indexes wrap around.
//!
//! # Safety
//!
//! [`Slots`] holds a power of two of values, and `mask` is their number less one: a masked index is
//! that of a value. A [`SlotsView`] has the same mask, in bytes if their size is a power of two.
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

    /// The value with this index.
    ///
    /// # Safety
    /// It is below their number.
    #[inline]
    pub(crate) unsafe fn at_index(&self, index: usize) -> &T {
        // SAFETY: the caller's promise.
        unsafe { self.values.get_unchecked(index) }
    }

    /// A view of them.
    #[inline]
    pub fn view(&self) -> SlotsView<'_, T> {
        let unit = if SlotsView::<T>::IN_BYTES {
            size_of::<T>()
        } else {
            1
        };
        SlotsView {
            values: &self.values,
            mask: self.mask * unit,
        }
    }

    /// How many there are.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.values.len()
    }
}

/// The values of a [`Slots`], for a loop: what their indexes are masked with is in the view.
#[derive(Debug)]
pub struct SlotsView<'s, T> {
    values: &'s [T],
    /// The mask in bytes, if their size is a power of two.
    mask: usize,
}

impl<T> SlotsView<'_, T> {
    const IN_BYTES: bool = size_of::<T>().is_power_of_two();

    /// The value with this index.
    #[inline]
    pub fn at(&self, index: usize) -> &T {
        let offset = if Self::IN_BYTES {
            index.wrapping_mul(size_of::<T>()) & self.mask
        } else {
            (index & self.mask) * size_of::<T>()
        };
        let value = self.values.as_ptr().wrapping_byte_add(offset);
        // SAFETY: the offset is that of a value: of the masked index, which is masked in bytes only
        // where that is the same.
        unsafe { &*value }
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
                assert_eq!(slots.view().at(index).get(), index);
                let triples = Slots::<[Cell<usize>; 3]>::new(asked);
                triples.at(index)[1].set(index);
                assert_eq!(triples.view().at(index % there)[1].get(), index);
                assert_eq!(triples.view().at(index)[1].get(), index);
            }
        }
    }
}
