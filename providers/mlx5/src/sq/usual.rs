//! The most frequent requests, written where they are posted.
//!
//! What the caller knows about a request (its operation, that it has one entry, its flags) is known
//! here, too, and the compiler removes the branches. Everything else goes to a separate function,
//! which gets a request of its own, so that the caller's need not be in memory.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::PostError;
use uverbs_core::hw::BlockMut;
use uverbs_core::types::{Payload, Posting, SendFlags, SendRequest, Sge};

use super::shape::Shape;
use super::{Common, End, Prepared, SendRing};
use crate::tracker::{Number, SentKind};
use crate::wqe::operations::Operations;
use crate::wqe::{self, BLOCK_UNITS, UNIT, Unit, opcode};

/// The byte of a request where inline data starts, after its length.
#[inline]
const fn inline_start(shape: &Shape) -> usize {
    (1 + shape.units_before_data()) as usize * UNIT as usize + 4
}

/// Where a request is to be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Its first block (free-running counter).
    pub(super) block: u32,
    /// The number of the request before it.
    pub(super) requests: Number,
    /// There is room, and nothing special is required of it.
    pub(super) is_free: bool,
}

/// What becomes of a request that is put.
///
/// A trait, because closures that are called in several places are not inlined. Each function makes
/// its own result: one that combines several would be stored, and loaded again to distinguish them.
pub(super) trait Putting {
    /// What is returned.
    type Done;

    /// What the control segments of the ring have in common: read where it is needed, except by who
    /// has read it.
    #[inline(always)]
    fn common(&self, ring: &SendRing) -> Common {
        ring.common
    }

    /// It was written, and starts with the word `head`. The end of the ring is where it was.
    fn written(self, ring: &mut SendRing, head: u64) -> Self::Done;

    /// It is not a usual one, or there is no room: nothing was written. It is passed by value: once
    /// the address of a request is passed on, the compiler no longer knows anything about its
    /// fields.
    fn apart(self, ring: &mut SendRing, request: SendRequest<'_>) -> Self::Done;
}

/// The same for postings of templates.
pub(super) trait PuttingPrepared: Putting {
    /// As [`Putting::apart`].
    fn posting_apart(
        self,
        ring: &mut SendRing,
        prepared: &Prepared,
        posting: &Posting,
    ) -> Self::Done;
}

/// It is submitted later, with others.
struct Behind;

impl Putting for Behind {
    type Done = Result<(), PostError>;

    #[inline(always)]
    fn written(self, ring: &mut SendRing, head: u64) -> Result<(), PostError> {
        ring.go_on(1, head);
        Ok(())
    }

    #[inline(always)]
    fn apart(self, ring: &mut SendRing, request: SendRequest<'_>) -> Result<(), PostError> {
        ring.put_apart(request)
    }
}

impl SendRing {
    /// Where the next request is to be put.
    #[inline(always)]
    pub(super) fn spot(&self) -> Spot {
        let End {
            block, requests, ..
        } = self.end;
        Spot {
            block,
            requests,
            is_free: requests < self.usual_end,
        }
    }

    /// Whether operations take an entry, in a ring with a free [spot](Self::spot).
    #[inline(always)]
    pub(super) fn gathers(&self, needed: Operations) -> bool {
        // There is no such spot in others.
        Operations::BASIC.contains(needed) || self.gathered.contains(needed)
    }

    /// The same, after a look for room if it seems that there is none.
    #[inline(always)]
    pub(super) fn spot_with_room(&mut self) -> Spot {
        let spot = self.spot();
        Spot {
            is_free: spot.is_free || spot.requests < self.look_for_room(self.end.flags),
            ..spot
        }
    }

    /// Up to which number requests can be outstanding where `flags` are required of the next one,
    /// after a look for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn look_for_room(&mut self, flags: u32) -> Number {
        self.tail = self.tracker.send.done();
        self.set_usual_end();
        self.usual_end_with(flags)
    }

