//! The send ring of a queue pair: this side writes requests, the doorbell submits them.
//!
//! Requests are put one after another in blocks of 64 bytes. They have no effect until the doorbell
//! record includes them; taking them back means restoring the former end.

mod batch;
mod cancel;
mod composed;
mod datagram;
mod keys;
mod place;
mod post;
pub(crate) mod raw;
mod shape;
mod template;
mod usual;

use std::sync::Arc;

use uverbs_core::PostError;
use uverbs_core::hw::{BlockRing, BlockTable, Record};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::{Operation, QpType, SendFlags, SendRequest};

use crate::doorbell::Doorbell;
#[cfg(feature = "rings")]
use crate::rings::{Route, Sends};
use crate::tracker::{Number, QueuePairTracker, SendEntry, SentKind};
use crate::wqe::operations::Operations;
use crate::wqe::request::{self, Kind, Limits, Writer};
use crate::wqe::sizes;
use crate::wqe::{self, BLOCK_UNITS, Unit, control};

pub use batch::{SendBatch, Sender};
pub(crate) use post::UsualSend;
pub use template::Prepared;

/// The word of a doorbell record that send queues use.
const SEND_RECORD: usize = 1;

/// A send ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    /// Where requests are written, and where the tracker looks for them.
    blocks: BlockTable<SendEntry>,
    /// The end of what was written.
    end: End,
    /// The part before the end that the device may not read yet.
    pending: Pending,
    /// The first word of the last request that was put, for the doorbell.
    last: u64,
    /// The end after the last request that was put apart for a batch, and that request's first
    /// word; until there is one, with the flags of where the batch began.
    aside: (End, u64),
    /// The number of the last completed request, when last checked.
    tail: Number,
    limits: Limits,
    /// The operations that take a scatter/gather entry.
    gathered: Operations,
    common: Common,
    /// Control flags of every request.
    always: u32,
    /// The number of requests that can be outstanding; 0 while the queue pair accepts none.
    room: u32,
    /// The same of requests to the peer of a connection: 0, too, where those are not usual.
    usual_room: u32,
    /// Up to which number requests to the peer of a connection can be outstanding; 0 while
    /// something special is required of the next one.
    usual_end: Number,
    /// Its requests are datagrams.
    datagrams: bool,
    /// Its requests are to the peer of a connection, and may be any [basic](Operations::BASIC)
    /// operation on one entry.
    has_usual: bool,
    max_requests: u32,
    fork: ForkToken,
    tracker: Arc<QueuePairTracker>,
    record: Arc<Record>,
    doorbell: Doorbell,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Box<Sends>>,
}

/// What the control segments of a ring's requests have in common.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// The number of the queue pair.
    queue: u64,
    /// The last word, with the flags of every request.
    tail: u64,
}

/// A position in the ring.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The next block (free-running counter).
    block: u32,
    /// The number of the request before it.
    requests: Number,
    /// Control flags of the next request, unless it has a full fence: those of every request, and
    /// those that the previous request requires.
    flags: u32,
}

impl End {
    /// Before the first request of an incarnation, which follows number `base`.
    const fn new(flags: u32, base: Number) -> Self {
        Self {
            block: 0,
            requests: base,
            flags,
        }
    }
}

/// What was written and not submitted.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Requests << 16 | blocks: one word, so that one more request is one addition. There are no
    /// more of either than [`MAX_BLOCKS`](sizes::MAX_BLOCKS).
    counts: u32,
    /// The flags of the [`End`] before it.
    flags: u32,
}

impl Pending {
    /// Nothing, after a request that requires `flags` of the next one.
    const fn new(flags: u32) -> Self {
        Self { counts: 0, flags }
    }

    /// One more request, of `blocks` blocks.
    #[inline]
    fn add(&mut self, blocks: u32) {
        self.counts = self.counts.wrapping_add(1 << 16 | blocks);
    }

    #[inline]
    const fn blocks(self) -> u32 {
        self.counts & 0xffff
    }

    #[inline]
    const fn requests(self) -> u32 {
        self.counts >> 16
    }

    #[inline]
    const fn is_empty(self) -> bool {
        self.counts == 0
    }

    /// It is one request.
    #[inline]
    const fn is_one(self) -> bool {
        self.requests() == 1
    }
}

