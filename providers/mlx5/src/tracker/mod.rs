//! The state that a queue shares with the completion queues that it reports to.
//!
//! A completion names its queue and a position in it. The posted request's data (its `wr_id`, and
//! how much of the queue it frees) is written by the posting thread and read by the polling one.
//! All of it is in atomic words, so neither side takes a lock; the device orders the two sides,
//! since it completes only what was posted.

mod life;
pub(crate) mod registration;
mod scatter;
pub(crate) mod srq;
pub(crate) mod table;

use std::sync::Arc;

use uverbs_core::types::WcOpcode;

use crate::cqe::Checksums;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use life::{Life, Run, Side};
pub(crate) use scatter::ScatterTracker;
pub(crate) use srq::SrqTracker;

/// A send queue.
#[derive(Debug)]
pub(crate) struct SendTracker {
    entries: SendEntries,
    /// A request may complete after others that were posted later.
    unordered: bool,
}

/// The requests of a send queue, each at the index of its first block. The posting side has a
/// handle of its own.
pub(crate) type SendEntries = Arc<[SendEntry]>;

/// A request of a send queue.
#[derive(Debug, Default)]
pub(crate) struct SendEntry {
    wr_id: AtomicU64,
    /// The number of requests posted, including this one << 32 | the kind of its completion.
    after_kind: AtomicU64,
}

/// The content of a send completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sent {
    pub(crate) wr_id: u64,
    pub(crate) kind: SentKind,
}

/// The kind of a send completion, by number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SentKind(u32);

impl SentKind {
    #[inline]
    pub(crate) const fn of(opcode: WcOpcode) -> Self {
        Self(opcode.raw())
    }

    /// The opcodes of send completions. There are no others.
    #[inline]
    pub(crate) const fn opcode(self) -> WcOpcode {
        match self.0 & 7 {
            0 => WcOpcode::Send,
            1 => WcOpcode::RdmaWrite,
            2 => WcOpcode::RdmaRead,
            3 => WcOpcode::CompareSwap,
            4 => WcOpcode::FetchAdd,
            5 => WcOpcode::BindMw,
            6 => WcOpcode::LocalInvalidate,
            _ => WcOpcode::Tso,
        }
    }
}

/// The second word of a [`SendEntry`].
#[inline]
const fn after_kind(after: u32, kind: u32) -> u64 {
    (after as u64) << 32 | kind as u64
}

impl SendEntry {
    /// Records the `after`-th request.
    #[inline]
    pub(crate) fn posted(&self, wr_id: u64, after: u32, kind: SentKind) {
        self.wr_id.store(wr_id, Ordering::Relaxed);
        (self.after_kind).store(after_kind(after, kind.0), Ordering::Relaxed);
    }

    /// The request that was recorded here was taken back. `tail` is the number completed at some
    /// time: completing the block again completes nothing.
    pub(crate) fn taken_back(&self, tail: u32) {
        (self.after_kind).store(after_kind(tail, 0), Ordering::Relaxed);
    }
}

impl SendTracker {
    /// The tracker of a queue of `blocks` (a power of two, or 0) blocks of 64 bytes.
    pub(crate) fn new(blocks: u32) -> Self {
        Self {
            entries: (0..blocks).map(|_| SendEntry::default()).collect(),
            unordered: false,
        }
    }

    /// Where its requests are recorded.
    pub(crate) fn entries(&self) -> &SendEntries {
        &self.entries
    }

    /// Records a request, as the posting side does.
    #[cfg(test)]
    pub(crate) fn posted(&self, index: u32, wr_id: u64, after: u32, opcode: WcOpcode) {
        if let Some(entry) = self.entries.get(index as usize) {
            entry.posted(wr_id, after, SentKind::of(opcode));
        }
    }

    /// Continues the completions of `run`.
    #[inline]
    fn run_from<'t>(&'t self, run: Run<'t>) -> SendRun<'t> {
        SendRun {
            not_tail: !run.tail,
            run,
            entries: &self.entries,
            unordered: self.unordered,
        }
    }
}

/// Send requests that complete one after another.
#[derive(Debug)]
pub(crate) struct SendRun<'t> {
    run: Run<'t>,
    /// The complement of the number of requests completed: the number posted plus this is the
    /// number in between, in one addition.
    not_tail: u32,
    entries: &'t [SendEntry],
    unordered: bool,
}

