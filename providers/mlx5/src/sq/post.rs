//! Submitting requests, and taking them back.

use uverbs_core::PostError;
use uverbs_core::hw::barrier;
use uverbs_core::types::SendRequest;

use super::{SEND_RECORD, SendRing};

impl SendRing {
    /// Submits what was put: one doorbell for all of it.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        if self.end.requests == self.submitted.requests {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.hand_over();
        Ok(())
    }

    /// Submits what was put by this process, at least one request.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn hand_over(&mut self) {
        // Before the device may read: nothing that it does must be reported earlier.
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            queue.report(&self.ring, self.submitted.block, self.end.block);
        }
        barrier::to_device();
        self.record.store(SEND_RECORD, self.end.block & 0xffff);
        if self.doorbell.blue_flame_blocks() == 0 {
            self.doorbell.ring_only(self.last);
        } else {
            let first = self.submitted.block;
            let blocks = self.end.block.wrapping_sub(first);
            let alone = self.end.requests.wrapping_sub(self.submitted.requests) == 1;
            if alone && blocks <= self.doorbell.blue_flame_blocks() {
                self.doorbell.blue_flame(&self.ring, first, blocks);
            } else {
                self.doorbell.ring(self.last);
            }
        }
        self.submitted = self.end;
    }

    /// Puts requests to the peer of a connection and submits them; on an error, returns how many
    /// were submitted, and why the next one was not.
    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the requests would be passed in memory and asked again"
    )]
    #[inline(always)]
    pub(crate) fn post(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
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

    /// Takes back what was put and not submitted.
    #[inline]
    pub(crate) fn abort(&mut self) {
        if self.end.requests != self.submitted.requests {
            self.take_back();
        }
    }

    #[cold]
    fn take_back(&mut self) {
        let blocks = self.end.block.wrapping_sub(self.submitted.block);
        for block in 0..blocks {
            let index = self.submitted.block.wrapping_add(block) & self.mask;
            self.tracker.send.taken_back(index, self.tail);
        }
        self.end = self.submitted;
    }
}
