//! What a queue shares with the completion queues that report on it.
//!
//! A completion names its queue and a position in it. What was posted there (the user's number, and how much of
//! the queue it frees) is written by the thread that posts and read by the one that polls. All of it is atomic
//! words, so neither side takes a lock; what orders the two is the device, which completes only what was posted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use uverbs_driver::types::WcOpcode;

/// A send queue.
#[derive(Debug)]
pub(crate) struct SendTracker {
    entries: Box<[SendEntry]>,
    /// Requests completed, counted on and on.
    tail: AtomicU32,
    /// Some may be completed after others that were posted later.
    unordered: bool,
}

/// A request, at the index of its first block.
#[derive(Debug, Default)]
struct SendEntry {
    wr_id: AtomicU64,
    /// Requests posted up to and with this one.
    after: AtomicU32,
    /// What kind of completion it has.
    kind: AtomicU32,
}

/// What a completion of a send queue stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sent {
    pub(crate) wr_id: u64,
    pub(crate) opcode: WcOpcode,
}

/// What send queues complete, by number. These are all there are.
#[inline]
const fn opcode_of(kind: u32) -> WcOpcode {
    match kind & 7 {
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

impl SendTracker {
    /// For a queue of `blocks` (a power of two, or 0) blocks of 64 bytes.
    pub(crate) fn new(blocks: u32) -> Self {
        Self {
            entries: (0..blocks).map(|_| SendEntry::default()).collect(),
            tail: AtomicU32::new(0),
            unordered: false,
        }
    }

    /// Notes the request that begins at block `index`: the `after`-th one.
    #[inline]
    pub(crate) fn posted(&self, index: u32, wr_id: u64, after: u32, opcode: WcOpcode) {
        if let Some(entry) = self.entries.get(index as usize) {
            entry.wr_id.store(wr_id, Ordering::Relaxed);
            entry.after.store(after, Ordering::Relaxed);
            entry.kind.store(opcode.raw(), Ordering::Relaxed);
        }
    }

    /// Requests completed, counted on and on. What they freed may be written to.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.tail.load(Ordering::Acquire)
    }

    /// The request that begins at block `counter`, and those before it, are completed. `None` for one that is not under way.
    #[inline]
    pub(crate) fn completed(&self, counter: u16) -> Option<Sent> {
        let mask = self.entries.len().wrapping_sub(1);
        let entry = self.entries.get(usize::from(counter) & mask)?;
        let wr_id = entry.wr_id.load(Ordering::Relaxed);
        let after = entry.after.load(Ordering::Relaxed);
        // Less than the blocks that there are, and more than none: what was completed before is behind, or far ahead.
        let completes = after.wrapping_sub(self.tail.load(Ordering::Relaxed));
        if completes.wrapping_sub(1) as usize >= self.entries.len() {
            if !self.unordered {
                return None;
            }
        } else {
            self.tail.store(after, Ordering::Release);
        }
        Some(Sent {
            wr_id,
            opcode: opcode_of(entry.kind.load(Ordering::Relaxed)),
        })
    }

    /// What was noted at block `index` was taken back. `tail` is what [`tail`](Self::tail) said at some time: completing it again
    /// completes nothing.
    pub(crate) fn taken_back(&self, index: u32, tail: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            entry.after.store(tail, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        self.tail.store(0, Ordering::Release);
    }
}

/// A receive queue, which completes in order.
#[derive(Debug)]
pub(crate) struct RecvTracker {
    wr_ids: Box<[AtomicU64]>,
    tail: AtomicU32,
}

impl RecvTracker {
    /// For a queue of `count` (a power of two) requests.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            wr_ids: (0..count).map(|_| AtomicU64::new(0)).collect(),
            tail: AtomicU32::new(0),
        }
    }

    /// Notes the request at `index`.
    #[inline]
    pub(crate) fn posted(&self, index: u32, wr_id: u64) {
        if let Some(slot) = self.wr_ids.get(index as usize) {
            slot.store(wr_id, Ordering::Relaxed);
        }
    }

    /// Requests completed, counted on and on.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.tail.load(Ordering::Acquire)
    }

    /// The oldest request is completed. The device's counter says the same as ours, and ours cannot be wrong.
    #[inline]
    pub(crate) fn completed(&self) -> Option<u64> {
        let tail = self.tail.load(Ordering::Relaxed);
        let mask = self.wr_ids.len().wrapping_sub(1);
        let wr_id = self
            .wr_ids
            .get(tail as usize & mask)?
            .load(Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(wr_id)
    }

    fn reset(&self) {
        self.tail.store(0, Ordering::Release);
    }
}

