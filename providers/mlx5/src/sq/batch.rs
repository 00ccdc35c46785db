//! The typed sending end: batches that know their end, of which the ring knows nothing before they
//! are submitted.
//!
//! A batch is a few numbers, which stay in registers as long as none of its functions that are not
//! inlined takes it by reference.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::PostError;
use uverbs_core::contract;
use uverbs_core::types::{Posting, SendRequest, Template};

use super::template::Prepared;
use super::usual::Spot;
use super::{End, Pending, SendRing};

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
    /// The block after what the batch has put.
    block: u32,
    /// Requests before that block.
    requests: u32,
    /// Flags that the next request must have.
    flags: u32,
    /// For how many more usual requests there is room for certain.
    left: u32,
    /// The first word of its last request.
    last: u64,
    /// Nothing is left to take back.
    is_submitted: bool,
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
        let End {
            block,
            requests,
            flags,
        } = self.ring.end;
        SendBatch {
            block,
            requests,
            flags,
            left: self.ring.left_after(requests, flags),
            last: 0,
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
        self.ring.post_prepared(prepared, posting)
    }
}

impl SendBatch<'_> {
    #[inline(always)]
    fn spot(&self) -> Spot {
        Spot {
            block: self.block,
            requests: self.requests,
            is_free: self.left != 0,
        }
    }

    /// After a request of one block that starts with `head`.
    #[inline(always)]
    fn go_on(&mut self, head: u64) {
        self.block = self.block.wrapping_add(1);
        self.requests = self.requests.wrapping_add(1);
        self.left = self.left.wrapping_sub(1);
        self.last = head;
    }

    /// After a request that the ring put apart, or refused.
    #[inline(always)]
    fn go_on_apart(&mut self, put: Result<(), PostError>) -> Result<(), PostError> {
        let (end, last) = self.ring.aside;
        self.left = (self.ring).left_after(end.requests, end.flags);
        if put.is_ok() {
            self.block = end.block;
            self.requests = end.requests;
            self.flags = end.flags;
            self.last = last;
        }
        put
    }
}

impl contract::SendBatch for SendBatch<'_> {
    type Prepared = Prepared;

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let (spot, flags) = (self.spot(), self.flags);
        let put = self.ring.put_usual(
            spot,
            *request,
            |_, head| Ok(head),
            |ring, request| Err(ring.put_aside(spot.block, spot.requests, flags, request)),
        );
        match put {
            Ok(head) => {
                self.go_on(head);
                Ok(())
            }
            Err(put) => self.go_on_apart(put),
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline(always)]
    unsafe fn push_prepared(
        &mut self,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        let (spot, flags) = (self.spot(), self.flags);
        let put = self.ring.put_prepared(spot, prepared, posting, |ring| {
            ring.put_prepared_aside(spot.block, spot.requests, flags, prepared, posting)
        });
        match put {
            Ok(head) => {
                self.go_on(head);
                Ok(())
            }
            Err(put) => self.go_on_apart(put),
        }
    }

    #[inline(always)]
    fn submit(mut self) -> Result<(), PostError> {
        let blocks = self.block.wrapping_sub(self.ring.end.block);
        let requests = self.requests.wrapping_sub(self.ring.end.requests);
        if requests == 0 {
            return Ok(());
        }
        if !self.ring.fork.is_current() {
            return Err(PostError::Forked);
        }
        self.is_submitted = true;
        self.ring.end = End {
            block: self.block,
            requests: self.requests,
            flags: self.flags,
        };
        self.ring.pending.flags = self.flags;
        self.ring.set_usual_room();
        self.ring.hand_over(blocks, requests == 1, self.last);
        Ok(())
    }
}

impl Drop for SendBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        let blocks = self.block.wrapping_sub(self.ring.end.block);
        if !self.is_submitted && blocks != 0 {
            self.ring.forget_behind(blocks);
        }
    }
}

impl SendRing {
    /// For how many usual requests there is room after so many, as far as is known. `flags` are
    /// required of the next one.
    #[inline]
    fn left_after(&self, requests: u32, flags: u32) -> u32 {
        self.usual_room_with(flags)
            .saturating_sub(requests.wrapping_sub(self.tail))
    }

    /// Puts any request behind the end, where a batch has come to these numbers. The ring's own end
    /// is where it was; the end after the request is left [aside](Self::aside). Numbers are passed
    /// one by one: a batch whose numbers are in registers has no need to store them.
    #[cold]
    #[inline(never)]
    fn put_aside(
        &mut self,
        block: u32,
        requests: u32,
        flags: u32,
        request: SendRequest<'_>,
    ) -> Result<(), PostError> {
        let own = self.end;
        self.end = End {
            block,
            requests,
            flags,
        };
        let put = self.put_any(&request);
        self.aside = (self.end, self.last);
        self.end = own;
        self.pending = Pending::new(own.flags);
        self.set_usual_room();
        put
    }

    /// The same for a posting.
    #[cold]
    #[inline(never)]
    fn put_prepared_aside(
        &mut self,
        block: u32,
        requests: u32,
        flags: u32,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Result<(), PostError> {
        prepared.with(posting, |request| {
            self.put_aside(block, requests, flags, *request)
        })
    }

    /// Puts a posting and submits it. Nothing is pending.
    #[inline(always)]
    fn post_prepared(&mut self, prepared: &Prepared, posting: &Posting) -> Result<(), PostError> {
        let spot = self.spot();
        let put = self.put_prepared(spot, prepared, posting, |ring| {
            ring.post_prepared_apart(prepared, posting)
        });
        match put {
            Ok(head) => {
                self.posted(spot, head);
                Ok(())
            }
            Err(result) => result,
        }
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
}