impl SendRun<'_> {
    /// The request that begins at block `counter`, and those before it, are completed. `None` if it
    /// is not under way.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    pub(crate) fn completed(&mut self, counter: u16) -> Option<Sent> {
        let mask = self.entries.len().wrapping_sub(1);
        let entry = self.entries.get(usize::from(counter) & mask)?;
        let wr_id = entry.wr_id.load(Ordering::Relaxed);
        let word = entry.after_kind.load(Ordering::Relaxed);
        let after = (word >> 32) as u32;
        // Fewer than the number of blocks, and more than zero: a request that was completed before
        // is behind, or far ahead.
        if after.wrapping_add(self.not_tail) as usize >= self.entries.len() {
            if !self.unordered {
                return None;
            }
        } else {
            self.not_tail = !after;
        }
        Some(Sent {
            wr_id,
            kind: SentKind(word as u32),
        })
    }

    /// See [`Run::end`].
    #[inline]
    #[must_use]
    pub(crate) fn end(mut self, first: u64) -> bool {
        self.run.tail = !self.not_tail;
        self.run.end(first)
    }
}

/// A receive queue, which completes in order.
#[derive(Debug)]
pub(crate) struct RecvTracker {
    wr_ids: RecvEntries,
}

/// The numbers of a receive queue's requests. The posting side has a handle of its own.
pub(crate) type RecvEntries = Arc<[AtomicU64]>;

impl RecvTracker {
    /// The tracker of a queue of `count` (a power of two) requests.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            wr_ids: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Where its requests are recorded.
    pub(crate) fn entries(&self) -> &RecvEntries {
        &self.wr_ids
    }

    /// Records a request, as the posting side does.
    #[cfg(test)]
    pub(crate) fn posted(&self, index: u32, wr_id: u64) {
        if let Some(entry) = self.wr_ids.get(index as usize) {
            entry.store(wr_id, Ordering::Relaxed);
        }
    }
}

/// Receive requests that complete one after another.
#[derive(Debug)]
pub(crate) struct RecvRun<'t> {
    run: Run<'t>,
    wr_ids: &'t [AtomicU64],
}

impl RecvRun<'_> {
    /// The oldest request is completed. The device's counter equals ours, which cannot be wrong.
    #[inline]
    pub(crate) fn completed(&mut self) -> Option<u64> {
        let mask = self.wr_ids.len().wrapping_sub(1);
        let at = self.run.tail as usize & mask;
        let wr_id = self.wr_ids.get(at)?.load(Ordering::Relaxed);
        self.run.tail = self.run.tail.wrapping_add(1);
        Some(wr_id)
    }

    /// See [`Run::end`].
    #[inline]
    #[must_use]
    pub(crate) fn end(self, first: u64) -> bool {
        self.run.end(first)
    }
}

/// The queue that a queue pair receives from.
#[derive(Debug)]
pub(crate) enum Receives {
    /// Its own queue.
    Own(RecvTracker),
    /// A shared queue.
    Shared(Arc<SrqTracker>),
    /// None.
    None,
}

/// The request that an entry of a completion queue completes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request<T> {
    /// This request.
    Of(T),
    /// A request of an earlier incarnation of its queue.
    Former,
    /// An impossible one.
    Unknown,
}

impl<T> Request<T> {
    #[inline]
    pub(crate) fn of(found: Option<T>) -> Self {
        found.map_or(Self::Unknown, Self::Of)
    }
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePairTracker {
    number: AtomicU32,
    /// Whether the device checks the checksums of received packets.
    checksums: Checksums,
    life: Life,
    pub(crate) send: SendTracker,
    sent: Side,
    pub(crate) recv: Receives,
    received: Side,
    /// For a queue pair whose small messages are delivered in completions.
    scatter: Option<Box<ScatterTracker>>,
}

impl QueuePairTracker {
    /// A queue pair with `blocks` blocks of send queue.
    pub(crate) fn new(blocks: u32, recv: Receives) -> Self {
        Self {
            number: AtomicU32::new(0),
            checksums: Checksums::MEANINGLESS,
            life: Life::default(),
            send: SendTracker::new(blocks),
            sent: Side::default(),
            recv,
            received: Side::default(),
            scatter: None,
        }
    }

