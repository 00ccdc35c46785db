//! The list of a shared receive queue: the order of its requests.
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

/// The requests of the list by their positions (free-running counter). Links in the ring are
/// written only for the device, and not read back.
///
/// A clone is the same list. Only one thread at a time writes it, or relies on it: the queue's
/// posting thread, or the one that has [the turn](super::reposts::Reposts).
#[derive(Clone, Debug)]
pub(crate) struct List {
    order: Arc<[AtomicU16]>,
}

impl List {
    /// A list of all `count` requests, in order.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            order: (0..count)
                .map(|index| AtomicU16::new(index as u16))
                .collect(),
        }
    }

    /// The request at a position.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> u32 {
        let mask = self.order.len().wrapping_sub(1);
        let index = self.order.get(place as usize & mask);
        index.map_or(0, |index| index.load(Ordering::Relaxed).into())
    }

    /// Stores a request at a position.
    #[inline]
    pub(crate) fn set(&self, place: u64, index: u32) {
        let mask = self.order.len().wrapping_sub(1);
        if let Some(slot) = self.order.get(place as usize & mask) {
            slot.store(index as u16, Ordering::Relaxed);
        }
    }

    /// The number of requests that it has room for.
    pub(crate) fn room(&self) -> usize {
        self.order.len()
    }
}

/// Links a request to another, where each has `1 << shift` units.
#[inline]
pub(crate) fn link(ring: &UnitRing, shift: u32, from: u32, to: u32) {
    ring.put(from << shift, srq_next(to));
}
