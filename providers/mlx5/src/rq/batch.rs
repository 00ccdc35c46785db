//! The typed receiving end: batches that know their end, of which the ring knows nothing before
//! they are submitted.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::PostError;
use uverbs_core::contract;
use uverbs_core::types::RecvRequest;

use super::{Form, ReceiveRing};

/// The receiving end of a queue pair with a receive queue of its own.
#[derive(Debug)]
pub struct Receiver<'q> {
    ring: &'q mut ReceiveRing,
}

/// Receive requests that are submitted together. Dropped or forgotten, it has had no effect.
#[derive(Debug)]
#[must_use = "nothing is posted before `submit`"]
pub struct RecvBatch<'s> {
    ring: &'s mut ReceiveRing,
    /// The end of what the batch has put.
    end: u32,
    /// Up to where there is room for usual requests for certain.
    limit: u32,
    form: Form,
}

impl<'q> Receiver<'q> {
    pub(crate) fn new(ring: &'q mut ReceiveRing) -> Self {
        // A batch of the other kind may have been forgotten.
        ring.abort();
        Self { ring }
    }
}

impl contract::Receiver for Receiver<'_> {
    type Batch<'s>
        = RecvBatch<'s>
    where
        Self: 's;

    #[inline(always)]
    fn batch(&mut self) -> RecvBatch<'_> {
        RecvBatch {
            end: self.ring.end,
            limit: self.ring.limit_from(self.ring.end),
            form: self.ring.form,
            ring: self.ring,
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let is_free = self.ring.has_usual_room() || {
            self.ring.look_for_room();
            self.ring.has_usual_room()
        };
        self.ring.post_one(is_free, *request)
    }
}

impl contract::RecvBatch for RecvBatch<'_> {
    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn push(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let end = self.end;
        let is_free = end != self.limit || {
            self.limit = self.ring.find_room_from(end);
            end != self.limit
        };
        let put = self
            .ring
            .put_usual(self.form, end, is_free, *request, |ring, request| {
                ring.put_aside(end, request)
            });
        if let Err(put) = put {
            put?;
            // It is asked again.
            self.limit = end.wrapping_add(1);
        }
        self.end = end.wrapping_add(1);
        Ok(())
    }

    #[inline(always)]
    fn submit(self) -> Result<(), PostError> {
        let count = self.end.wrapping_sub(self.ring.end);
        if count == 0 {
            return Ok(());
        }
        if !self.ring.fork.is_current() {
            return Err(PostError::Forked);
        }
        self.ring.end = self.end;
        self.ring.hand_over(count);
        Ok(())
    }
}

impl ReceiveRing {
    /// Up to where there is room for usual requests that are put from `end` on, as far as is known.
    #[inline]
    fn limit_from(&self, end: u32) -> u32 {
        end.wrapping_add(self.usual_left(end))
    }

    /// The same after a look for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    fn find_room_from(&mut self, end: u32) -> u32 {
        self.look_for_room();
        self.limit_from(end)
    }

    /// Puts any request behind the end, where a batch has come to `end`. The ring's own end stays
    /// where it is.
    #[cold]
    #[inline(never)]
    fn put_aside(&mut self, end: u32, request: RecvRequest<'_>) -> Result<(), PostError> {
        let own = std::mem::replace(&mut self.end, end);
        let put = self.put_apart(request);
        self.end = own;
        self.pending = 0;
        put
    }
}
