//! Requests that are composed call by call, and submitted together: each is put in few steps, or
//! left to who can put any.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::types::{Payload, SendRequest};

use super::shape::Shape;
use super::usual::Putting;
use super::{Pending, SendRing};
use crate::tracker::SentKind;
use crate::wqe;

/// It is submitted later, with others, if it is a usual one.
struct BehindIfUsual;

impl Putting for BehindIfUsual {
    /// Whether it was put.
    type Done = bool;

    #[inline(always)]
    fn written(self, ring: &mut SendRing, head: u64) -> bool {
        ring.go_on(1, head);
        true
    }

    #[inline(always)]
    fn apart(self, _: &mut SendRing, _: SendRequest<'_>) -> bool {
        false
    }
}

impl SendRing {
    /// Puts a usual request where there is room for it. Whether it was put.
    ///
    /// `request` is called for each part of the request where that is written, so that the parts
    /// need not be in registers together.
    #[inline(always)]
    pub(crate) fn put_composed<'r>(&mut self, request: impl Fn() -> SendRequest<'r>) -> bool {
        let spot = self.spot();
        let Payload::Gather([sge]) = request().payload else {
            return self.put_usual(spot, request(), BehindIfUsual);
        };
        let sge = *sge;
        let Some(shape) = Shape::of(&request().operation) else {
            return false;
        };
        // One by one: combined, they would be numbers instead of jumps.
        if !shape.takes(&sge) || request().destination.is_some() {
            return false;
        }
        if !self.gathers(shape.needs) {
            return false;
        }
        if !spot.is_free {
            return false;
        }
        if !self.fork.is_current() {
            return false;
        }
        let completion = SentKind::of(shape.completion);
        // Stored where it is known, so that it need not be kept; and so below.
        self.end.requests = spot.requests.after(1);
        let entry = self.blocks.value(spot.block);
        entry.posted(request().wr_id, spot.requests.after(1), completion);
        // The block is found again, and its control segment comes last: then registers are free.
        let block = self.blocks.ring().block(spot.block);
        let units = shape.units_before_data() + 2;
        block.put(units as usize - 1, wqe::data(&sge));
        if let Some(shape) = Shape::of(&request().operation)
            && let Some(remote) = shape.remote()
        {
            block.put(1, remote);
            if let Some(operands) = shape.operands {
                block.put(2, operands);
            }
        }
        let head = wqe::control_head(shape.opcode, spot.block, self.common.queue, units);
        self.last = head;
        let tail = wqe::usual_tail(request().flags, shape.immediate) | self.common.tail;
        block.put(0, [head, tail]);
        self.end.block = spot.block.wrapping_add(1);
        self.pending.add(1);
        true
    }

    /// Looks for requests that were completed meanwhile, if there seemed to be no room for a usual
    /// one. Whether there is room now.
    pub(crate) fn find_room(&mut self) -> bool {
        !self.spot().is_free && self.spot_with_room().is_free
    }

    /// Submits what was put, if there is anything. Whether it was submitted.
    #[inline(always)]
    pub(crate) fn submit_composed(&mut self) -> bool {
        let pending = self.pending;
        if pending.is_empty() || !self.fork.is_current() {
            return false;
        }
        self.hand_over(pending.blocks(), pending.is_one(), self.last);
        self.pending = Pending::new(self.end.flags);
        true
    }
}
