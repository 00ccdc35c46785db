//! The list of a shared receive queue: which request comes behind which.
#![expect(
    clippy::cast_possible_truncation,
    reason = "indexes have 16 bits, as links have"
)]

use std::sync::Arc;

use uverbs_core::hw::UnitRing;

use crate::sync::atomic::{AtomicU16, Ordering};
use crate::wqe::srq_next;

/// The word of its doorbell record that the queue uses.
pub(crate) const RECORD: usize = 0;

/// The requests of the list by their places, counted on and on. Links in the ring are written for
/// the device alone, and not read again.
///
/// A clone is the same list. One thread at a time writes it, or goes by what it says: that of the
/// queue's poster, or whoever has [the turn](super::reposts::Reposts).
#[derive(Clone, Debug)]
pub(crate) struct List {
    order: Arc<[AtomicU16]>,
}

impl List {
    /// All of `count` requests, in order.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            order: (0..count)
                .map(|index| AtomicU16::new(index as u16))
                .collect(),
        }
    }

    /// The request at a place.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> u32 {
        let mask = self.order.len().wrapping_sub(1);
        let index = self.order.get(place as usize & mask);
        index.map_or(0, |index| index.load(Ordering::Relaxed).into())
    }

    /// Puts a request at a place.
    #[inline]
    pub(crate) fn set(&self, place: u64, index: u32) {
        let mask = self.order.len().wrapping_sub(1);
        if let Some(slot) = self.order.get(place as usize & mask) {
            slot.store(index as u16, Ordering::Relaxed);
        }
    }

    /// How many requests it has room for.
    pub(crate) fn room(&self) -> usize {
        self.order.len()
    }
}

/// Links a request to another, where each has `1 << shift` units.
#[inline]
pub(crate) fn link(ring: &UnitRing, shift: u32, from: u32, to: u32) {
    ring.put(from << shift, srq_next(to));
}
