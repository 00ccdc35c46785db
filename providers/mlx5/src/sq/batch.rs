//! The typed sending end: batches that know their end, of which the ring knows nothing before they
//! are submitted.
//!
//! A batch is a few numbers, which stay in registers as long as none of its functions that are not
//! inlined takes it by reference.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::PostError;
use uverbs_core::contract;
use uverbs_core::types::{Posting, SendRequest, Template};

use super::post::Alone;
use super::template::Prepared;
use super::usual::{Putting, PuttingPrepared, Spot};
use super::{Common, End, Pending, SendRing};
use crate::tracker::Number;

/// The sending end of a queue pair of type RC, UC or UD.
#[derive(Debug)]
pub struct Sender<'q> {
    ring: &'q mut SendRing,
}

/// Send requests that are submitted together.
#[derive(Debug)]
#[must_use = "nothing is sent before `submit`"]
pub struct SendBatch<'s> {
    ring: &'s mut SendRing,
    end: BatchEnd,
    /// Nothing is left to take back.
    is_submitted: bool,
}

/// The end of what a batch has put. The flags that are required of the next request are with what
/// the ring put [aside](SendRing::aside): they change only there.
#[derive(Debug)]
struct BatchEnd {
    /// The next block (free-running counter).
    block: u32,
    /// The number of the request before it.
    requests: Number,
    /// Up to which number there is room for usual requests for certain.
    usual_end: Number,
    /// The first word of its last request.
    last: u64,
    common: Common,
}

impl<'q> Sender<'q> {
    pub(crate) fn new(ring: &'q mut SendRing) -> Self {
        // A batch of the other kind may have been forgotten.
        ring.abort();
        Self { ring }
    }
}

impl contract::Sender for Sender<'_> {
    type Batch<'s>
        = SendBatch<'s>
    where
        Self: 's;
    type Prepared = Prepared;

    #[inline(always)]
    fn batch(&mut self) -> SendBatch<'_> {
        let end = self.ring.end;
        self.ring.aside.0.flags = end.flags;
        SendBatch {
            end: BatchEnd {
                block: end.block,
                requests: end.requests,
                usual_end: self.ring.usual_end_with(end.flags),
                last: 0,
                common: self.ring.common,
            },
            is_submitted: false,
            ring: self.ring,
        }
    }

    fn prepare(&self, template: &Template) -> Prepared {
        Prepared::new(template)
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.ring.post_one(*request)
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn post_prepared(
        &mut self,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        let spot = self.ring.spot_with_room();
        (self.ring).put_prepared(spot, prepared, posting, Alone { spot })
    }
}

impl BatchEnd {
    #[inline(always)]
    fn spot(&mut self, ring: &mut SendRing) -> Spot {
        let is_free = self.requests < self.usual_end || {
            self.usual_end = ring.look_for_room(ring.aside.0.flags);
            self.requests < self.usual_end
        };
        Spot {
            block: self.block,
            requests: self.requests,
            is_free,
        }
    }

    /// After a request of one block that starts with `head`.
    #[inline(always)]
    fn go_on(&mut self, head: u64) {
        self.block = self.block.wrapping_add(1);
        self.requests = self.requests.after(1);
        self.last = head;
    }

    /// After a request that the ring put aside, or refused.
    #[inline(always)]
    fn go_on_aside(
        &mut self,
        ring: &SendRing,
        put: Result<(), PostError>,
    ) -> Result<(), PostError> {
        let (end, last) = ring.aside;
        self.usual_end = ring.usual_end_with(end.flags);
        if put.is_ok() {
            self.block = end.block;
            self.requests = end.requests;
            self.last = last;
        }
        put
    }
}

/// It is submitted with the batch that it is put at the end of.
struct Batched<'b> {
    spot: Spot,
    end: &'b mut BatchEnd,
}

impl Putting for Batched<'_> {
    type Done = Result<(), PostError>;

    #[inline(always)]
    fn common(&self, _: &SendRing) -> Common {
        self.end.common
    }

    #[inline(always)]
    fn written(self, _: &mut SendRing, head: u64) -> Result<(), PostError> {
        self.end.go_on(head);
        Ok(())
    }

    #[inline(always)]
    fn apart(self, ring: &mut SendRing, request: SendRequest<'_>) -> Result<(), PostError> {
        let Spot {
            block, requests, ..
        } = self.spot;
        let put = ring.put_aside(block, requests, request);
        self.end.go_on_aside(ring, put)
    }
}

impl PuttingPrepared for Batched<'_> {
    #[inline(always)]
    fn posting_apart(
        self,
        ring: &mut SendRing,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        let Spot {
            block, requests, ..
        } = self.spot;
        let put = ring.put_prepared_aside(block, requests, prepared, posting);
        self.end.go_on_aside(ring, put)
    }
}

impl contract::SendBatch for SendBatch<'_> {
    type Prepared = Prepared;

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let Self { ring, end, .. } = self;
        let spot = end.spot(ring);
        ring.put_usual(spot, *request, Batched { spot, end })
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn push_prepared(
        &mut self,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        let Self { ring, end, .. } = self;
        let spot = end.spot(ring);
        ring.put_prepared(spot, prepared, posting, Batched { spot, end })
    }

    #[inline(always)]
    fn submit(mut self) -> Result<(), PostError> {
        let end = End {
            block: self.end.block,
            requests: self.end.requests,
            flags: self.ring.aside.0.flags,
        };
        let blocks = end.block.wrapping_sub(self.ring.end.block);
        let requests = end.requests.since(self.ring.end.requests);
        if requests == 0 {
            return Ok(());
        }
        if !self.ring.fork.is_current() {
            return Err(PostError::Forked);
        }
        self.is_submitted = true;
        self.ring.end = end;
        self.ring.pending.flags = end.flags;
        self.ring.set_usual_end();
        self.ring.hand_over(blocks, requests == 1, self.end.last);
        Ok(())
    }
}

impl Drop for SendBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        let blocks = self.end.block.wrapping_sub(self.ring.end.block);
        if !self.is_submitted && blocks != 0 {
            self.ring.forget_behind(blocks);
        }
    }
}

impl SendRing {
    /// Puts any request behind the end, where a batch has come to these numbers. The ring's own end
    /// is where it was; the end after the request is left [aside](Self::aside). Numbers are passed
    /// one by one: a batch whose numbers are in registers has no need to store them.
    #[cold]
    #[inline(never)]
    fn put_aside(
        &mut self,
        block: u32,
        requests: Number,
        request: SendRequest<'_>,
    ) -> Result<(), PostError> {
        let own = self.end;
        self.end = End {
            block,
            requests,
            flags: self.aside.0.flags,
        };
        let put = self.put_any(&request);
        self.aside = (self.end, self.last);
        self.end = own;
        self.pending = Pending::new(own.flags);
        self.set_usual_end();
        put
    }

    /// The same for a posting.
    #[cold]
    #[inline(never)]
    fn put_prepared_aside(
        &mut self,
        block: u32,
        requests: Number,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        prepared.with(posting, |request| self.put_aside(block, requests, *request))
    }
}