/// The parts of a send ring.
pub(crate) struct Parts {
    pub(crate) ring: BlockRing,
    pub(crate) sizes: sizes::Send,
    pub(crate) operations: Operations,
    pub(crate) qpn: u32,
    pub(crate) signal_all: bool,
    pub(crate) kind: QpType,
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
        let base = parts.tracker.send.base();
        Self {
            end: End::new(always, base),
            pending: Pending::new(always),
            common: Common {
                queue: wqe::queue_word(parts.qpn),
                tail: wqe::control_tail(always, 0),
            },
            always,
            last: 0,
            aside: (End::new(always, base), 0),
            tail: base,
            limits: Limits {
                max_sge: parts.sizes.usable_sge,
                max_inline: parts.sizes.usable_inline,
                operations: parts.operations,
                qpn: parts.qpn,
            },
            room: 0,
            usual_room: 0,
            usual_end: Number::default(),
            datagrams: parts.kind == QpType::Ud,
            has_usual: matches!(parts.kind, QpType::Rc | QpType::Uc)
                && parts.sizes.usable_sge != 0
                && parts.operations.contains(Operations::BASIC),
            gathered: if parts.sizes.usable_sge == 0 {
                Operations::empty()
            } else {
                parts.operations
            },
            max_requests: parts.sizes.max_post,
            blocks: BlockTable::new(parts.ring, parts.tracker.send.entries().clone()),
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
        self.usual_room = if self.has_usual { self.room } else { 0 };
        self.set_usual_end();
    }

    /// After the room changed, or what is required of the next request.
    #[inline]
    fn set_usual_end(&mut self) {
        self.usual_end = self.usual_end_with(self.end.flags);
    }

    /// The same where `flags` are required of the next one.
    #[inline]
    fn usual_end_with(&self, flags: u32) -> Number {
        // Without usual room there is none after the tail either.
        if flags == self.always {
            self.tail.after(self.usual_room.into())
        } else {
            Number::default()
        }
    }

    /// Starts over after the queue pair was reset.
    pub(crate) fn reset(&mut self) {
        let base = self.tracker.send.base();
        self.end = End::new(self.always, base);
        self.pending = Pending::new(self.always);
        self.tail = base;
        self.set_usual_end();
        self.record.store(SEND_RECORD, 0);
    }

    /// The contents of the ring.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        crate::tests::bytes_of(self.blocks.ring())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
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

    /// Puts any request that a typed end takes.
    fn put_any(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if self.datagrams {
            self.put_datagram(request)
        } else {
            self.put_apart(*request)
        }
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
        self.end.requests.since(self.tail) >= self.room.into()
    }

    /// Checks for requests that were completed meanwhile.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), PostError> {
        if self.room == 0 {
            return Err(PostError::WrongState);
        }
        self.look_for_room(self.end.flags);
        if self.is_full() {
            return Err(PostError::QueueFull);
        }
        Ok(())
    }

    /// Writes from unit `at` on.
    #[inline]
    pub(crate) fn writer(&self, at: u32) -> Writer<'_> {
        Writer {
            ring: self.blocks.ring(),
            at,
        }
    }

    /// Ends the request that was written up to unit `at`.
    #[inline]
    pub(crate) fn commit(&mut self, wr_id: u64, flags: SendFlags, kind: Kind, at: u32) {
        let completion = SentKind::of(kind.completion);
        self.commit_as(wr_id, flags, kind, at, completion);
    }

    /// The same with a kind of completion of the vendor's.
    #[inline]
    pub(crate) fn commit_as(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        kind: Kind,
        at: u32,
        completion: SentKind,
    ) {
        self.commit_always(wr_id, flags, kind, at, completion, self.always);
    }

    /// The same of a request that completes only if it fails, even where each one completes.
    fn commit_silently(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        kind: Kind,
        at: u32,
        completion: SentKind,
    ) {
        self.end.flags &= !control::SIGNALED;
        self.commit_always(wr_id, flags, kind, at, completion, 0);
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn commit_always(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        kind: Kind,
        at: u32,
        completion: SentKind,
        always: u32,
    ) {
        let End {
            block,
            requests,
            flags: required,
        } = self.end;
        let first = block.wrapping_mul(BLOCK_UNITS);
        let units = at.wrapping_sub(first);
        let blocks = units.div_ceil(BLOCK_UNITS);
        let head = wqe::control_head(kind.opcode, block, self.common.queue, units);
        let flags = control::flags(flags, required, always) | kind.stream;
        let tail = wqe::control_tail(flags, kind.immediate);
        let entry = self.blocks.value(block);
        entry.posted(wr_id, requests.after(1), completion);
        self.blocks.ring().put(first, [head, tail]);
        self.end.flags = kind.fence | self.always;
        self.set_usual_end();
        self.go_on(blocks, head);
    }

    /// One more request of `blocks` blocks was written, which starts with the word `head`.
    #[inline]
    fn go_on(&mut self, blocks: u32, head: u64) {
        self.end.block = self.end.block.wrapping_add(blocks);
        self.end.requests = self.end.requests.after(1);
        self.pending.add(blocks);
        self.last = head;
    }
}

#[cfg(test)]
mod tests;
