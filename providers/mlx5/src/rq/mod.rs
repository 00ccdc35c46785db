//! The receive ring of a queue pair or a work queue: this side writes requests, the doorbell record
//! submits them.

mod batch;
mod form;
mod place;
mod scattered;

use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{Record, UnitRing, barrier};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::RecvRequest;

use crate::sync::atomic::Ordering;
use crate::tracker::{QueuePairTracker, Receives, RecvEntries};
use crate::wqe::sizes;
pub use batch::{Receiver, RecvBatch};
pub(crate) use form::put_sges;
use form::{Form, MAX_SGE_LENGTH, put_any_sges};
pub(crate) use scattered::ScatteredRing;

/// The word of a doorbell record that receive queues use.
const RECEIVE_RECORD: usize = 0;

/// log₂ of the bytes of a unit.
const UNIT_SHIFT: u32 = 4;

/// A receive ring.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    ring: UnitRing,
    /// The number of requests less one.
    mask: u32,
    form: Form,
    /// Requests put (free-running counter).
    end: u32,
    /// The last of these that were not submitted.
    pending: u32,
    /// Requests completed, when last checked.
    tail: u32,
    /// The number of requests that can be outstanding; 0 while the queue accepts none.
    room: u32,
    /// Up to where requests with one scatter/gather entry can be put and shown, as far as is known.
    usual_end: u32,
    /// The device must not see requests yet: raw packet queues receive before they are ready to.
    held: bool,
    fork: ForkToken,
    tracker: Arc<QueuePairTracker>,
    /// Where the tracker looks for requests.
    entries: RecvEntries,
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
            form: Form {
                units: 1 << (parts.sizes.shift.saturating_sub(UNIT_SHIFT) & 31),
                max_sge: parts.sizes.max_sge,
            },
            end: 0,
            pending: 0,
            tail: 0,
            room: 0,
            usual_end: 0,
            held: false,
            ring: parts.ring,
            fork: parts.fork,
            entries: match &parts.tracker.recv {
                Receives::Own(tracker) => tracker.entries().clone(),
                _ => RecvEntries::new(0),
            },
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
        self.set_usual_end();
    }

    /// After the room changed, or whether requests are shown.
    #[inline]
    fn set_usual_end(&mut self) {
        let is_usual = self.form.max_sge != 0 && !self.held;
        self.usual_end = self.tail.wrapping_add(if is_usual { self.room } else { 0 });
    }

    /// How many usual requests can be put at `end`, as far as is known.
    #[inline]
    fn usual_left(&self, end: u32) -> u32 {
        let left = self.usual_end.wrapping_sub(end);
        // Where there is no room, the end may be far behind.
        left.cast_signed().max(0).cast_unsigned()
    }

    /// Starts over after the queue was reset.
    pub(crate) fn reset(&mut self) {
        self.end = 0;
        self.pending = 0;
        self.tail = 0;
        self.set_usual_end();
        self.record.store(RECEIVE_RECORD, 0);
    }

    /// Hides requests from the device, or shows it those that were submitted meanwhile.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
        self.set_usual_end();
        if !held {
            // A batch that was forgotten is not shown.
            self.abort();
            self.show();
        }
    }

    /// Requests submitted (free-running counter).
    fn submitted(&self) -> u32 {
        self.end.wrapping_sub(self.pending)
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let end = self.end;
        let is_free = self.has_usual_room();
        // A copy is passed: once the address of the request is passed on, the compiler no longer
        // knows anything about its fields.
        match self.put_usual(self.form, end, is_free, *request, |ring, request| {
            ring.put_apart(request)
        }) {
            Ok(()) => {
                self.go_on();
                Ok(())
            }
            Err(result) => result,
        }
    }

    /// Whether there is room, as far as is known, for a request with one scatter/gather entry.
    #[inline]
    fn has_usual_room(&self) -> bool {
        self.end.wrapping_sub(self.usual_end).cast_signed() < 0
    }

    /// Writes a request with one scatter/gather entry at `end`. The end of the ring stays where it
    /// is. Another one is left to `apart`: it gets a request of its own, so that the caller's need
    /// not be in memory. `form` is the ring's: a caller in a loop reads it once.
    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the request would be passed in memory and asked again"
    )]
    #[inline(always)]
    fn put_usual<T>(
        &mut self,
        form: Form,
        end: u32,
        is_free: bool,
        request: RecvRequest<'_>,
        apart: impl FnOnce(&mut Self, RecvRequest<'_>) -> T,
    ) -> Result<(), T> {
        let [sge] = request.scatter else {
            return Err(apart(self, request));
        };
        let sge = *sge;
        // A child process has no mapping of the ring.
        if !is_free || !self.fork.is_current() || !(1..=MAX_SGE_LENGTH).contains(&sge.length) {
            let scatter = &[sge];
            return Err(apart(self, RecvRequest { scatter, ..request }));
        }
        form.put(&self.ring, form.unit(end), &sge);
        self.track(end, request.wr_id);
        Ok(())
    }

    /// Puts any request.
    #[cold]
    #[inline(never)]
    fn put_apart(&mut self, request: RecvRequest<'_>) -> Result<(), PostError> {
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.is_full() {
            self.make_room()?;
        }
        let at = self.form.unit(self.end);
        put_any_sges(&self.ring, at, self.form.max_sge, request.scatter)?;
        self.track(self.end, request.wr_id);
        self.go_on();
        Ok(())
    }

    /// One more request was put.
    #[inline]
    fn go_on(&mut self) {
        self.end = self.end.wrapping_add(1);
        self.pending = self.pending.wrapping_add(1);
    }

    /// Records a request for its completion.
    #[inline]
    fn track(&self, end: u32, wr_id: u64) {
        self.entries
            .at(end as usize)
            .store(wr_id, Ordering::Relaxed);
    }

    /// Whether there is no room, as far as is known.
    #[inline]
    fn is_full(&self) -> bool {
        self.end.wrapping_sub(self.tail) >= self.room
    }

    /// Checks for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    fn look_for_room(&mut self) {
        self.tail = self.tracker.received_tail();
        self.set_usual_end();
    }

    /// Finds room for one more request, where there seemed to be none.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), PostError> {
        if self.room == 0 {
            return Err(PostError::WrongState);
        }
        self.look_for_room();
        if self.is_full() {
            return Err(PostError::QueueFull);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        let pending = self.pending;
        if pending == 0 {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.pending = 0;
        self.hand_over(pending);
        Ok(())
    }

    /// Submits the last `count` requests before the end, which this process put.
    #[inline]
    fn hand_over(&self, count: u32) {
        self.report(count);
        if !self.held {
            self.show();
        }
    }

    /// Reports them to the observer.
    #[inline]
    fn report(&self, count: u32) {
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            let first = self.end.wrapping_sub(count);
            let indexes = (0..count).map(|at| first.wrapping_add(at) & self.mask);
            let shift = self.form.units.trailing_zeros();
            crate::rings::receives(queue, &self.ring, shift, false, indexes);
        }
        #[cfg(not(feature = "rings"))]
        let _ = (self, count);
    }

    /// Puts a request and submits it. Nothing is pending. `is_free`: there is usual room.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn post_one(&mut self, is_free: bool, request: RecvRequest<'_>) -> Result<(), PostError> {
        let end = self.end;
        match self.put_usual(self.form, end, is_free, request, |ring, request| {
            ring.post_apart(request)
        }) {
            Ok(()) => {
                self.end = end.wrapping_add(1);
                self.hand_over(1);
                Ok(())
            }
            Err(result) => result,
        }
    }

    /// The same for a usual request where there is room for it, if nothing is pending. Whether it
    /// was submitted.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn post_usual(&mut self, request: RecvRequest<'_>) -> bool {
        let end = self.end;
        let is_free = self.pending == 0 && self.has_usual_room();
        let put = self.put_usual(self.form, end, is_free, request, |_, _| ());
        if put.is_ok() {
            self.end = end.wrapping_add(1);
            self.report(1);
            self.show();
        }
        put.is_ok()
    }

    /// Puts what `request` returns as long as that is a usual one and there is room for it; after
    /// each, `next` makes it return the next one.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn put_list<'r>(
        &mut self,
        request: impl Fn() -> Option<RecvRequest<'r>>,
        next: impl Fn(),
    ) {
        // A child process has no mapping of the ring.
        if !self.fork.is_current() {
            return;
        }
        let form = self.form;
        let begin = self.end;
        let mut left = self.usual_left(begin);
        let mut end = begin;
        while let Some(request) = request()
            && let [sge] = request.scatter
            && (1..=MAX_SGE_LENGTH).contains(&sge.length)
        {
            if left == 0 {
                self.look_for_room();
                left = self.usual_left(end);
                if left == 0 {
                    break;
                }
            }
            form.put(&self.ring, form.unit(end), sge);
            self.track(end, request.wr_id);
            end = end.wrapping_add(1);
            left -= 1;
            next();
        }
        self.end = end;
        self.pending = self.pending.wrapping_add(end.wrapping_sub(begin));
    }

    /// The same for any request.
    #[cold]
    #[inline(never)]
    fn post_apart(&mut self, request: RecvRequest<'_>) -> Result<(), PostError> {
        self.put_apart(request)?;
        self.submit()
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
        if let [request] = requests {
            let is_free = self.has_usual_room();
            return (self.post_one(is_free, *request)).map_err(|error| (0, error));
        }
        for (posted, request) in requests.iter().enumerate() {
            if let Err(error) = self.put(request) {
                return self.stop(posted, error);
            }
        }
        self.submit().map_err(|error| (0, error))
    }

    /// Submits what was put before the request that was refused.
    #[cold]
    fn stop(&mut self, posted: usize, error: PostError) -> Result<(), (usize, PostError)> {
        self.submit().map_err(|error| (0, error))?;
        Err((posted, error))
    }

    /// Shows the device what was submitted; nothing is pending.
    #[inline]
    fn show(&self) {
        let end = self.end & 0xffff;
        barrier::to_device();
        self.record.store(RECEIVE_RECORD, end);
    }

    #[inline]
    pub(crate) fn abort(&mut self) {
        self.end = self.submitted();
        self.pending = 0;
    }
}

#[cfg(test)]
mod tests;
