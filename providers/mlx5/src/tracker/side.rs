//! How far one side of a queue pair has come, its sends or its receives, and where its incarnation
//! begins: with the creation, or a reset.
//!
//! Requests are counted through all incarnations. A reset goes on with a count that no request of
//! the former incarnation can have: what a thread that polls at that moment records for it lies
//! before the start of the new one, and does not affect that.
//!
//! A poller checks last, after everything that it read for an entry, whether the entry belongs to
//! the current incarnation. The thread that resets says so before it posts again: a poller that saw
//! a new request in the slot of an old one also sees that its entry is an old one.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// The side of a queue pair that reports to one completion queue.
///
/// Counts are in the unit of the side, which only has to grow.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The first entry of the completion queue that belongs to this incarnation.
    since: AtomicU64,
    /// The count with which it begins.
    base: AtomicU64,
    /// The count of what was completed. Below `base`: nothing of this incarnation.
    progress: AtomicU64,
}

/// No entry has this position.
const NEVER: u64 = u64::MAX;

impl Side {
    /// The side of a queue without requests, whose count begins with `base`.
    pub(super) fn new(base: u64) -> Self {
        Self {
            since: AtomicU64::new(0),
            base: AtomicU64::new(base),
            progress: AtomicU64::new(base),
        }
    }

    /// Begins the next incarnation, with `base`: entries before `since` do not belong to it.
    pub(super) fn restart(&self, since: u64, base: u64) {
        self.since.store(since, Ordering::Release);
        self.base.store(base, Ordering::Release);
        // A thread that sees what is posted from here on also sees where that begins.
        fence(Ordering::Release);
    }

    /// No further entry belongs to it.
    pub(super) fn end(&self) {
        self.since.store(NEVER, Ordering::Release);
        fence(Ordering::Release);
    }

    /// The count with which this incarnation began.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    /// The count of what was completed. What it covers is no longer read by pollers.
    #[inline]
    pub(super) fn done(&self) -> u64 {
        self.progress.load(Ordering::Acquire).max(self.base())
    }

    /// Begins a run of completions.
    #[inline]
    pub(super) fn run(&self) -> Run<'_> {
        // With the count of a new incarnation goes where it begins.
        let base = self.base.load(Ordering::Acquire);
        Run {
            side: self,
            count: self.progress.load(Ordering::Relaxed).max(base),
        }
    }

    /// Continues with completions, of whatever incarnation the last one was.
    #[inline]
    pub(super) fn go_on(&self) -> Run<'_> {
        Run {
            side: self,
            count: self.progress.load(Ordering::Relaxed),
        }
    }

    /// Whether this incarnation had begun when the entry `position` was written.
    #[inline]
    pub(super) fn began_by(&self, position: u64) -> bool {
        // Everything read before belongs to the incarnation found here, or to an earlier one.
        fence(Ordering::Acquire);
        position >= self.since.load(Ordering::Acquire)
    }
}

/// Consecutive completions of one side, which take effect only at the end.
#[derive(Debug)]
pub(super) struct Run<'s> {
    side: &'s Side,
    /// The count of what was completed.
    pub(super) count: u64,
}

impl Run<'_> {
    /// The count within this incarnation.
    pub(super) fn since_base(&self) -> u64 {
        self.count.wrapping_sub(self.side.base())
    }

    /// Ends the run, if the entry `first` and the following ones, on which it is based, belong to
    /// this incarnation. Otherwise it has no effect.
    #[inline]
    pub(super) fn end(self, first: u64) -> bool {
        let current = self.side.began_by(first);
        if current {
            self.store();
        }
        current
    }

    #[inline]
    fn store(self) {
        self.side.progress.store(self.count, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The steps of the two threads, in any order that keeps the order of each.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        Begin,
        Look,
        Ask,
        Store,
        Reset,
        Post,
    }

    const POLLER: [Step; 4] = [Step::Begin, Step::Look, Step::Ask, Step::Store];
    const POSTER: [Step; 2] = [Step::Reset, Step::Post];

    /// All merges of two lists.
    fn merged(left: &[Step], right: &[Step]) -> Vec<Vec<Step>> {
        let (Some((first, others)), Some((second, rest))) =
            (left.split_first(), right.split_first())
        else {
            return vec![[left, right].concat()];
        };
        let before = |step: Step, tails: Vec<Vec<Step>>| {
            let put = move |tail: Vec<Step>| [vec![step], tail].concat();
            tails.into_iter().map(put)
        };
        before(*first, merged(others, right))
            .chain(before(*second, merged(left, rest)))
            .collect()
    }

    /// One thread polls the entry 4, which is the sixth of the old incarnation; the other resets
    /// and posts in the same slot.
    #[test]
    fn a_poller_of_a_former_incarnation_does_not_change_the_new_one() {
        let orders = merged(&POLLER, &POSTER);
        assert_eq!(orders.len(), 15);
        for order in orders {
            let side = Side::default();
            let mut run = side.run();
            run.count = 5;
            assert!(run.end(3));
            assert_eq!(side.done(), 5);
            let slot = AtomicU64::new(6);
            let (mut run, mut seen, mut current) = (None, 0, false);
            for step in &order {
                match step {
                    Step::Begin => run = Some(side.run()),
                    Step::Look => seen = slot.load(Ordering::Relaxed),
                    Step::Ask => current = side.began_by(4),
                    Step::Store => {
                        let mut run = run.take().unwrap();
                        run.count = 6;
                        if current {
                            run.store();
                        }
                    }
                    Step::Reset => side.restart(5, 8),
                    Step::Post => slot.store(1, Ordering::Relaxed),
                }
                let reset = order.iter().position(|step| *step == Step::Reset);
                let now = order.iter().position(|other| other == step);
                if now >= reset {
                    assert_eq!(side.done(), 8, "{order:?} after {step:?}");
                }
            }
            assert!(
                !current || seen == 6,
                "{order:?}: the new request was taken"
            );
            // The next completion is the first of the new incarnation.
            let mut run = side.run();
            assert_eq!((run.count, run.since_base()), (8, 0), "{order:?}");
            run.count += 1;
            assert!(run.end(5));
            assert_eq!(side.done(), 9, "{order:?}");
        }
    }

    #[test]
    fn after_the_end_no_entry_belongs_to_it() {
        let side = Side::new(0);
        assert!(side.began_by(0));
        side.end();
        assert!(!side.began_by(u64::MAX - 1));
        let mut run = side.go_on();
        run.count += 1;
        assert!(!run.end(7));
        assert_eq!(side.done(), 0);
    }
}