    /// Puts a request to the peer of a connection.
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let spot = self.spot_with_room();
        self.put_usual(spot, *request, Behind)
    }

    /// Writes a request of one block at `spot`.
    #[inline(always)]
    pub(super) fn put_usual<P: Putting>(
        &mut self,
        spot: Spot,
        request: SendRequest<'_>,
        putting: P,
    ) -> P::Done {
        // Taken apart, and put together again where it is needed: otherwise it would be in memory.
        let SendRequest {
            wr_id,
            operation,
            payload,
            flags,
            destination,
        } = request;
        let whole = |payload| SendRequest {
            wr_id,
            operation,
            payload,
            flags,
            destination,
        };
        let Some(shape) = Shape::of(&operation) else {
            return putting.apart(self, whole(payload));
        };
        let is_usual = spot.is_free && self.fork.is_current() && destination.is_none();
        match payload {
            Payload::Gather([sge]) => {
                let sge = *sge;
                if is_usual && self.gathers(shape.needs) && shape.takes(&sge) {
                    let common = putting.common(self);
                    let head = self.write_gather((spot, common), &shape, [], wr_id, flags, &sge);
                    putting.written(self, head)
                } else {
                    putting.apart(self, whole(Payload::Gather(&[sge])))
                }
            }
            // Data that fits the first block, and is not so short that it is assembled byte by
            // byte. Reads and atomics have none.
            Payload::Inline([slice]) => {
                let slice = *slice;
                if is_usual
                    && self.limits.operations.contains(shape.needs)
                    && slice.len() <= self.limits.max_inline as usize
                    && shape.opcode != opcode::READ
                    && shape.operands.is_none()
                    && BlockMut::fits(inline_start(&shape), slice.len())
                {
                    let common = putting.common(self);
                    let head = self.write_inline((spot, common), &shape, wr_id, flags, slice);
                    putting.written(self, head)
                } else {
                    putting.apart(self, whole(Payload::Inline(&[slice])))
                }
            }
            payload => putting.apart(self, whole(payload)),
        }
    }

    /// Writes a request of one entry, behind `route`, the segments with its destination.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a few units")]
    pub(super) fn write_gather<const ROUTE: usize>(
        &self,
        (spot, common): (Spot, Common),
        shape: &Shape,
        route: [Unit; ROUTE],
        wr_id: u64,
        flags: SendFlags,
        sge: &Sge,
    ) -> u64 {
        let units = ROUTE as u32 + shape.units_before_data() + 2;
        let control = control(spot, common, shape, flags, units);
        let (first, entry) = self.blocks.at(spot.block);
        let completion = SentKind::of(shape.completion);
        entry.posted(wr_id, spot.requests.after(1), completion);
        let put = |at: u32, unit| {
            let block = match at / BLOCK_UNITS {
                0 => first,
                later => self.blocks.ring().block(spot.block.wrapping_add(later)),
            };
            block.put((at % BLOCK_UNITS) as usize, unit);
        };
        put(0, control);
        for (at, unit) in (1..).zip(route) {
            put(at, unit);
        }
        let behind = ROUTE as u32 + 1;
        if let Some(remote) = shape.remote() {
            put(behind, remote);
        }
        if let Some(operands) = shape.operands {
            put(behind + 1, operands);
        }
        put(units - 1, wqe::data(sge));
        control[0]
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "no longer than a block")]
    fn write_inline(
        &mut self,
        (spot, common): (Spot, Common),
        shape: &Shape,
        wr_id: u64,
        flags: SendFlags,
        slice: &[u8],
    ) -> u64 {
        let start = inline_start(shape);
        let units = (start + slice.len()).div_ceil(UNIT as usize) as u32;
        let control = control(spot, common, shape, flags, units);
        let (mut block, entry) = self.blocks.at_mut(spot.block);
        let completion = SentKind::of(shape.completion);
        entry.posted(wr_id, spot.requests.after(1), completion);
        block.put(0, control);
        if let Some(remote) = shape.remote() {
            block.put(1, remote);
        }
        block.put_half(start / 4 - 1, wqe::inline_head(slice.len() as u32));
        block.put_bytes(start, slice);
        control[0]
    }
}

/// The control segment.
#[inline(always)]
fn control(spot: Spot, common: Common, shape: &Shape, flags: SendFlags, units: u32) -> Unit {
    let tail = wqe::usual_tail(flags, shape.immediate);
    [
        wqe::control_head(shape.opcode, spot.block, common.queue, units),
        tail | common.tail,
    ]
}
