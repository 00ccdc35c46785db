//! The ring of a shared receive queue, which is a list.
//!
//! Each request names the one behind it, and the device follows. So requests can be used up, and used again,
//! in any order. The last of the list stays empty: its link is written when there is one to come.

use std::sync::Arc;

use uverbs_driver::PostError;
use uverbs_driver::hw::{Record, UnitRing, barrier};
use uverbs_driver::sys::ForkToken;
use uverbs_driver::types::RecvRequest;

use super::sizes::Sizes;
use crate::rq::put_pieces;
use crate::tracker::SrqTracker;
use crate::wqe::srq_next;

/// The word of its doorbell record that the queue uses.
const RECORD: usize = 0;

/// A shared receive ring.
#[derive(Debug)]
pub(crate) struct SharedRing {
    ring: UnitRing,
    sizes: Sizes,
    end: End,
    rung: End,
    /// The last of the list, which is not used until another is linked to it.
    tail: u32,
    fork: ForkToken,
    tracker: Arc<SrqTracker>,
    record: Arc<Record>,
}

#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// The next request to write.
    head: u32,
    /// Requests that were put, counted on and on.
    count: u32,
}

impl SharedRing {
    /// A ring with all requests in the list, in order.
    pub(crate) fn new(
        ring: UnitRing,
        sizes: Sizes,
        fork: ForkToken,
        tracker: Arc<SrqTracker>,
        record: Arc<Record>,
    ) -> Self {
        let ring = Self {
            ring,
            sizes,
            end: End::default(),
            rung: End::default(),
            tail: sizes.count.wrapping_sub(1),
            fork,
            tracker,
            record,
        };
        for index in 0..ring.tail {
            ring.link(index, index + 1);
        }
        ring
    }

    #[inline]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        let index = self.end.head;
        if index == self.tail && !self.extend() {
            return Err(PostError::QueueFull);
        }
        let at = index << self.sizes.shift;
        let behind_link = at.wrapping_add(1);
        put_pieces(&self.ring, behind_link, self.sizes.max_sge, request.scatter)?;
        self.tracker.posted(index, request.wr_id);
        self.end = End {
            head: self.next(index),
            count: self.end.count.wrapping_add(1),
        };
        Ok(())
    }

    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), PostError> {
        if self.end.count == self.rung.count {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.rung = self.end;
        barrier::to_device();
        self.record.store(RECORD, self.rung.count & 0xffff);
        Ok(())
    }

    /// Takes back what was put. What was linked meanwhile stays linked: nobody uses it yet.
    pub(crate) fn abort(&mut self) {
        self.end = self.rung;
    }

    /// Links requests that the device is done with. False if there are none.
    #[inline(never)]
    fn extend(&mut self) -> bool {
        let before = self.tail;
        let mut tail = before;
        self.tracker.take_free(|index| {
            self.link(tail, index);
            tail = index;
        });
        self.tail = tail;
        tail != before
    }

    fn link(&self, from: u32, to: u32) {
        self.ring.put(from << self.sizes.shift, srq_next(to));
    }

    /// The request behind `index`. A link that somebody else wrote over leads elsewhere in the ring.
    #[inline]
    fn next(&self, index: u32) -> u32 {
        let word = self.ring.word(index << self.sizes.shift, 0);
        // 16 bits at byte 2.
        (u64::from_be(word) >> 32) as u32 & 0xffff & self.mask()
    }

    fn mask(&self) -> u32 {
        self.sizes.count.wrapping_sub(1)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