/// A shared receive queue, whose requests complete in any order.
#[derive(Debug)]
pub(crate) struct SrqTracker {
    wr_ids: Box<[AtomicU64]>,
    /// One bit per request that was completed and not yet taken back.
    free: Box<[AtomicU64]>,
}

impl SrqTracker {
    /// For a queue of `count` requests.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            wr_ids: (0..count).map(|_| AtomicU64::new(0)).collect(),
            free: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes the request at `index`.
    #[inline]
    pub(crate) fn posted(&self, index: u32, wr_id: u64) {
        if let Some(slot) = self.wr_ids.get(index as usize) {
            slot.store(wr_id, Ordering::Relaxed);
        }
    }

    /// The request at `index` is completed and may be used again. `None` for an index that the queue does not have.
    #[inline]
    pub(crate) fn completed(&self, index: u16) -> Option<u64> {
        let at = usize::from(index);
        let wr_id = self.wr_ids.get(at)?.load(Ordering::Relaxed);
        self.free
            .get(at / 64)?
            .fetch_or(1 << (at % 64), Ordering::Release);
        Some(wr_id)
    }

    /// Takes the requests that were completed since: calls `each` with their indexes, in order.
    #[inline]
    pub(crate) fn take_free(&self, mut each: impl FnMut(u32)) {
        for (word, bits) in (0_u32..).step_by(64).zip(&self.free) {
            if bits.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut taken = bits.swap(0, Ordering::Acquire);
            while taken != 0 {
                each(word + taken.trailing_zeros());
                taken &= taken - 1;
            }
        }
    }
}

/// Where a queue pair receives from.
#[derive(Debug)]
pub(crate) enum Receives {
    /// Its own queue.
    Own(RecvTracker),
    /// A shared one.
    Shared(Arc<SrqTracker>),
    /// Nowhere.
    None,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePairTracker {
    number: AtomicU32,
    pub(crate) send: SendTracker,
    pub(crate) recv: Receives,
    /// The first entries of its completion queues that belong to this life of the queue pair.
    send_since: AtomicU64,
    recv_since: AtomicU64,
}

impl QueuePairTracker {
    /// A queue pair with `blocks` blocks of send queue.
    pub(crate) fn new(blocks: u32, recv: Receives) -> Self {
        Self {
            number: AtomicU32::new(0),
            send: SendTracker::new(blocks),
            recv,
            send_since: AtomicU64::new(0),
            recv_since: AtomicU64::new(0),
        }
    }

    /// The same with several streams of requests, which overtake each other: a completion may be of one that counts as completed.
    pub(crate) fn unordered(self) -> Self {
        let send = SendTracker {
            unordered: true,
            ..self.send
        };
        Self { send, ..self }
    }

    /// The device's number for it.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// A life begins, at its creation or a reset: completions before these indexes are not about it.
    pub(crate) fn restart(&self, send_since: u64, recv_since: u64) {
        self.send.reset();
        if let Receives::Own(recv) = &self.recv {
            recv.reset();
        }
        self.send_since.store(send_since, Ordering::Release);
        self.recv_since.store(recv_since, Ordering::Release);
    }

