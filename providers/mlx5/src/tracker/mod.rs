//! The state that a queue shares with the completion queues that it reports to.
//!
//! A completion names its queue and a position in it. The posted request's data (its `wr_id`, and
//! how much of the queue it frees) is written by the posting thread and read by the polling one.
//! All of it is in atomic words, so neither side takes a lock; the device orders the two sides,
//! since it completes only what was posted.

pub(crate) mod keys;
pub(crate) mod registration;
mod scatter;
mod send;
mod side;
pub(crate) mod srq;
pub(crate) mod table;

use std::sync::Arc;

use uverbs_core::{Slots, SlotsView};

use crate::cqe::Checksums;
use crate::sync::atomic::{AtomicU64, Ordering};
pub(crate) use scatter::ScatterTracker;
pub(crate) use send::{Number, SendEntry, SendRun, SendTracker, Sent, SentKind};
use side::{Run, Side};
pub(crate) use srq::SrqTracker;

/// A receive queue, which completes in order.
#[derive(Debug)]
pub(crate) struct RecvTracker {
    wr_ids: RecvEntries,
}

/// The numbers of a receive queue's requests. The posting side has a handle of its own.
pub(crate) type RecvEntries = Slots<AtomicU64>;

impl RecvTracker {
    /// The tracker of a queue of `count` (a power of two) requests.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            wr_ids: Slots::new(count),
        }
    }

    /// Where its requests are recorded.
    pub(crate) fn entries(&self) -> &RecvEntries {
        &self.wr_ids
    }

    /// Records a request, as the posting side does.
    #[cfg(test)]
    pub(crate) fn posted(&self, index: u32, wr_id: u64) {
        self.wr_ids
            .at(index as usize)
            .store(wr_id, Ordering::Relaxed);
    }
}

/// Receive requests that complete one after another.
#[derive(Debug)]
pub(crate) struct RecvRun<'t> {
    run: Run<'t>,
    wr_ids: SlotsView<'t, AtomicU64>,
}

impl RecvRun<'_> {
    /// How many were completed before the oldest request (free-running counter, per incarnation).
    #[expect(clippy::cast_possible_truncation, reason = "free-running")]
    pub(crate) fn position(&self) -> u32 {
        self.run.since_base() as u32
    }

    /// The oldest request is completed. The device's counter equals ours, which cannot be wrong.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an index wraps around")]
    pub(crate) fn completed(&mut self) -> u64 {
        let wr_id = self.wr_ids.at(self.run.count as usize);
        self.run.count += 1;
        wr_id.load(Ordering::Relaxed)
    }

    /// See [`Run::end`].
    #[inline]
    #[must_use]
    pub(crate) fn end(self, first: u64) -> bool {
        self.run.end(first)
    }
}

/// The queue that a queue pair receives from.
#[derive(Debug)]
pub(crate) enum Receives {
    /// Its own queue.
    Own(RecvTracker),
    /// A shared queue.
    Shared(Arc<SrqTracker>),
    /// None.
    None,
}

/// The request that an entry of a completion queue completes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request<T> {
    /// This request.
    Of(T),
    /// A request of an earlier incarnation of its queue.
    Former,
    /// An impossible one.
    Unknown,
}

impl<T> Request<T> {
    #[inline]
    pub(crate) fn of(found: Option<T>) -> Self {
        found.map_or(Self::Unknown, Self::Of)
    }
}

/// What its completions say of a queue pair: its number in the device, and whether that checks the
/// checksums of the packets that it receives. One word, so that a poller that keeps both moves one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity(u64);

impl Identity {
    pub(crate) const fn new(number: u32, checksums: Checksums) -> Self {
        Self((checksums.raw() as u64) << 32 | number as u64)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) const fn checksums(self) -> Checksums {
        Checksums::of((self.0 >> 32) as u32)
    }

    /// The word.
    #[inline]
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// What the word stands for.
    pub(crate) const fn of(raw: u64) -> Self {
        Self(raw)
    }
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePairTracker {
    identity: AtomicU64,
    pub(crate) send: SendTracker,
    pub(crate) recv: Receives,
    /// Its count is that of requests of its own receive queue. It begins with a multiple of the
    /// number of slots: the index of a request is that of its slot.
    received: Side,
    /// For a queue pair whose small messages are delivered in completions.
    scatter: Option<Box<ScatterTracker>>,
}

impl QueuePairTracker {
    /// A queue pair with `blocks` blocks of send queue.
    pub(crate) fn new(blocks: u32, recv: Receives) -> Self {
        Self {
            identity: AtomicU64::new(Identity::new(0, Checksums::MEANINGLESS).0),
            send: SendTracker::new(blocks),
            recv,
            received: Side::new(0),
            scatter: None,
        }
    }

    /// The same for a queue pair that receives small messages in completions.
    pub(crate) fn scattering(self, scatter: ScatterTracker) -> Self {
        Self {
            scatter: Some(Box::new(scatter)),
            ..self
        }
    }

    /// The destination of its small messages, if they are delivered in completions.
    pub(crate) fn scatter(&self) -> Option<&ScatterTracker> {
        self.scatter.as_deref()
    }

