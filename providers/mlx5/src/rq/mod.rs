//! The receive ring of a queue pair or a work queue: this side writes requests, the doorbell record
//! submits them.

mod scattered;

use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{Record, UnitRing, barrier};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::{RecvRequest, Sge};

use crate::tracker::{QueuePairTracker, Receives, RecvTracker};
use crate::wqe::sizes;
use crate::wqe::{self, Unit};
pub(crate) use scattered::ScatteredRing;

/// The word of a doorbell record that receive queues use.
const RECEIVE_RECORD: usize = 0;

/// The longest buffer: one bit less than its length field has.
const MAX_MESSAGE: u64 = MAX_SGE_LENGTH as u64;
const MAX_SGE_LENGTH: u32 = (1 << 31) - 1;

/// log₂ of the bytes of a unit.
const UNIT_SHIFT: u32 = 4;

/// A receive ring.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    ring: UnitRing,
    /// The number of requests less one.
    mask: u32,
    /// log₂ of the number of units of a request.
    shift: u32,
    max_sge: u32,
    /// Requests put (free-running counter).
    end: u32,
    /// Requests submitted.
    submitted: u32,
    /// Requests completed, when last checked.
    tail: u32,
    /// The number of requests that can be outstanding; 0 while the queue accepts none.
    room: u32,
    /// The device must not see requests yet: raw packet queues receive before they are ready to.
    held: bool,
    fork: ForkToken,
    tracker: Arc<QueuePairTracker>,
    record: Arc<Record>,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Box<Watched>>,
}

/// The parts of a receive ring.
pub(crate) struct Parts {
    pub(crate) ring: UnitRing,
    pub(crate) sizes: sizes::Receive,
    pub(crate) fork: ForkToken,
    pub(crate) tracker: Arc<QueuePairTracker>,
    pub(crate) record: Arc<Record>,
}

impl ReceiveRing {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            mask: parts.sizes.count.wrapping_sub(1),
            shift: parts.sizes.shift.saturating_sub(UNIT_SHIFT),
            max_sge: parts.sizes.max_sge,
            end: 0,
            submitted: 0,
            tail: 0,
            room: 0,
            held: false,
            ring: parts.ring,
            fork: parts.fork,
            tracker: parts.tracker,
            record: parts.record,
            #[cfg(feature = "rings")]
            watched: None,
        }
    }

    /// Reports what is submitted from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watch(&mut self, queue: Option<Watched>) {
        self.watched = queue.map(Box::new);
    }

    /// Sets whether the queue is in a state that accepts requests.
    pub(crate) fn set_ready(&mut self, ready: bool) {
        self.room = if ready { self.mask.wrapping_add(1) } else { 0 };
    }

    /// Starts over after the queue was reset.
    pub(crate) fn reset(&mut self) {
        self.end = 0;
        self.submitted = 0;
        self.tail = 0;
        self.record.store(RECEIVE_RECORD, 0);
    }

    /// Hides requests from the device, or shows it those that were submitted meanwhile.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
        if !held {
            self.show();
        }
    }

    #[inline]
    fn own(&self) -> Option<&RecvTracker> {
        match &self.tracker.recv {
            Receives::Own(tracker) => Some(tracker),
            _ => None,
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the request would be passed in memory and asked again"
    )]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child process has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        // The slow path must not return here: the compiler would forget what it knows about the
        // request.
        if self.is_full() {
            return self.put_apart(*request);
        }
        let [sge] = request.scatter else {
            return self.put_apart(*request);
        };
        if !is_usual(sge, self.max_sge) {
            return self.put_apart(*request);
        }
        let index = self.end & self.mask;
        put_sge(&self.ring, index << self.shift, self.max_sge, sge);
        self.note(index, request.wr_id);
        Ok(())
    }

    /// Puts any request.
    #[inline(never)]
    fn put_apart(&mut self, request: RecvRequest<'_>) -> Result<(), PostError> {
        if self.is_full() {
            self.make_room()?;
        }
        let index = self.end & self.mask;
        put_any_sges(
            &self.ring,
            index << self.shift,
            self.max_sge,
            request.scatter,
        )?;
        self.note(index, request.wr_id);
        Ok(())
    }

    /// Records the request at `index`, the end, and advances the end.
    #[inline]
    fn note(&mut self, index: u32, wr_id: u64) {
        if let Some(tracker) = self.own() {
            tracker.posted(index, wr_id);
        }
        self.end = self.end.wrapping_add(1);
    }

    /// Whether there is no room, as far as is known.
    #[inline]
    fn is_full(&self) -> bool {
        self.end.wrapping_sub(self.tail) >= self.room
    }

    /// Checks for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), PostError> {
        if self.room == 0 {
            return Err(PostError::WrongState);
        }
        self.tail = self.tracker.received_tail();
        if self.is_full() {
            return Err(PostError::QueueFull);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        if self.end == self.submitted {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.hand_over();
        Ok(())
    }

    /// Submits what was put by this process.
    #[inline]
    fn hand_over(&mut self) {
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            let put = 0..self.end.wrapping_sub(self.submitted);
            let indexes = put.map(|at| self.submitted.wrapping_add(at) & self.mask);
            crate::rings::receives(queue, &self.ring, self.shift, false, indexes);
        }
        self.submitted = self.end;
        if !self.held {
            self.show();
        }
    }

    /// Puts requests and submits them; on an error, returns how many were submitted, and why the
    /// next one was not.
    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the requests would be passed in memory and asked again"
    )]
    #[inline(always)]
    pub(crate) fn post(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        self.abort();
        for (posted, request) in requests.iter().enumerate() {
            // A copy is passed: once the address of the request is passed on, the compiler no
            // longer knows anything about its fields.
            if let Err(error) = self.put(&{ *request }) {
                return self.stop(posted, error);
            }
        }
        if !requests.is_empty() {
            self.hand_over();
        }
        Ok(())
    }

    /// Submits what was put before the request that was refused.
    #[cold]
    fn stop(&mut self, posted: usize, error: PostError) -> Result<(), (usize, PostError)> {
        self.submit().map_err(|error| (0, error))?;
        Err((posted, error))
    }

    #[inline]
    fn show(&self) {
        barrier::to_device();
        self.record.store(RECEIVE_RECORD, self.submitted & 0xffff);
    }

    #[inline]
    pub(crate) fn abort(&mut self) {
        self.end = self.submitted;
    }
}

