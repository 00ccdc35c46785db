//! Lives of a queue, which begin when it is created or reset, and how far it got in the present
//! one.
//!
//! A reset is of the thread that posts; another may be in the middle of polling an entry of the old
//! life, and what it is about to store would be taken for the new one's. So how far a queue got
//! stands in one word with the life it is true of, and whether an entry is of the present life is
//! asked last, after all that was read for it.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Which life a queue pair is in.
#[derive(Debug, Default)]
pub(super) struct Life(AtomicU32);

/// The side of a queue pair that one completion queue reports on.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The first entry of the completion queue that belongs to this life.
    since: AtomicU64,
    /// Requests completed, counted on and on << 32 | the life it is so in. Another life's word says
    /// that there is none yet.
    progress: AtomicU64,
}

impl Life {
    /// The next life begins: completions before these indexes are not about it.
    pub(super) fn next<const N: usize>(&self, sides: [(&Side, u64); N]) {
        for (side, since) in sides {
            side.since.store(since, Ordering::Release);
        }
        let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(next, Ordering::Release);
        // Who sees what is posted in this life sees since when it is.
        fence(Ordering::Release);
    }
}

impl Side {
    /// Requests completed in this life.
    #[inline]
    pub(super) fn tail(&self, life: &Life) -> u32 {
        self.tail_in(life.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn tail_in(&self, life: u32) -> u32 {
        let (tail, of) = self.progress();
        if of == life { tail } else { 0 }
    }

    /// Requests completed, and the life it is so in.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    fn progress(&self) -> (u32, u32) {
        let word = self.progress.load(Ordering::Acquire);
        ((word >> 32) as u32, word as u32)
    }

    /// Completions begin.
    #[inline]
    pub(super) fn run(&self, life: &Life) -> Run<'_> {
        let life = life.0.load(Ordering::Acquire);
        Run {
            side: self,
            life,
            tail: self.tail_in(life),
        }
    }

    /// Completions go on. `None` where none of this life has been counted yet.
    #[inline]
    pub(super) fn go_on(&self, life: &Life) -> Option<Run<'_>> {
        let (tail, of) = self.progress();
        (of == life.0.load(Ordering::Acquire)).then_some(Run {
            side: self,
            life: of,
            tail,
        })
    }

    /// Whether this life had begun when the entry `index` came.
    #[inline]
    pub(super) fn began_by(&self, index: u64) -> bool {
        // Everything read before is of the life that is found here, or of an earlier one.
        fence(Ordering::Acquire);
        index >= self.since.load(Ordering::Acquire)
    }
}

/// Completions of one side, one after another: nobody is told of them before the end.
#[derive(Debug)]
pub(super) struct Run<'s> {
    side: &'s Side,
    life: u32,
    /// Requests completed.
    pub(super) tail: u32,
}

impl Run<'_> {
    /// Ends it, if the entry `first` and those behind it, which it was about, are of this life.
    /// Otherwise nothing of it is true.
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

    /// What the two threads do, in any order that keeps each one's own.
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

    /// All ways to merge two lists.
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

    /// One thread polls the entry 4, which is the old life's sixth; the other resets and posts at
    /// the same place.
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
            // The next completion is the new life's first.
            let mut run = side.run(&life);
            assert_eq!(run.tail, 0, "{order:?}");
            run.tail = 1;
            assert!(run.end(5));
            assert_eq!(side.tail(&life), 1, "{order:?}");
        }
    }
}
