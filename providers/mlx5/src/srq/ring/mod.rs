//! The ring of a shared receive queue, which is a list.
//!
//! Each request names the next one, and the device follows these links. So requests can be used up,
//! and reused, in any order. The last request of the list stays empty: its link is written when
//! another request is added.
//!
//! Where receives may meet page faults, pollers post to the list too, except during a batch
//! ([`Reposts`]). Between batches this side does not know how many requests are linked, and so has
//! to query that before it puts the first request.
#![expect(
    clippy::cast_possible_truncation,
    reason = "indexes have 16 bits, as links have"
)]

mod place;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{Record, UnitRing, barrier};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::RecvRequest;

use crate::rq::put_sges;
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
    /// Requests linked to the list (free-running counter). The last one is not used until another
    /// is linked to it.
    linked: u64,
    /// Requests put (free-running counter): how far the list was followed.
    end: u64,
    /// Requests submitted.
    submitted: u64,
    fork: ForkToken,
    tracker: Arc<SrqTracker>,
    record: Arc<Record>,
    /// The numbers of requests that were used up and are free again without a completion. At most
    /// as many as the queue has requests: if they are not taken, the oldest are forgotten.
    unreported: VecDeque<u64>,
    /// The state shared with pollers. `None` if page faults cannot occur.
    reposts: Option<Arc<Reposts>>,
    /// This side has the turn of a shared list.
    turn: bool,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Box<Watched>>,
}

impl SharedRing {
    /// A ring with the requests in the list, in order. `faults`: receives may meet page faults.
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
            submitted: 0,
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

    /// Reports what is submitted from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        if let (Some(reposts), Some(queue)) = (&self.reposts, &queue) {
            reposts.watch(queue);
        }
        self.watched = queue.map(Box::new);
        self
    }

    /// The state that it shares with completion queues.
    pub(crate) fn tracker(&self) -> &Arc<SrqTracker> {
        &self.tracker
    }

    /// What must be kept alive until the device is known to have stopped using it.
    pub(crate) fn keep_mapped(&self) -> impl Any + Send + Sync + use<> {
        (
            self.ring.keep_mapped(),
            Arc::clone(&self.record),
            self.reposts.clone(),
        )
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child process has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.linked.wrapping_sub(self.end) == 1 && !self.extend() {
            return Err(PostError::QueueFull);
        }
        let index = self.list.at(self.end);
        let at = index << self.sizes.shift;
        let behind_link = at.wrapping_add(1);
        put_sges(&self.ring, behind_link, self.sizes.max_sge, request.scatter)?;
        self.tracker.posted(index, request.wr_id);
        self.end += 1;
        Ok(())
    }

    #[inline]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        if self.end != self.submitted {
            if !self.fork.is_current() {
                self.abort();
                return Err(PostError::Forked);
            }
            #[cfg(feature = "rings")]
            if let Some(queue) = &self.watched {
                let indexes = (self.submitted..self.end).map(|place| self.list.at(place));
                crate::rings::receives(queue, &self.ring, self.sizes.shift, true, indexes);
            }
            self.submitted = self.end;
            self.tracker.submit(self.end);
            barrier::to_device();
            self.record.store(RECORD, self.end as u32 & 0xffff);
        }
        if self.turn {
            self.leave();
        }
        Ok(())
    }

    /// Takes back what was put. Requests linked meanwhile stay linked: nothing uses them yet.
    #[inline]
    pub(crate) fn abort(&mut self) {
        self.end = self.submitted;
        if self.turn {
            self.leave();
        }
    }

    /// Takes the numbers of requests that were used up without a completion.
    pub(crate) fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        for wr_id in std::mem::take(&mut self.unreported) {
            each(wr_id);
        }
        self.tracker.take_unreported(each);
    }

    /// Makes room: links requests that the device has finished with. Returns false if there are
    /// none.
    #[inline(never)]
    fn extend(&mut self) -> bool {
        let has_room = self.enter() || self.link_free();
        if !has_room && self.turn && self.end == self.submitted {
            // So that the caller need not submit without any requests.
            self.leave();
        }
        has_room
    }

    /// Takes the turn of a shared list. Returns whether there is room then.
    fn enter(&mut self) -> bool {
        let Some(reposts) = self.reposts.as_ref().filter(|_| !self.turn) else {
            return false;
        };
        (self.end, self.linked) = reposts.enter();
        self.submitted = self.end;
        self.turn = true;
        self.linked.wrapping_sub(self.end) != 1
    }

    /// Releases the turn.
    #[inline(never)]
    fn leave(&mut self) {
        if let Some(reposts) = &self.reposts {
            reposts.leave(&self.tracker, self.end, self.linked);
        }
        self.turn = false;
        // The available room is unknown until the next turn.
        self.linked = self.end.wrapping_add(1);
    }

    /// Links requests that the device has finished with. Returns false if there are none.
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
        // A batch was forgotten. Requests that are marked from here on are reposted by pollers.
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