/// Whether a single scatter/gather entry is valid in a request with up to `max_sge` entries.
#[inline]
fn is_usual(sge: &Sge, max_sge: u32) -> bool {
    max_sge != 0 && (1..=MAX_SGE_LENGTH).contains(&sge.length)
}

/// Writes a usual scatter/gather entry at unit `at`, followed by the end mark where there could be
/// more.
#[inline]
fn put_sge(ring: &UnitRing, at: u32, max_sge: u32, sge: &Sge) {
    ring.put(at, wqe::data(sge));
    if max_sge != 1 {
        ring.put(at.wrapping_add(1), wqe::END);
    }
}

/// Writes the scatter/gather entries of a receive request from unit `at` on. The device uses them
/// in order up to `max_sge` or an end mark.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn put_sges(
    ring: &UnitRing,
    at: u32,
    max_sge: u32,
    sges: &[Sge],
) -> Result<(), PostError> {
    // Most requests have one scatter/gather entry.
    if let [sge] = sges
        && is_usual(sge, max_sge)
    {
        put_sge(ring, at, max_sge, sge);
        return Ok(());
    }
    put_any_sges(ring, at, max_sge, sges)
}

#[inline(never)]
fn put_any_sges(ring: &UnitRing, mut at: u32, max_sge: u32, sges: &[Sge]) -> Result<(), PostError> {
    if sges.len() > max_sge as usize {
        return Err(PostError::TooManySges {
            requested: u32::try_from(sges.len()).unwrap_or(u32::MAX),
            max: max_sge,
        });
    }
    let end = at.wrapping_add(max_sge);
    let mut total = 0;
    let mut put = |unit: Unit| {
        ring.put(at, unit);
        at = at.wrapping_add(1);
    };
    for sge in sges {
        if sge.length != 0 {
            total += u64::from(sge.length);
            put(wqe::data(sge));
        }
    }
    if at != end {
        ring.put(at, wqe::END);
    }
    if total > MAX_MESSAGE {
        return Err(PostError::MessageTooLong {
            requested: total,
            max: MAX_MESSAGE,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
