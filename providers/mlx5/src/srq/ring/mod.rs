//! The ring of a shared receive queue, which is a list.
//!
//! Each request names the one behind it, and the device follows. So requests can be used up, and
//! used again, in any order. The last of the list stays empty: its link is written when there is
//! one to come.
//!
//! Where receives may meet pages that are not there, pollers post to the list, too, but for the
//! time that a batch takes ([`Reposts`]). Between batches this side knows of nothing that is
//! linked, and so has to ask before it puts the first request.
#![expect(
    clippy::cast_possible_truncation,
    reason = "indexes have 16 bits, as links have"
)]

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{Record, UnitRing, barrier};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::RecvRequest;

use crate::rq::put_pieces;
use crate::tracker::SrqTracker;
use crate::tracker::srq::list::{List, RECORD, link};
use crate::tracker::srq::reposts::Reposts;
use crate::tracker::srq::sizes::Sizes;

/// A shared receive ring.
#[derive(Debug)]
pub(crate) struct SharedRing {
    ring: UnitRing,
    sizes: Sizes,
    list: List,
    /// Requests that were linked to it, counted on and on. The last of them is not used until
    /// another is linked to it.
    linked: u64,
    /// Requests that were put, counted on and on: so far the list was followed.
    end: u64,
    /// Requests that were handed over.
    rung: u64,
    fork: ForkToken,
    tracker: Arc<SrqTracker>,
    record: Arc<Record>,
    /// Numbers of requests that were used up and are free again, and that no completion says so of.
    /// No more than the queue has requests: the oldest are forgotten where nobody asks.
    unreported: VecDeque<u64>,
    /// Whom the list is shared with. `None` where pages are always there.
    reposts: Option<Arc<Reposts>>,
    /// This side has the turn of a list that is shared.
    turn: bool,
    /// Whoever is told what is handed over.
    #[cfg(feature = "rings")]
    watched: Option<Box<Watched>>,
}

impl SharedRing {
    /// A ring with the requests in the list, in order. `faults`: receives may meet pages that are
    /// not there.
    pub(crate) fn new(
        ring: UnitRing,
        sizes: Sizes,
        fork: ForkToken,
        record: Arc<Record>,
        faults: bool,
    ) -> Self {
        for index in 1..sizes.listed() {
            link(&ring, sizes.shift, index - 1, index);
        }
        let list = List::new(sizes.count);
        let (ring, reposts) = if faults {
            let [ring, theirs] = ring.shared();
            let reposts = Reposts::new(theirs, sizes, &list, fork, &record);
            (ring, Some(Arc::new(reposts)))
        } else {
            (ring, None)
        };
        let tracker = SrqTracker::new(sizes.count);
        let (tracker, linked) = match &reposts {
            Some(reposts) => (tracker.reposting(sizes.spare, reposts), 1),
            None => (tracker, sizes.count.into()),
        };
        Self {
            ring,
            sizes,
            list,
            linked,
            end: 0,
            rung: 0,
            fork,
            tracker: Arc::new(tracker),
            record,
            unreported: VecDeque::new(),
            reposts,
            turn: false,
            #[cfg(feature = "rings")]
            watched: None,
        }
    }

    /// Tells of what is handed over from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        if let (Some(reposts), Some(queue)) = (&self.reposts, &queue) {
            reposts.watch(queue);
        }
        self.watched = queue.map(Box::new);
        self
    }

    /// What it shares with completion queues.
    pub(crate) fn tracker(&self) -> &Arc<SrqTracker> {
        &self.tracker
    }

    /// What has to stay until the device is known to be done with it.
    pub(crate) fn kept(&self) -> impl Any + Send + Sync + use<> {
        (
            self.ring.kept(),
            Arc::clone(&self.record),
            self.reposts.clone(),
        )
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.linked.wrapping_sub(self.end) == 1 && !self.extend() {
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
        if self.end != self.rung {
            if !self.fork.is_current() {
                self.abort();
                return Err(PostError::Forked);
            }
            #[cfg(feature = "rings")]
            if let Some(queue) = &self.watched {
                let indexes = (self.rung..self.end).map(|place| self.list.at(place));
                crate::rings::receives(queue, &self.ring, self.sizes.shift, true, indexes);
            }
            self.rung = self.end;
            self.tracker.ring(self.end);
            barrier::to_device();
            self.record.store(RECORD, self.end as u32 & 0xffff);
        }
        if self.turn {
            self.leave();
        }
        Ok(())
    }

    /// Takes back what was put. What was linked meanwhile stays linked: nobody uses it yet.
    #[inline]
    pub(crate) fn abort(&mut self) {
        self.end = self.rung;
        if self.turn {
            self.leave();
        }
    }

    /// Takes the numbers of requests that were used up and that no completion says so of.
    pub(crate) fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        for wr_id in std::mem::take(&mut self.unreported) {
            each(wr_id);
        }
        self.tracker.take_unreported(each);
    }

    /// Finds room: links requests that the device is done with. False if there are none.
    #[inline(never)]
    fn extend(&mut self) -> bool {
        let has_room = self.enter() || self.link_free();
        if !has_room && self.turn && self.end == self.rung {
            // Nobody has to ring for nothing.
            self.leave();
        }
        has_room
    }

    /// Takes the turn of a list that is shared. Whether there are requests then.
    fn enter(&mut self) -> bool {
        let Some(reposts) = self.reposts.as_ref().filter(|_| !self.turn) else {
            return false;
        };
        (self.end, self.linked) = reposts.enter();
        self.rung = self.end;
        self.turn = true;
        self.linked.wrapping_sub(self.end) != 1
    }

    /// Lets the turn go.
    #[inline(never)]
    fn leave(&mut self) {
        if let Some(reposts) = &self.reposts {
            reposts.leave(&self.tracker, self.end, self.linked);
        }
        self.turn = false;
        // What there is, is known the next time.
        self.linked = self.end.wrapping_add(1);
    }

    /// Links requests that the device is done with. False if there are none.
    fn link_free(&mut self) -> bool {
        let (ring, shift, list) = (&self.ring, self.sizes.shift, &self.list);
        let before = self.linked;
        let (mut linked, mut end) = (before, list.at(before.wrapping_sub(1)));
        self.tracker.take_free(
            |index| {
                list.set(linked, index);
                link(ring, shift, end, index);
                end = index;
                linked += 1;
                linked - 1
            },
            |wr_id| keep(&mut self.unreported, wr_id, list.room()),
        );
        self.linked = linked;
        linked != before
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // A batch was forgotten. What pollers mark is theirs from here on.
        self.abort();
    }
}

#[cold]
fn keep(unreported: &mut VecDeque<u64>, wr_id: u64, most: usize) {
    if unreported.len() >= most {
        unreported.pop_front();
    }
    unreported.push_back(wr_id);
}

#[cfg(test)]
pub(crate) mod tests;
