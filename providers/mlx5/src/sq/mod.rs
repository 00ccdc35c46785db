//! The send ring of a queue pair: this side writes requests, the doorbell submits them.
//!
//! Requests are put one after another in blocks of 64 bytes. They have no effect until the doorbell
//! record includes them; taking them back means restoring the former end.
#![expect(
    clippy::cast_possible_truncation,
    reason = "what fits a block is counted in a few bits"
)]

mod post;
pub(crate) mod raw;
mod shape;

use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{BlockMut, BlockRing, Record};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::{Operation, Payload, Remote, SendFlags, SendRequest};

use crate::doorbell::Doorbell;
#[cfg(feature = "rings")]
use crate::rings::{Route, Sends};
use crate::tracker::{QueuePairTracker, SentKind};
use crate::wqe::operations::Operations;
use crate::wqe::request::{self, Kind, Limits, MAX_SGE_LENGTH, Writer};
use crate::wqe::sizes;
use crate::wqe::{self, BLOCK_UNITS, UNIT, Unit, control, opcode};

use shape::Shape;

/// The word of a doorbell record that send queues use.
const SEND_RECORD: usize = 1;

/// A send ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    ring: BlockRing,
    /// The number of blocks less one.
    mask: u32,
    /// The end of what was written.
    end: End,
    /// The end of what the device may read.
    submitted: End,
    /// The first word of the last request that was put, for the doorbell.
    last: u64,
    /// Requests completed, when last checked.
    tail: u32,
    limits: Limits,
    /// The number of the queue pair, as encoded in the control segment.
    queue: u32,
    /// Control flags of every request.
    always: u32,
    /// The number of requests that can be outstanding; 0 while the queue pair accepts none.
    room: u32,
    max_requests: u32,
    fork: ForkToken,
    tracker: Arc<QueuePairTracker>,
    record: Arc<Record>,
    doorbell: Doorbell,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Box<Sends>>,
}

/// A position in the ring.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The next block (free-running counter).
    block: u32,
    /// Requests before it (free-running counter).
    requests: u32,
    /// Control flags of the next request, unless it has a full fence: those of every request, and
    /// those that the previous request requires.
    flags: u32,
}

impl End {
    /// Before the first request.
    const fn new(flags: u32) -> Self {
        Self {
            block: 0,
            requests: 0,
            flags,
        }
    }
}

/// What became of a request that was to be put.
enum Put {
    /// It was put: the end after it, and its first word.
    Done(End, u64),
    /// The queue does not take it.
    Refused(PostError),
    /// It is not a usual one.
    Unusual,
}

/// The byte of a request where inline data starts, after its length.
#[inline]
const fn inline_start(remote: Option<Remote>) -> usize {
    let units = if remote.is_some() { 2 } else { 1 };
    units * UNIT as usize + 4
}

/// The parts of a send ring.
pub(crate) struct Parts {
    pub(crate) ring: BlockRing,
    pub(crate) sizes: sizes::Send,
    pub(crate) operations: Operations,
    pub(crate) qpn: u32,
    pub(crate) signal_all: bool,
    pub(crate) fork: ForkToken,
    pub(crate) tracker: Arc<QueuePairTracker>,
    pub(crate) record: Arc<Record>,
    pub(crate) doorbell: Doorbell,
}

impl SendRing {
    pub(crate) fn new(parts: Parts) -> Self {
        let always = if parts.signal_all {
            control::SIGNALED
        } else {
            0
        };
        Self {
            mask: parts.sizes.blocks.wrapping_sub(1),
            end: End::new(always),
            submitted: End::new(always),
            queue: wqe::queue_word(parts.qpn),
            always,
            last: 0,
            tail: 0,
            limits: Limits {
                max_sge: parts.sizes.usable_sge,
                max_inline: parts.sizes.usable_inline,
                operations: parts.operations,
                qpn: parts.qpn,
            },
            room: 0,
            max_requests: parts.sizes.max_post,
            ring: parts.ring,
            fork: parts.fork,
            tracker: parts.tracker,
            record: parts.record,
            doorbell: parts.doorbell,
            #[cfg(feature = "rings")]
            watched: None,
        }
    }

