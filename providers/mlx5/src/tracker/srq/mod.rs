//! A shared receive queue, whose requests complete in any order, for queue pairs that come and go.
//!
//! Requests are submitted in the order of a list, to which the posting thread has linked them. So a
//! request whose position is before the end of the submitted ones is under way or used up, and any
//! other is not: no completion belongs to it. A request is marked as used up by the thread that
//! polls its completion; of two, its bit in `free` shows which came second.

mod faults;
pub(crate) mod list;
pub(crate) mod reposts;
pub(crate) mod sizes;

use std::sync::{Arc, Weak};

use uverbs_core::contract::Link;
use uverbs_core::{Op, Result};

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use reposts::Reposts;

/// The position of a request that is not in the list: after all others.
pub(super) const RESTS: u64 = u64::MAX;

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct SrqTracker {
    /// The device's number of the queue; 0 as long as it has none.
    number: AtomicU32,
    pub(super) requests: Box<[Linked]>,
    /// The position in the list where the submitted requests end.
    submitted: AtomicU64,
    /// One bit per request that was used up and not yet linked again.
    pub(super) free: Box<[AtomicU64]>,
    /// One bit per request that was used up without a completion for the user, and not yet
    /// reported.
    unreported: Box<[AtomicU64]>,
    /// There may be such requests.
    any_unreported: AtomicBool,
    /// Where requests that met page faults are posted again. `None` if page faults cannot occur.
    pub(super) reposts: Option<Weak<Reposts>>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Linked {
    /// The number that it was last posted with.
    pub(super) wr_id: AtomicU64,
    /// Its last position in the list (free-running counter).
    pub(super) place: AtomicU64,
}

/// The word that contains a request's bit, and the bit.
#[inline]
pub(super) const fn bit(index: usize) -> (usize, u64) {
    (index / 64, 1 << (index % 64))
}

impl SrqTracker {
    /// The tracker of a shared receive queue that a queue pair is created with.
    pub(crate) fn of(op: Op, srq: Link<'_>) -> Result<Arc<Self>> {
        srq.shared(op).cloned()
    }

    /// The tracker of a queue of `count` requests, which are in the list in order.
    pub(crate) fn new(count: u32) -> Self {
        let words = || {
            let words = 0..count.div_ceil(64);
            words.map(|_| AtomicU64::new(0)).collect()
        };
        let linked = |place: u32| Linked {
            wr_id: AtomicU64::new(0),
            place: AtomicU64::new(place.into()),
        };
        Self {
            number: AtomicU32::new(0),
            requests: (0..count).map(linked).collect(),
            submitted: AtomicU64::new(0),
            free: words(),
            unreported: words(),
            any_unreported: AtomicBool::new(false),
            reposts: None,
        }
    }

    /// After the creation, which gave it this number of the device's.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Whether a receive that names `number` may have used up a request of this queue. A receive
    /// that names 0 gives no information.
    pub(crate) fn may_be(&self, number: u32) -> bool {
        let own = self.number.load(Ordering::Relaxed);
        number == 0 || own == 0 || number == own
    }

    /// Records the request at `index`. Called by the posting thread.
    #[inline]
    pub(crate) fn posted(&self, index: u32, wr_id: u64) {
        if let Some(request) = self.requests.get(index as usize) {
            request.wr_id.store(wr_id, Ordering::Relaxed);
        }
    }

    /// The position in the list up to which requests were submitted. Called by the posting thread.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Requests are submitted, up to this position in the list. Called by the posting thread.
    #[inline]
    pub(crate) fn submit(&self, end: u64) {
        self.submitted.store(end, Ordering::Relaxed);
    }

    /// The request at `index` is completed and may be reused. `None` if it is not under way.
    #[inline]
    pub(crate) fn completed(&self, index: u16) -> Option<u64> {
        let request = self.requests.get(usize::from(index))?;
        if request.place.load(Ordering::Relaxed) >= self.submitted.load(Ordering::Relaxed) {
            return None;
        }
        let wr_id = request.wr_id.load(Ordering::Relaxed);
        let (word, bit) = bit(index.into());
        // A thread that finds the bit set comes second.
        let before = self.free.get(word)?.fetch_or(bit, Ordering::Release);
        (before & bit == 0).then_some(wr_id)
    }

    /// The position in the list of the request at `index`. `None` if it is not under way.
    #[cold]
    pub(super) fn under_way(&self, index: u16) -> Option<u64> {
        let (word, bit) = bit(index.into());
        let place = self
            .requests
            .get(usize::from(index))?
            .place
            .load(Ordering::Relaxed);
        let handed_over = place < self.submitted.load(Ordering::Relaxed);
        let is_free = self.free.get(word)?.load(Ordering::Relaxed) & bit != 0;
        (handed_over && !is_free).then_some(place)
    }

    /// The request at `index` was used up, and no completion will report it. `None` if it is not
    /// under way.
    #[cold]
    pub(crate) fn used_up(&self, index: u16) -> Option<()> {
        self.under_way(index)?;
        let (word, bit) = bit(index.into());
        let free = self.free.get(word)?;
        // Before it is free: afterwards its `wr_id` may be that of another request.
        self.unreported.get(word)?.fetch_or(bit, Ordering::Relaxed);
        // Not a store, which models could not order with respect to what takes it back.
        self.any_unreported.swap(true, Ordering::Release);
        free.fetch_or(bit, Ordering::Release);
        Some(())
    }

    /// Takes the requests that were used up since the last call: calls `link` with their indexes,
    /// in order, which returns their new positions in the list, and before that `each` with the
    /// numbers of those that no completion reported. Called by the posting thread.
    #[inline]
    pub(crate) fn take_free(&self, mut link: impl FnMut(u32) -> u64, mut each: impl FnMut(u64)) {
        let (requests, submitted) = (&*self.requests, self.submitted());
        let words = self.free.iter().zip(&self.unreported);
        for (first, (free, unreported)) in (0_u32..).step_by(64).zip(words) {
            if free.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut taken = free.swap(0, Ordering::Acquire);
            if unreported.load(Ordering::Relaxed) & taken != 0 {
                let bits = unreported.fetch_and(!taken, Ordering::Relaxed) & taken;
                self.report(first, bits, &mut each);
            }
            while taken != 0 {
                let index = first + taken.trailing_zeros();
                taken &= taken - 1;
                // The others are in the list already: a device completed them nevertheless.
                if let Some(request) = requests.get(index as usize)
                    && request.place.load(Ordering::Relaxed) < submitted
                {
                    request.place.store(link(index), Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes the numbers of requests that were used up without a completion, except those that
    /// [`take_free`](Self::take_free) has reported. Called by the posting thread.
    pub(crate) fn take_unreported(&self, mut each: impl FnMut(u64)) {
        if !self.any_unreported.load(Ordering::Relaxed) {
            return;
        }
        // A request recorded from here on is seen now, or the next time.
        self.any_unreported.swap(false, Ordering::Acquire);
        for (first, unreported) in (0..).step_by(64).zip(&self.unreported) {
            let bits = unreported.swap(0, Ordering::Relaxed);
            self.report(first, bits, &mut each);
        }
    }

    /// Reports the numbers of the requests from `first` on whose bits are set. They remain valid
    /// until this thread posts again.
    #[cold]
    fn report(&self, first: u32, mut bits: u64, each: &mut impl FnMut(u64)) {
        while bits != 0 {
            let index = first + bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(request) = self.requests.get(index as usize) {
                each(request.wr_id.load(Ordering::Relaxed));
            }
        }
    }
}

#[cfg(test)]
impl SrqTracker {
    /// Posts the request at `index`, wherever it is in the list.
    pub(crate) fn post(&self, index: u32, wr_id: u64) {
        self.posted(index, wr_id);
        self.requests[index as usize]
            .place
            .store(0, Ordering::Relaxed);
        self.submit(1);
    }

    /// The free requests, and the numbers of unreported ones.
    pub(crate) fn taken(&self) -> (Vec<u32>, Vec<u64>) {
        let (mut free, mut unreported) = (Vec::new(), Vec::new());
        let link = |index| {
            free.push(index);
            1
        };
        self.take_free(link, |wr_id| unreported.push(wr_id));
        (free, unreported)
    }
}