    /// The same with several streams of requests, which may overtake each other: a completion may
    /// belong to a request that already counts as completed.
    pub(crate) fn unordered(self) -> Self {
        let send = self.send.unordered();
        Self { send, ..self }
    }

    /// The same for an Ethernet queue, whose packets have checksums that the device verifies.
    pub(crate) fn checksummed(self) -> Self {
        let identity = Identity::new(self.number(), Checksums::CHECKED);
        self.identity.store(identity.0, Ordering::Relaxed);
        self
    }

    /// The checksum status in completions of its receives.
    #[inline]
    pub(crate) fn checksums(&self) -> Checksums {
        self.identity().checksums()
    }

    /// The device's number of the queue pair.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.identity().number()
    }

    /// Both.
    #[inline]
    pub(crate) fn identity(&self) -> Identity {
        Identity(self.identity.load(Ordering::Relaxed))
    }

    pub(crate) fn set_number(&self, number: u32) {
        let identity = Identity::new(number, self.checksums());
        self.identity.store(identity.0, Ordering::Relaxed);
    }

    /// Begins an incarnation, at its creation or a reset: completions before these indexes do not
    /// belong to it.
    ///
    /// Called by the posting thread. Another thread may be polling at that moment: its results for
    /// the old incarnation do not apply to the new one.
    pub(crate) fn restart(&self, send_since: u64, recv_since: u64) {
        let _nobody_copies = self.scatter().map(ScatterTracker::forget);
        self.send.restart(send_since);
        let slots = match &self.recv {
            Receives::Own(queue) => queue.wr_ids.len() as u64,
            _ => 1,
        };
        // No more can have been posted than there is room for.
        let base = (self.received.done() + slots).next_multiple_of(slots);
        self.received.restart(recv_since, base);
    }

    /// It was destroyed: no completion belongs to it any more. Its user index may be another's.
    pub(crate) fn end(&self) {
        if let Some(scatter) = self.scatter() {
            scatter.end();
        }
        self.send.side.end();
        self.received.end();
    }

    /// The number of completed send requests of this incarnation.
    #[cfg(test)]
    pub(crate) fn sent_tail(&self) -> u32 {
        u32::try_from(self.send.done().since(self.send.base())).unwrap_or(u32::MAX)
    }

    /// The number of completed requests of its own receive queue (free-running counter, per
    /// incarnation). What they occupied in the ring may be overwritten. Called by the posting
    /// thread.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "free-running")]
    pub(crate) fn received_tail(&self) -> u32 {
        (self.received.done() - self.received.base()) as u32
    }

    /// Begins a run of send completions. Called by the polling thread.
    #[inline]
    pub(crate) fn sends(&self) -> SendRun<'_> {
        self.send.run_from(self.send.side.run())
    }

    /// The same for requests of which none was overtaken by one of another stream.
    #[inline]
    pub(crate) fn sends_in_order(&self) -> SendRun<'_> {
        self.sends().in_order()
    }

    /// Begins a run of completions of its own receive queue. `None` if it has none. Called by the
    /// polling thread.
    #[inline]
    pub(crate) fn receives(&self) -> Option<RecvRun<'_>> {
        let Receives::Own(queue) = &self.recv else {
            return None;
        };
        Some(RecvRun {
            run: self.received.run(),
            wr_ids: queue.wr_ids.view(),
        })
    }

    /// The request that the entry `index` of its send completion queue completes, in the most
    /// frequent case: it was not overtaken by a request of another stream.
    #[inline]
    pub(crate) fn sent_in_order(&self, index: u64, counter: u16) -> Option<Sent> {
        let mut run = self.send.run_from(self.send.side.go_on()).in_order();
        let sent = run.completed(counter)?;
        run.end(index).then_some(sent)
    }

    /// The request that the entry `index` of its send completion queue completes.
    #[inline]
    pub(crate) fn sent(&self, index: u64, counter: u16) -> Request<Sent> {
        let mut run = self.sends();
        let found = run.completed_any(counter);
        if run.end(index) {
            Request::of(found)
        } else {
            Request::Former
        }
    }

    /// The request of a shared queue that the entry `index` of its receive completion queue
    /// completes, if it is of this incarnation and under way.
    #[inline(never)]
    pub(crate) fn received_shared(&self, index: u64, counter: u16) -> Option<u64> {
        match &self.recv {
            Receives::Shared(queue) if self.received.began_by(index) => queue.completed(counter),
            _ => None,
        }
    }

    /// The request that the entry `index` of its receive completion queue completes, which has this
    /// counter.
    #[inline]
    pub(crate) fn received(&self, index: u64, counter: u16) -> Request<u64> {
        if let Some(mut run) = self.receives() {
            let found = run.completed();
            return if run.end(index) {
                Request::Of(found)
            } else {
                Request::Former
            };
        }
        let Receives::Shared(queue) = &self.recv else {
            return Request::Unknown;
        };
        if self.received.began_by(index) {
            return Request::of(queue.completed(counter));
        }
        // Its request goes back to the shared queue even if its completion is not taken by anyone.
        match queue.used_up(counter) {
            Some(()) => Request::Former,
            None => Request::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