    /// Reports what is submitted from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watch(&mut self, queue: Option<Watched>, route: Route) {
        self.watched = queue.map(|watched| Box::new(Sends { watched, route }));
    }

    /// Sets whether the queue pair is in a state that accepts requests.
    pub(crate) fn set_ready(&mut self, ready: bool) {
        self.room = if ready { self.max_requests } else { 0 };
    }

    /// Starts over after the queue pair was reset.
    pub(crate) fn reset(&mut self) {
        self.end = End::new(self.always);
        self.submitted = self.end;
        self.tail = 0;
        self.record.store(SEND_RECORD, 0);
    }

    /// The contents of the ring.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        crate::tests::bytes_of(&self.ring)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Puts a request to the peer of a connection.
    ///
    /// The most frequent operations are written here, the others in separate functions: registers
    /// are few. Where the kind of request is known from the caller's code, the compiler removes the
    /// branches.
    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the request would be passed in memory and asked again"
    )]
    #[inline(always)]
    pub(crate) fn put(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        // The slow path must not return here: the compiler would forget what it knows about the
        // request.
        if self.is_full() {
            return self.put_apart(*request);
        }
        match self.put_usual(self.end, request) {
            Put::Done(end, last) => {
                self.end = end;
                self.last = last;
                Ok(())
            }
            Put::Refused(error) => Err(error),
            Put::Unusual => self.put_apart(*request),
        }
    }

    /// Writes one of the most frequent requests at `end`.
    ///
    /// What the queue does not take is refused here, rather than left to a function apart: its
    /// caller's request would have to be in memory for that.
    #[expect(
        clippy::inline_always,
        reason = "what the caller knows about the request would be passed in memory and asked again"
    )]
    #[inline(always)]
    fn put_usual(&mut self, end: End, request: &SendRequest<'_>) -> Put {
        let Some(shape) = Shape::of(&request.operation) else {
            return Put::Unusual;
        };
        if request.destination.is_some() {
            return Put::Unusual;
        }
        if !self.limits.operations.contains(shape.needs) {
            return Put::Refused(PostError::UnsupportedOperation);
        }
        let kind = Kind::new(shape.opcode, shape.immediate, shape.completion);
        let number = end.block;
        match request.payload {
            Payload::Gather([sge]) if (1..=MAX_SGE_LENGTH).contains(&sge.length) => {
                if self.limits.max_sge == 0 {
                    return Put::Refused(PostError::TooManySges {
                        requested: 1,
                        max: 0,
                    });
                }
                let (rest, units) = match shape.remote {
                    Some(remote) => ([wqe::remote(remote), wqe::data(sge)], 3),
                    None => ([wqe::data(sge), [0; 2]], 2),
                };
                let (control, next) = self.note(end, units, 1, request.wr_id, request.flags, kind);
                let block = self.ring.block(number);
                block.put(0, control);
                for (at, unit) in rest.into_iter().enumerate().take(units as usize - 1) {
                    block.put(at + 1, unit);
                }
                Put::Done(next, control[0])
            }
            // Data that fits the first block, and is not so short that it is assembled byte by
            // byte. A read has none.
            Payload::Inline([slice])
                if shape.opcode != opcode::READ
                    && BlockMut::fits(inline_start(shape.remote), slice.len()) =>
            {
                if slice.len() > self.limits.max_inline as usize {
                    return Put::Refused(PostError::InlineTooLong {
                        requested: slice.len() as u64,
                        max: self.limits.max_inline,
                    });
                }
                let start = inline_start(shape.remote);
                let units = (start + slice.len()).div_ceil(UNIT as usize) as u32;
                let (control, next) = self.note(end, units, 1, request.wr_id, request.flags, kind);
                let mut block = self.ring.block_mut(number);
                block.put(0, control);
                if let Some(remote) = shape.remote {
                    block.put(1, wqe::remote(remote));
                }
                block.put_half(start / 4 - 1, wqe::inline_head(slice.len() as u32));
                block.put_bytes(start, slice);
                Put::Done(next, control[0])
            }
            _ => Put::Unusual,
        }
    }

    /// Puts any request to the peer of a connection. It is passed by value: once its address is
    /// passed on, the compiler no longer knows anything about its fields. Cold, so that the code of
    /// `put` is contiguous; here it is only a jump.
    #[cold]
    #[inline(never)]
    fn put_apart(&mut self, request: SendRequest<'_>) -> Result<(), PostError> {
        if request.destination.is_some() {
            return Err(PostError::InvalidRequest);
        }
        self.put_behind(&request, &[])
    }

    /// Puts a datagram.
    #[inline]
    pub(crate) fn put_datagram(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let to = request.destination.ok_or(PostError::InvalidRequest)?;
        let key = wqe::ud_key(to.qkey);
        let number = to.checked_qp_num()?;
        self.put_behind(request, &wqe::datagram(to.address.vector(), key, number))
    }

    /// Puts a request after `route`, the segments with its destination: XRC and DC.
    pub(crate) fn put_routed(
        &mut self,
        request: &SendRequest<'_>,
        route: &[Unit],
    ) -> Result<(), PostError> {
        if request.destination.is_some() {
            return Err(PostError::InvalidRequest);
        }
        match request.operation {
            Operation::BindWindow(_) | Operation::LocalInvalidate(_) => {
                self.put_behind(request, &[])
            }
            _ => self.put_behind(request, route),
        }
    }

    /// Puts a request of a DC initiator into one of its several streams.
    #[inline(never)]
    pub(crate) fn put_in_stream(
        &mut self,
        request: &SendRequest<'_>,
        route: &[Unit],
        stream: u16,
    ) -> Result<(), PostError> {
        if request.destination.is_some() {
            return Err(PostError::InvalidRequest);
        }
        let route = match request.operation {
            Operation::BindWindow(_) | Operation::LocalInvalidate(_) => &[],
            _ => route,
        };
        let at = self.admit()?;
        let mut writer = self.writer(at);
        writer.units(route);
        let kind = request::operation(&mut writer, &self.limits, request)?;
        let kind = Kind {
            stream: wqe::stream_bits(stream),
            ..kind
        };
        let at = writer.at;
        self.commit(request.wr_id, request.flags, kind, at);
        Ok(())
    }

    #[inline(never)]
    fn put_behind(&mut self, request: &SendRequest<'_>, route: &[Unit]) -> Result<(), PostError> {
        let at = self.admit()?;
        let mut writer = self.writer(at);
        writer.units(route);
        let kind = request::operation(&mut writer, &self.limits, request)?;
        let at = writer.at;
        self.commit(request.wr_id, request.flags, kind, at);
        Ok(())
    }

    /// The unit after the control segment of the next request.
    ///
    /// # Errors
    /// The queue does not accept a request now.
    pub(crate) fn admit(&mut self) -> Result<u32, PostError> {
        // A child process has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.is_full() {
            self.make_room()?;
        }
        Ok(self.end.block.wrapping_mul(BLOCK_UNITS).wrapping_add(1))
    }

    /// Whether there is no room, as far as is known.
    #[inline]
    fn is_full(&self) -> bool {
        self.end.requests.wrapping_sub(self.tail) >= self.room
    }

    /// Checks for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), PostError> {
        if self.room == 0 {
            return Err(PostError::WrongState);
        }
        self.tail = self.tracker.sent_tail();
        if self.is_full() {
            return Err(PostError::QueueFull);
        }
        Ok(())
    }

    /// Writes from unit `at` on.
    #[inline]
    pub(crate) fn writer(&self, at: u32) -> Writer<'_> {
        Writer {
            ring: &self.ring,
            at,
        }
    }

    /// Ends the request that was written up to unit `at`.
    #[inline]
    pub(crate) fn commit(&mut self, wr_id: u64, flags: SendFlags, kind: Kind, at: u32) {
        let first = self.end.block.wrapping_mul(BLOCK_UNITS);
        let units = at.wrapping_sub(first);
        let blocks = units.div_ceil(BLOCK_UNITS);
        let (control, end) = self.note(self.end, units, blocks, wr_id, flags, kind);
        self.ring.put(first, control);
        self.end = end;
        self.last = control[0];
    }

    /// Records a request of `units` units in `blocks` blocks at `end`; returns its control segment,
    /// and the end after it.
    #[expect(
        clippy::inline_always,
        reason = "a call costs a third of it: what is known about the request is passed in memory"
    )]
    #[inline(always)]
    fn note(
        &self,
        end: End,
        units: u32,
        blocks: u32,
        wr_id: u64,
        flags: SendFlags,
        kind: Kind,
    ) -> (Unit, End) {
        let head = wqe::control_head(kind.opcode, end.block, self.queue, units);
        let flags = control::flags(flags, end.flags, self.always) | kind.stream;
        let tail = wqe::control_tail(flags, kind.immediate);
        let next = self.track(end, blocks, wr_id, kind.completion, kind.fence);
        ([head, tail], next)
    }

    /// Records a request of `blocks` blocks at `end` for its completion; returns the end after it.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn track(
        &self,
        end: End,
        blocks: u32,
        wr_id: u64,
        completion: impl Into<SentKind>,
        fence: u32,
    ) -> End {
        let requests = end.requests.wrapping_add(1);
        self.tracker
            .send
            .posted(end.block & self.mask, wr_id, requests, completion);
        End {
            block: end.block.wrapping_add(blocks),
            requests,
            flags: fence | self.always,
        }
    }
}

#[cfg(test)]
mod tests;
