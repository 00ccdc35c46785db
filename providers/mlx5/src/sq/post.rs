//! Submitting requests, and taking them back.

use uverbs_core::PostError;
use uverbs_core::contract;
use uverbs_core::hw::barrier;
use uverbs_core::types::{Posting, SendRequest};

use super::usual::{Putting, PuttingPrepared, Spot};
use super::{Pending, Prepared, SEND_RECORD, SendRing};

/// It is submitted by itself. Nothing is pending.
pub(super) struct Alone {
    pub(super) spot: Spot,
}

#[expect(clippy::inline_always, reason = "a part of posting")]
impl Putting for Alone {
    type Done = Result<(), PostError>;

    #[inline(always)]
    fn written(self, ring: &mut SendRing, head: u64) -> Result<(), PostError> {
        ring.posted(self.spot, head);
        Ok(())
    }

    #[inline(always)]
    fn apart(self, ring: &mut SendRing, request: SendRequest<'_>) -> Result<(), PostError> {
        ring.post_apart(request)
    }
}

#[expect(clippy::inline_always, reason = "a part of posting")]
impl PuttingPrepared for Alone {
    #[inline(always)]
    fn posting_apart(
        self,
        ring: &mut SendRing,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        ring.post_prepared_apart(prepared, posting)
    }
}

/// A ring in which nothing is pending, for one request.
#[derive(Debug)]
pub struct UsualSend<'q> {
    ring: &'q mut SendRing,
}

#[expect(clippy::inline_always, reason = "a part of posting")]
impl contract::UsualSend for UsualSend<'_> {
    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn post(self, request: SendRequest<'_>) -> bool {
        self.ring.post_usual(request)
    }
}

/// As [`Alone`], if it is a usual request: otherwise nothing is done.
struct IfUsual {
    spot: Spot,
}

#[expect(clippy::inline_always, reason = "a part of posting")]
impl Putting for IfUsual {
    /// Whether it was.
    type Done = bool;

    #[inline(always)]
    fn written(self, ring: &mut SendRing, head: u64) -> bool {
        ring.posted(self.spot, head);
        true
    }

    #[inline(always)]
    fn apart(self, _: &mut SendRing, _: SendRequest<'_>) -> bool {
        false
    }
}

impl SendRing {
    /// Submits what was put: one doorbell for all of it.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
        let pending = self.pending;
        if pending.is_empty() {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.hand_over(pending.blocks(), pending.is_one(), self.last);
        self.pending = Pending::new(self.end.flags);
        Ok(())
    }

    /// Submits the last `blocks` blocks before the end, which this process wrote. `alone`: they are
    /// one request. `head` is the first word of the last request.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn hand_over(&mut self, blocks: u32, alone: bool, head: u64) {
        let end = self.end.block;
        // Before the device may read: nothing that it does must be reported earlier.
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            queue.report(self.blocks.ring(), end.wrapping_sub(blocks), end);
        }
        barrier::to_device();
        self.record.store(SEND_RECORD, end & 0xffff);
        if self.doorbell.blue_flame_blocks() == 0 {
            self.doorbell.ring_only(head);
        } else if alone && blocks <= self.doorbell.blue_flame_blocks() {
            let first = end.wrapping_sub(blocks);
            self.doorbell.blue_flame(self.blocks.ring(), first, blocks);
        } else {
            self.doorbell.ring(head);
        }
    }

    /// Puts a request to the peer of a connection and submits it. Nothing is pending.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn post_one(&mut self, request: SendRequest<'_>) -> Result<(), PostError> {
        let spot = self.spot_with_room();
        self.put_usual(spot, request, Alone { spot })
    }

    /// For a usual request, if nothing is pending.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn usual_send(&mut self) -> Option<UsualSend<'_>> {
        self.pending.is_empty().then_some(UsualSend { ring: self })
    }

    /// Posts a usual request; otherwise nothing is done. Nothing is pending.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn post_usual(&mut self, request: SendRequest<'_>) -> bool {
        let spot = self.spot_with_room();
        self.put_usual(spot, request, IfUsual { spot })
    }

    /// Submits the request of one block that was put at `spot`, the end, and starts with the word
    /// `head`.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn posted(&mut self, spot: Spot, head: u64) {
        self.end.block = spot.block.wrapping_add(1);
        self.end.requests = spot.requests.after(1);
        self.hand_over(1, true, head);
    }

    /// Puts any request and submits it.
    #[cold]
    #[inline(never)]
    fn post_apart(&mut self, request: SendRequest<'_>) -> Result<(), PostError> {
        self.put_any(&request)?;
        self.submit()
    }

    #[cold]
    #[inline(never)]
    fn post_prepared_apart(
        &mut self,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        prepared.with(posting, |request| {
            self.put_any(request)?;
            self.submit()
        })
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
        if let [request] = requests {
            return self.post_one(*request).map_err(|error| (0, error));
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
    pub(super) fn stop(
        &mut self,
        posted: usize,
        error: PostError,
    ) -> Result<(), (usize, PostError)> {
        self.submit().map_err(|error| (0, error))?;
        Err((posted, error))
    }

    /// Takes back what was put and not submitted.
    #[inline]
    pub(crate) fn abort(&mut self) {
        if !self.pending.is_empty() {
            self.take_back();
        }
    }

    #[cold]
    fn take_back(&mut self) {
        let pending @ Pending { flags, .. } = self.pending;
        let blocks = pending.blocks();
        self.end.block = self.end.block.wrapping_sub(blocks);
        self.end.requests = self.end.requests.before(pending.requests().into());
        self.end.flags = flags;
        self.pending = Pending::new(flags);
        self.set_usual_end();
        self.forget_behind(blocks);
    }

    /// What was put into the `blocks` blocks behind the end and not submitted completes nothing.
    #[cold]
    pub(super) fn forget_behind(&self, blocks: u32) {
        for block in 0..blocks {
            let block = self.end.block.wrapping_add(block);
            self.blocks.value(block).taken_back(self.tail);
        }
    }
}
