//! Receives that met a page that was not there, and are posted once more.
//!
//! A device uses up a receive of a shared queue whose memory is on-demand and absent, and writes an
//! error for it. The sender tries again, the kernel brings the page, and nobody is to be told: the
//! request goes back into the list. That is found out by a poller, while another thread posts. So
//! the list has a turn: of the poster from its first request to the doorbell record, else of a
//! poller for as long as it reposts. A poller marks what faulted, and if somebody else has the
//! turn, he reposts it before he lets go.
//!
//! While the kernel brings pages it reads the request, in its old place. So that rests as long as
//! can be: places that rest come back into the list one for each that begins to.
#![expect(
    clippy::cast_possible_truncation,
    reason = "indexes have 16 bits, as links have"
)]

use std::sync::Arc;
#[cfg(feature = "rings")]
use std::sync::OnceLock;

use uverbs_core::hw::{Record, UnitRing};
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;

use super::SrqTracker;
use super::list::{List, RECORD, link};
use super::sizes::Sizes;
use crate::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::{barrier, pause};

/// Bits of the turn: somebody has it.
const TAKEN: u32 = 1;
/// Bits of the turn: something was marked since who has it looked.
const MARKED: u32 = 2;

/// A place that there is not.
const NOWHERE: u64 = u64::MAX;

/// What threads share that post requests to a list.
#[derive(Debug)]
pub(crate) struct Reposts {
    turn: AtomicU32,
    /// Requests that were handed over, counted on and on. For who has the turn, as all down to
    /// `next_spare`.
    end: AtomicU64,
    /// Requests that were linked.
    linked: AtomicU64,
    list: List,
    /// A ring of requests that rest. Those at `next_spare` have done so for the longest time.
    spare: Box<[AtomicU16]>,
    next_spare: AtomicU32,
    /// Where in the list each request was when it faulted, if it has and was not reposted.
    marks: Box<[AtomicU64]>,
    /// One bit per request that has a mark.
    marked: Box<[AtomicU64]>,
    ring: UnitRing,
    shift: u32,
    fork: ForkToken,
    record: Arc<Record>,
    /// Whoever is told what is reposted.
    #[cfg(feature = "rings")]
    watched: OnceLock<Watched>,
}

impl Reposts {
    /// Of a queue that was not posted to. `list` has all requests in order; those that rest are its
    /// last ones.
    pub(crate) fn new(
        ring: UnitRing,
        sizes: Sizes,
        list: &List,
        fork: ForkToken,
        record: &Arc<Record>,
    ) -> Self {
        let marks = |count: u32| (0..count).map(|_| AtomicU64::new(NOWHERE)).collect();
        let words = |count: u32| (0..count).map(|_| AtomicU64::new(0)).collect();
        let spare = sizes.listed()..sizes.count;
        Self {
            turn: AtomicU32::new(0),
            end: AtomicU64::new(0),
            linked: AtomicU64::new(sizes.listed().into()),
            list: list.clone(),
            spare: spare.map(|index| AtomicU16::new(index as u16)).collect(),
            next_spare: AtomicU32::new(0),
            marks: marks(sizes.count),
            marked: words(sizes.count.div_ceil(64)),
            ring,
            shift: sizes.shift,
            fork,
            record: Arc::clone(record),
            #[cfg(feature = "rings")]
            watched: OnceLock::new(),
        }
    }