    /// The same for a queue pair that receives small messages in completions.
    pub(crate) fn scattering(self, scatter: ScatterTracker) -> Self {
        Self {
            scatter: Some(Box::new(scatter)),
            ..self
        }
    }

    /// The destination of its small messages, if they are delivered in completions.
    pub(crate) fn scatter(&self) -> Option<&ScatterTracker> {
        self.scatter.as_deref()
    }

    /// The same with several streams of requests, which may overtake each other: a completion may
    /// belong to a request that already counts as completed.
    pub(crate) fn unordered(self) -> Self {
        let send = SendTracker {
            unordered: true,
            ..self.send
        };
        Self { send, ..self }
    }

    /// The same for an Ethernet queue, whose packets have checksums that the device verifies.
    pub(crate) fn checksummed(self) -> Self {
        Self {
            checksums: Checksums::CHECKED,
            ..self
        }
    }

    /// The checksum status in completions of its receives.
    #[inline]
    pub(crate) fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// The device's number of the queue pair.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Begins an incarnation, at its creation or a reset: completions before these indexes do not
    /// belong to it.
    ///
    /// Called by the posting thread. Another thread may be polling at that moment: its results for
    /// the old incarnation do not apply to the new one.
    pub(crate) fn restart(&self, send_since: u64, recv_since: u64) {
        let _nobody_copies = self.scatter().map(ScatterTracker::forget);
        self.life
            .next([(&self.sent, send_since), (&self.received, recv_since)]);
    }

    /// The number of completed send requests (free-running counter, per incarnation). What they
    /// occupied in the ring may be overwritten. Called by the posting thread.
    #[inline]
    pub(crate) fn sent_tail(&self) -> u32 {
        self.sent.tail(&self.life)
    }

    /// The same for its own receive requests.
    #[inline]
    pub(crate) fn received_tail(&self) -> u32 {
        self.received.tail(&self.life)
    }

    /// Begins a run of send completions. Called by the polling thread.
    #[inline]
    pub(crate) fn sends(&self) -> SendRun<'_> {
        self.send.run_from(self.sent.run(&self.life))
    }

    /// Begins a run of completions of its own receive queue. `None` if it has none. Called by the
    /// polling thread.
    #[inline]
    pub(crate) fn receives(&self) -> Option<RecvRun<'_>> {
        let Receives::Own(queue) = &self.recv else {
            return None;
        };
        Some(RecvRun {
            run: self.received.run(&self.life),
            wr_ids: &queue.wr_ids,
        })
    }

    /// The request that the entry `index` of its send completion queue completes, in the most
    /// frequent case: it belongs to this incarnation, is not the first of it, and was not overtaken
    /// by a request of another stream.
    #[inline]
    pub(crate) fn sent_in_order(&self, index: u64, counter: u16) -> Option<Sent> {
        let run = self.sent.go_on(&self.life)?;
        let mut run = SendRun {
            unordered: false,
            ..self.send.run_from(run)
        };
        let sent = run.completed(counter)?;
        run.end(index).then_some(sent)
    }

    /// The request that the entry `index` of its send completion queue completes.
    #[inline]
    pub(crate) fn sent(&self, index: u64, counter: u16) -> Request<Sent> {
        let mut run = self.sends();
        let found = run.completed(counter);
        if run.end(index) {
            Request::of(found)
        } else {
            Request::Former
        }
    }

    /// The request of a shared queue that the entry `index` of its receive completion queue
    /// completes, if it is of this incarnation and under way.
    #[inline(never)]
    pub(crate) fn received_shared(&self, index: u64, counter: u16) -> Option<u64> {
        match &self.recv {
            Receives::Shared(queue) if self.received.began_by(index) => queue.completed(counter),
            _ => None,
        }
    }

    /// The request that the entry `index` of its receive completion queue completes, which has this
    /// counter.
    #[inline]
    pub(crate) fn received(&self, index: u64, counter: u16) -> Request<u64> {
        if let Some(mut run) = self.receives() {
            let found = run.completed();
            return if run.end(index) {
                Request::of(found)
            } else {
                Request::Former
            };
        }
        let Receives::Shared(queue) = &self.recv else {
            return Request::Unknown;
        };
        if self.received.began_by(index) {
            return Request::of(queue.completed(counter));
        }
        // Its request goes back to the shared queue even if its completion is not taken by anyone.
        match queue.used_up(counter) {
            Some(()) => Request::Former,
            None => Request::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
