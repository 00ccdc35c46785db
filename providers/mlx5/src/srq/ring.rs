//! The ring of a shared receive queue, which is a list.
//!
//! Each request names the one behind it, and the device follows. So requests can be used up, and used again,
//! in any order. The last of the list stays empty: its link is written when there is one to come.
#![expect(
    clippy::cast_possible_truncation,
    reason = "indexes have 16 bits, as links have"
)]

use std::collections::VecDeque;
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
    list: List,
    /// Requests that were put, counted on and on: so far the list was followed.
    end: u64,
    fork: ForkToken,
    tracker: Arc<SrqTracker>,
    record: Arc<Record>,
    /// Numbers of requests that were used up and are free again, and that no completion says so of. No more than the queue has
    /// requests: the oldest are forgotten where nobody asks.
    unreported: VecDeque<u64>,
}

/// The list. What the device follows is written for it alone, and not read again.
#[derive(Debug)]
struct List {
    /// A ring of indexes.
    order: Box<[u16]>,
    /// Requests that were linked to it, counted on and on. The last of them is not used until another is linked to it.
    linked: u64,
}

impl List {
    /// `count` requests, in order.
    fn new(count: u32) -> Self {
        Self {
            order: (0..count).map(|index| index as u16).collect(),
            linked: count.into(),
        }
    }

    /// The request at a place in the list.
    #[inline]
    fn at(&self, place: u64) -> u32 {
        let mask = self.order.len().wrapping_sub(1);
        let index = self.order.get(place as usize & mask);
        index.copied().map_or(0, u32::from)
    }
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
        for index in 1..sizes.count {
            link(&ring, sizes.shift, index - 1, index);
        }
        Self {
            ring,
            sizes,
            list: List::new(sizes.count),
            end: 0,
            fork,
            tracker,
            record,
            unreported: VecDeque::new(),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.list.linked.wrapping_sub(self.end) == 1 && !self.extend() {
            return Err(PostError::QueueFull);
        }
        let index = self.list.at(self.end);
        let at = index << self.sizes.shift;
        let behind_link = at.wrapping_add(1);
        put_pieces(&self.ring, behind_link, self.sizes.max_sge, request.scatter)?;
        self.tracker.posted(index, request.wr_id);
        self.end += 1;
        Ok(())
    }

    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), PostError> {
        if self.end == self.tracker.rung() {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.tracker.ring(self.end);
        barrier::to_device();
        self.record.store(RECORD, self.end as u32 & 0xffff);
        Ok(())
    }

    /// Takes back what was put. What was linked meanwhile stays linked: nobody uses it yet.
    #[inline]
    pub(crate) fn abort(&mut self) {
        self.end = self.tracker.rung();
    }

    /// The request that was put last.
    #[cfg(test)]
    pub(crate) fn last_put(&self) -> u32 {
        self.list.at(self.end.wrapping_sub(1))
    }

    /// Takes the numbers of requests that were used up and that no completion says so of.
    pub(crate) fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        for wr_id in std::mem::take(&mut self.unreported) {
            each(wr_id);
        }
        self.tracker.take_unreported(each);
    }

    /// Links requests that the device is done with. False if there are none.
    #[inline(never)]
    fn extend(&mut self) -> bool {
        let (ring, shift) = (&self.ring, self.sizes.shift);
        let most = self.list.order.len();
        let before = self.list.linked;
        let (mut linked, mut last) = (before, self.list.at(before.wrapping_sub(1)));
        let order = &mut *self.list.order;
        let mask = order.len().wrapping_sub(1);
        self.tracker.take_free(
            |index| {
                if let Some(slot) = order.get_mut(linked as usize & mask) {
                    *slot = index as u16;
                }
                link(ring, shift, last, index);
                last = index;
                linked += 1;
                linked - 1
            },
            |wr_id| keep(&mut self.unreported, wr_id, most),
        );
        self.list.linked = linked;
        linked != before
    }
}

#[inline]
fn link(ring: &UnitRing, shift: u32, from: u32, to: u32) {
    ring.put(from << shift, srq_next(to));
}

#[cold]
fn keep(unreported: &mut VecDeque<u64>, wr_id: u64, most: usize) {
    if unreported.len() >= most {
        unreported.pop_front();
    }
    unreported.push_back(wr_id);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
