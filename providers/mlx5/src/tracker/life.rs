//! The incarnations of a queue, each of which begins with its creation or a reset, and the progress
//! in the current one.
//!
//! The posting thread resets; another thread may at that moment be polling an entry of the old
//! incarnation, and what it is about to store would be mistaken for progress of the new one. So the
//! progress is stored in one word with its incarnation, and whether an entry belongs to the current
//! incarnation is checked last, after everything that was read for it.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The current incarnation of a queue pair.
#[derive(Debug, Default)]
pub(super) struct Life(AtomicU32);

/// The side of a queue pair that reports to one completion queue.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The first entry of the completion queue that belongs to this incarnation.
    since: AtomicU64,
    /// Requests completed (free-running counter) << 32 | their incarnation. A word of another
    /// incarnation means that none has been completed yet.
    progress: AtomicU64,
}

impl Life {
    /// Begins the next incarnation: completions before these indexes do not belong to it.
    pub(super) fn next<const N: usize>(&self, sides: [(&Side, u64); N]) {
        for (side, since) in sides {
            side.since.store(since, Ordering::Release);
        }
        let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(next, Ordering::Release);
        // A thread that sees what was posted in this incarnation also sees where it begins.
        fence(Ordering::Release);
    }
}

impl Side {
    /// The number of requests completed in this incarnation.
    #[inline]
    pub(super) fn tail(&self, life: &Life) -> u32 {
        self.tail_in(life.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn tail_in(&self, life: u32) -> u32 {
        let (tail, of) = self.progress();
        if of == life { tail } else { 0 }
    }

    /// The number of requests completed, and their incarnation.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    fn progress(&self) -> (u32, u32) {
        let word = self.progress.load(Ordering::Acquire);
        ((word >> 32) as u32, word as u32)
    }

    /// Begins a run of completions.
    #[inline]
    pub(super) fn run(&self, life: &Life) -> Run<'_> {
        let life = life.0.load(Ordering::Acquire);
        Run {
            side: self,
            life,
            tail: self.tail_in(life),
        }
    }

    /// Continues with completions. `None` if none of this incarnation has been counted yet.
    #[inline]
    pub(super) fn go_on(&self, life: &Life) -> Option<Run<'_>> {
        let (tail, of) = self.progress();
        (of == life.0.load(Ordering::Acquire)).then_some(Run {
            side: self,
            life: of,
            tail,
        })
    }

    /// Whether this incarnation had begun when the entry `index` was written.
    #[inline]
    pub(super) fn began_by(&self, index: u64) -> bool {
        // Everything read before belongs to the incarnation found here, or to an earlier one.
        fence(Ordering::Acquire);
        index >= self.since.load(Ordering::Acquire)
    }
}

/// Consecutive completions of one side, which take effect only at the end.
#[derive(Debug)]
pub(super) struct Run<'s> {
    side: &'s Side,
    life: u32,
    /// The number of requests completed.
    pub(super) tail: u32,
}

impl Run<'_> {
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
        let word = u64::from(self.tail) << 32 | u64::from(self.life);
        self.side.progress.store(word, Ordering::Release);
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
    fn a_poller_of_an_old_life_says_nothing_of_the_new_one() {
        let orders = merged(&POLLER, &POSTER);
        assert_eq!(orders.len(), 15);
        for order in orders {
            let (life, side) = (Life::default(), Side::default());
            life.next([(&side, 0)]);
            let mut run = side.run(&life);
            run.tail = 5;
            assert!(run.end(3));
            assert_eq!(side.tail(&life), 5);
            let slot = AtomicU64::new(6);
            let (mut run, mut seen, mut current) = (None, 0, false);
            for step in &order {
                match step {
                    Step::Begin => run = Some(side.run(&life)),
                    Step::Look => seen = slot.load(Ordering::Relaxed),
                    Step::Ask => current = side.began_by(4),
                    Step::Store => {
                        let mut run = run.take().unwrap();
                        run.tail = 6;
                        if current {
                            run.store();
                        }
                    }
                    Step::Reset => life.next([(&side, 5)]),
                    Step::Post => slot.store(1, Ordering::Relaxed),
                }
                let reset = order.iter().position(|step| *step == Step::Reset);
                let now = order.iter().position(|other| other == step);
                if now >= reset {
                    assert_eq!(side.tail(&life), 0, "{order:?} after {step:?}");
                }
            }
            assert!(
                !current || seen == 6,
                "{order:?}: the new request was taken"
            );
            // The next completion is the first of the new incarnation.
            let mut run = side.run(&life);
            assert_eq!(run.tail, 0, "{order:?}");
            run.tail = 1;
            assert!(run.end(5));
            assert_eq!(side.tail(&life), 1, "{order:?}");
        }
    }
}
