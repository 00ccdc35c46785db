//! Receives that met a page fault and are posted again.
//!
//! If the memory of a shared queue's receive is paged on demand and absent, a device uses the
//! receive up and writes an error entry for it. The sender retries, the kernel brings in the page,
//! and the user must not see any of it: the request goes back into the list. A poller detects this,
//! while another thread may be posting. So the list has a turn: the posting thread has it from its
//! first request to the doorbell record, otherwise a poller has it while it reposts. A poller marks
//! the requests that faulted; if another thread has the turn, that thread reposts them before it
//! releases the turn.
//!
//! While the kernel brings in pages it reads the request, in its old slot. So that slot rests for
//! as long as possible: for each slot that begins to rest, the one that has rested longest returns
//! to the list.
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

/// Bits of the turn: a thread has it.
const TAKEN: u32 = 1;
/// Bits of the turn: a request was marked since the thread with the turn last checked.
const MARKED: u32 = 2;

/// A position that does not exist.
const NOWHERE: u64 = u64::MAX;

/// The state shared by threads that post requests to a list.
#[derive(Debug)]
pub(crate) struct Reposts {
    turn: AtomicU32,
    /// Requests submitted (free-running counter). For the thread with the turn, as are all fields
    /// down to `next_spare`.
    end: AtomicU64,
    /// Requests linked.
    linked: AtomicU64,
    list: List,
    /// A ring of requests at rest. The one at `next_spare` has rested longest.
    spare: Box<[AtomicU16]>,
    next_spare: AtomicU32,
    /// The position in the list at which each request faulted, if it has and was not reposted.
    marks: Box<[AtomicU64]>,
    /// One bit per marked request.
    marked: Box<[AtomicU64]>,
    ring: UnitRing,
    shift: u32,
    fork: ForkToken,
    record: Arc<Record>,
    /// The observer of reposted requests.
    #[cfg(feature = "rings")]
    watched: OnceLock<Watched>,
}

impl Reposts {
    /// The state of a queue to which nothing was posted. `list` contains all requests in order; the
    /// last ones are at rest.
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

    /// Reports what is reposted from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watch(&self, queue: &Watched) {
        self.watched.get_or_init(|| queue.clone());
    }

    /// Takes the turn: returns how far the list was followed, and linked. For the posting thread,
    /// which waits while a poller reposts.
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

    /// Releases the turn, with the new ends of submitted and linked requests. For the posting
    /// thread.
    pub(crate) fn leave(&self, tracker: &SrqTracker, end: u64, linked: u64) {
        self.end.store(end, Ordering::Relaxed);
        self.linked.store(linked, Ordering::Relaxed);
        self.let_go(tracker);
    }

    /// The request at `index`, which was submitted at this position of the list, has faulted: it is
    /// reposted now, or by the thread with the turn. `None` if it was already marked, and was not
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

    /// Releases the turn once nothing is marked.
    fn let_go(&self, tracker: &SrqTracker) {
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        while self.turn.compare_exchange(TAKEN, 0, from, to).is_err() {
            self.turn.fetch_and(!MARKED, Ordering::Acquire);
            self.repost(tracker);
        }
    }

    /// Reposts the marked requests. For the thread with the turn, which must have submitted
    /// everything that it has put.
    #[cold]
    fn repost(&self, tracker: &SrqTracker) {
        // A child process has no mapping of the ring.
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
            tracker.submit(end);
            barrier::to_device();
            self.record.store(RECORD, end as u32 & 0xffff);
        }
    }

    /// Links the request that has rested longest, and puts the one at `index` to rest in its place.
    ///
    /// So the list stays one longer than what was posted: its last request remains empty.
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

    /// Copies the scatter/gather entries of a request, which follow its link.
    fn copy(&self, from: u32, to: u32) {
        for unit in 1..1 << self.shift {
            let words = self.ring.get(from << self.shift | unit);
            self.ring.put(to << self.shift | unit, words);
        }
    }
}

#[cfg(test)]
impl Reposts {
    /// How far the list was followed and linked, and the requests at rest.
    pub(crate) fn look(&self) -> (u64, u64, Vec<u32>) {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let resting = self
            .spare
            .iter()
            .map(|spare| spare.load(Ordering::Relaxed).into());
        (load(&self.end), load(&self.linked), resting.collect())
    }
}