    /// Whether the entry `index` of its send completion queue is about this life.
    #[inline]
    pub(crate) fn sent_in_this_life(&self, index: u64) -> bool {
        index >= self.send_since.load(Ordering::Acquire)
    }

    /// The same for its receive completion queue.
    #[inline]
    pub(crate) fn received_in_this_life(&self, index: u64) -> bool {
        index >= self.recv_since.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_frees_what_was_posted_before_it() {
        let tracker = SendTracker::new(8);
        tracker.posted(0, 10, 1, WcOpcode::Send);
        tracker.posted(1, 11, 2, WcOpcode::RdmaWrite);
        tracker.posted(5, 12, 3, WcOpcode::RdmaRead);
        let sent = tracker.completed(8 + 5).unwrap();
        assert_eq!((sent.wr_id, sent.opcode), (12, WcOpcode::RdmaRead));
        assert_eq!(tracker.tail(), 3);
        assert_eq!(SendTracker::new(0).completed(3), None);
    }

    #[test]
    fn what_is_not_under_way_completes_nothing() {
        let tracker = SendTracker::new(4);
        assert_eq!(tracker.completed(0), None, "nothing was posted");
        for index in 0..4 {
            let after = (u32::MAX - 1).wrapping_add(index);
            tracker.posted(index, index.into(), after, WcOpcode::Send);
        }
        tracker.tail.store(u32::MAX - 2, Ordering::Relaxed);
        assert_eq!(tracker.completed(1).map(|sent| sent.wr_id), Some(1));
        assert_eq!(tracker.completed(1), None, "it is done");
        assert_eq!(tracker.completed(0), None, "with what was before it");
        tracker.taken_back(3, u32::MAX - 2);
        assert_eq!(tracker.completed(3), None, "it never was");
        assert_eq!(tracker.completed(2).map(|sent| sent.wr_id), Some(2));
        assert_eq!(tracker.tail(), 0);
    }

    #[test]
    fn streams_may_overtake_each_other() {
        let tracker = QueuePairTracker::new(4, Receives::None).unordered().send;
        tracker.posted(0, 10, 1, WcOpcode::Send);
        tracker.posted(1, 11, 2, WcOpcode::RdmaRead);
        for index in [1, 0] {
            let sent = tracker.completed(index).unwrap();
            assert_eq!((sent.wr_id, tracker.tail()), (10 + u64::from(index), 2));
        }
    }

    #[test]
    fn receives_complete_in_order() {
        let tracker = RecvTracker::new(2);
        tracker.posted(0, 7);
        tracker.posted(1, 8);
        assert_eq!(tracker.completed(), Some(7));
        tracker.posted(0, 9);
        assert_eq!(tracker.completed(), Some(8));
        assert_eq!(tracker.completed(), Some(9));
        assert_eq!(tracker.tail(), 3);
    }

    #[test]
    fn shared_receives_come_back_in_any_order() {
        let tracker = SrqTracker::new(70);
        tracker.posted(69, 1);
        tracker.posted(3, 2);
        assert_eq!(tracker.completed(69), Some(1));
        assert_eq!(tracker.completed(3), Some(2));
        assert_eq!(tracker.completed(70), None);
        let mut free = Vec::new();
        tracker.take_free(|index| free.push(index));
        tracker.take_free(|index| free.push(index));
        assert_eq!(free, [3, 69]);
    }

    #[test]
    fn lives_are_told_apart() {
        let tracker = QueuePairTracker::new(4, Receives::None);
        tracker.send.posted(0, 1, 1, WcOpcode::Send);
        tracker.send.completed(0);
        tracker.restart(5, 9);
        assert_eq!(tracker.send.tail(), 0);
        assert!(!tracker.sent_in_this_life(4) && tracker.sent_in_this_life(5));
        assert!(!tracker.received_in_this_life(8) && tracker.received_in_this_life(9));
    }
}