    /// Tells of what is reposted from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watch(&self, queue: &Watched) {
        self.watched.get_or_init(|| queue.clone());
    }

    /// Takes the turn: how far the list was followed, and linked. For the thread that posts, which
    /// waits while a poller reposts.
    #[cold]
    pub(crate) fn enter(&self) -> (u64, u64) {
        let mut times = 0_u32;
        while self.turn.fetch_or(TAKEN, Ordering::Acquire) & TAKEN != 0 {
            pause(times);
            times = times.saturating_add(1);
        }
        let end = self.end.load(Ordering::Relaxed);
        (end, self.linked.load(Ordering::Relaxed))
    }

    /// Lets the turn go, behind what was handed over and linked. For the thread that posts.
    pub(crate) fn leave(&self, tracker: &SrqTracker, end: u64, linked: u64) {
        self.end.store(end, Ordering::Relaxed);
        self.linked.store(linked, Ordering::Relaxed);
        self.let_go(tracker);
    }

    /// The request at `index`, which was handed over at this place of the list, has faulted: it is
    /// reposted now, or by whoever has the turn. `None` if it was marked before, and was not
    /// reposted.
    pub(crate) fn fault(&self, tracker: &SrqTracker, index: u16, place: u64) -> Option<()> {
        let index = usize::from(index);
        let (mark, word) = (self.marks.get(index)?, self.marked.get(index / 64)?);
        mark.compare_exchange(NOWHERE, place, Ordering::Release, Ordering::Relaxed)
            .ok()?;
        word.fetch_or(1 << (index % 64), Ordering::Release);
        if self.turn.fetch_or(TAKEN | MARKED, Ordering::AcqRel) & TAKEN == 0 {
            self.let_go(tracker);
        }
        Some(())
    }

    /// Lets the turn go when nothing is marked.
    fn let_go(&self, tracker: &SrqTracker) {
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        while self.turn.compare_exchange(TAKEN, 0, from, to).is_err() {
            self.turn.fetch_and(!MARKED, Ordering::Acquire);
            self.repost(tracker);
        }
    }

    /// Reposts what is marked. For who has the turn, and has put nothing that was not handed over.
    #[cold]
    fn repost(&self, tracker: &SrqTracker) {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return;
        }
        let before = self.end.load(Ordering::Relaxed);
        let mut end = before;
        for (first, word) in (0_u32..).step_by(64).zip(&self.marked) {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                let index = first + bits.trailing_zeros();
                bits &= bits - 1;
                let Some(mark) = self.marks.get(index as usize) else {
                    continue;
                };
                let place = mark.swap(NOWHERE, Ordering::Acquire);
                if let Some(wr_id) = tracker.take_back(index, place) {
                    self.exchange(tracker, index);
                    self.copy(index, self.list.at(end));
                    tracker.posted(self.list.at(end), wr_id);
                    end += 1;
                }
            }
        }
        if end != before {
            #[cfg(feature = "rings")]
            if let Some(queue) = self.watched.get() {
                let indexes = (before..end).map(|place| self.list.at(place));
                crate::rings::receives(queue, &self.ring, self.shift, true, indexes);
            }
            self.end.store(end, Ordering::Relaxed);
            tracker.ring(end);
            barrier::to_device();
            self.record.store(RECORD, end as u32 & 0xffff);
        }
    }

    /// Links the request that has rested for the longest time, the one at `index` in its stead.
    ///
    /// So the list is by one longer than what was posted, as it was: its last request stays empty.
    fn exchange(&self, tracker: &SrqTracker, index: u32) {
        let next = self.next_spare.load(Ordering::Relaxed) as usize;
        let linked = self.linked.load(Ordering::Relaxed);
        let mut spare = index;
        if let Some(slot) = self.spare.get(next) {
            spare = slot.load(Ordering::Relaxed).into();
            slot.store(index as u16, Ordering::Relaxed);
            let next = (next + 1) % self.spare.len();
            self.next_spare.store(next as u32, Ordering::Relaxed);
        }
        self.list.set(linked, spare);
        let last = self.list.at(linked.wrapping_sub(1));
        link(&self.ring, self.shift, last, spare);
        tracker.link(spare, linked);
        self.linked.store(linked + 1, Ordering::Relaxed);
    }

    /// Copies the pieces of a request, which are behind its link.
    fn copy(&self, from: u32, to: u32) {
        for unit in 1..1 << self.shift {
            let piece = self.ring.get(from << self.shift | unit);
            self.ring.put(to << self.shift | unit, piece);
        }
    }
}

#[cfg(test)]
impl Reposts {
    /// How far the list was followed and linked, and what rests.
    pub(crate) fn look(&self) -> (u64, u64, Vec<u32>) {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let resting = self
            .spare
            .iter()
            .map(|spare| spare.load(Ordering::Relaxed).into());
        (load(&self.end), load(&self.linked), resting.collect())
    }
}
