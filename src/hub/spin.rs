//! How long to poll before sleeping.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use uverbs_core::sys;

/// What an adaptive time begins with when sleeps turn out to be short.
const LEAST: Duration = Duration::from_micros(10);

/// How often others get the processor at most before a thread sleeps. On rxe with two emulated
/// processors, answers of 64 bytes took 172 µs with 32 times, 163 with 64 and 118 with 128.
const YIELDS: u32 = 128;

/// The same if there is one processor. The scheduler may return at once, while others have had
/// their share of it: with 128 times a write of 64 bytes and its read took 1,100 instructions more.
const YIELDS_OF_ONE: u32 = 4;

/// After how many vain attempts in a row the next ones are left out.
const PATIENCE: u32 = 3;

/// How many are left out at most: 2 to this power, less one.
const RAREST: u32 = 5;

/// The time, which may follow what came of it.
#[derive(Debug)]
pub(super) struct Spin {
    /// The present time, in nanoseconds; [`u64::MAX`] forever.
    now: AtomicU64,
    policy: Policy,
    searches: Attempts,
    yields: Attempts,
    most_yields: u32,
}

/// Attempts that are made less and less often while they are in vain.
#[derive(Debug, Default)]
struct Attempts {
    /// How many in a row were in vain, and how many are to be left out now.
    vain: AtomicU32,
    left_out: AtomicU32,
}

impl Attempts {
    /// Whether one is to be made now. What came of it is to be [told](Self::found).
    fn is_due(&self) -> bool {
        let left_out = self.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            // Of two threads one may count in vain, which changes little.
            self.left_out.store(left_out - 1, Ordering::Relaxed);
        }
        left_out == 0
    }

    fn found(&self, anything: bool) {
        if anything {
            self.vain.store(0, Ordering::Relaxed);
            return;
        }
        let vain = self.vain.load(Ordering::Relaxed).saturating_add(1);
        self.vain.store(vain, Ordering::Relaxed);
        let power = vain.saturating_sub(PATIENCE).min(RAREST);
        self.left_out.store((1 << power) - 1, Ordering::Relaxed);
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// It polls, lets others have the processor, and looks again, before it sleeps.
    Eager,
    /// It sleeps at once where the others follow what is found: it waits for work that will take a
    /// while, and each look would take the processor from it.
    Patient,
}

/// What the time follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Policy {
    /// Nothing.
    Fixed(Duration),
    /// How long sleeps last; up to this.
    Sleeps(Duration),
    /// Whether searches of this time found anything: while they do not, few are made.
    Finds(Duration),
}

impl Spin {
    /// One system call where others get the processor.
    pub(super) fn new(policy: Policy) -> Self {
        let is_one = matches!(policy, Policy::Finds(_)) && sys::has_one_processor();
        Self::with(policy, if is_one { YIELDS_OF_ONE } else { YIELDS })
    }

    fn with(policy: Policy, most_yields: u32) -> Self {
        let first = match policy {
            Policy::Fixed(time) | Policy::Finds(time) => time,
            Policy::Sleeps(_) => Duration::ZERO,
        };
        Self {
            now: AtomicU64::new(nanoseconds(first)),
            policy,
            searches: Attempts::default(),
            yields: Attempts::default(),
            most_yields,
        }
    }

    fn now(&self) -> Duration {
        match self.now.load(Ordering::Relaxed) {
            u64::MAX => Duration::MAX,
            now => Duration::from_nanos(now),
        }
    }

    /// How long to search this time. What came of it is to be [told](Self::found).
    pub(super) fn time(&self, wait: Wait) -> Duration {
        if !self.is_left_out(wait) && self.searches.is_due() {
            self.now()
        } else {
            Duration::ZERO
        }
    }

    /// Whether a search found anything before its time was up.
    pub(super) fn found(&self, anything: bool) {
        if self.follows_finds() {
            self.searches.found(anything);
        }
    }

    /// How often others are to have the processor, with a look after each time, before a thread
    /// sleeps. What came of it is to be [told](Self::yielded).
    pub(super) fn yields(&self, wait: Wait) -> u32 {
        match self.follows_finds() && !self.is_left_out(wait) {
            true if self.yields.is_due() => self.most_yields,
            true => 1,
            false => 0,
        }
    }

    /// Whether one of the looks found anything. If only one was made, it counts only if it did.
    pub(super) fn yielded(&self, yields: u32, anything: bool) {
        if anything || yields == self.most_yields {
            self.yields.found(anything);
        }
    }

    /// Whether a thread that waits like this sleeps at once.
    fn is_left_out(&self, wait: Wait) -> bool {
        wait == Wait::Patient && self.follows_finds()
    }

    fn follows_finds(&self) -> bool {
        matches!(self.policy, Policy::Finds(_))
    }

    /// Whether it learns how long sleeps last.
    pub(super) fn follows_sleeps(&self) -> bool {
        matches!(self.policy, Policy::Sleeps(_))
    }

    /// Something came after a sleep, `after` the search for it began: searching for a little longer
    /// would have found it, or is a waste.
    pub(super) fn learn(&self, after: Duration) {
        let Policy::Sleeps(longest) = self.policy else {
            return;
        };
        let now = self.now();
        let next = if after >= longest {
            let half = now / 2;
            if half < LEAST { Duration::ZERO } else { half }
        } else {
            (now * 2).max(LEAST).min(longest)
        };
        self.now.store(nanoseconds(next), Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    #[test]
    fn a_fixed_time_stays() {
        for time in [Duration::ZERO, LONGEST, Duration::MAX] {
            let spin = Spin::new(Policy::Fixed(time));
            spin.learn(LEAST);
            spin.learn(Duration::MAX);
            (0..100).for_each(|_| spin.found(false));
            assert_eq!(spin.time(Wait::Eager), time);
        }
    }

    #[test]
    fn an_adaptive_time_grows_with_short_sleeps_and_shrinks_with_long_ones() {
        let spin = Spin::new(Policy::Sleeps(LONGEST));
        assert_eq!(spin.time(Wait::Eager), Duration::ZERO);
        let grown: Vec<_> = (0..4)
            .map(|_| {
                spin.learn(Duration::from_micros(30));
                spin.time(Wait::Eager).as_micros()
            })
            .collect();
        assert_eq!(grown, [10, 20, 40, 50]);
        let shrunk: Vec<_> = (0..4)
            .map(|_| {
                spin.learn(LONGEST);
                spin.time(Wait::Eager).as_nanos()
            })
            .collect();
        assert_eq!(shrunk, [25_000, 12_500, 0, 0]);
    }

    /// How many of the next waits search, if that finds nothing.
    fn searches(spin: &Spin, waits: usize) -> usize {
        let in_vain = |_: &usize| {
            let searches = !spin.time(Wait::Eager).is_zero();
            if searches {
                spin.found(false);
            }
            searches
        };
        (0..waits).filter(in_vain).count()
    }

    #[test]
    fn what_finds_nothing_is_left_out_more_and_more_until_it_finds_something() {
        let spin = Spin::new(Policy::Finds(LONGEST));
        assert_eq!(searches(&spin, 4), 4, "at first all do");
        assert_eq!(searches(&spin, 2 + 4 + 8 + 16), 4);
        assert_eq!(searches(&spin, 320), 10, "one of 32 in the end");
        while spin.time(Wait::Eager).is_zero() {}
        spin.found(true);
        assert_eq!(searches(&spin, 4), 4, "then all do again");
    }

    #[test]
    fn patient_threads_sleep_at_once_and_change_nothing_for_others() {
        let spin = Spin::with(Policy::Finds(LONGEST), YIELDS);
        for _ in 0..100 {
            assert_eq!(spin.time(Wait::Patient), Duration::ZERO);
            assert_eq!(spin.yields(Wait::Patient), 0);
            spin.yielded(0, false);
        }
        assert_eq!(spin.time(Wait::Eager), LONGEST);
        assert_eq!(spin.yields(Wait::Eager), YIELDS);
        let fixed = Spin::new(Policy::Fixed(LONGEST));
        assert_eq!(fixed.time(Wait::Patient), LONGEST);
    }

    #[test]
    fn others_get_the_processor_often_while_that_finds_something_and_at_least_once() {
        for policy in [Policy::Fixed(LONGEST), Policy::Sleeps(LONGEST)] {
            assert_eq!(Spin::new(policy).yields(Wait::Eager), 0, "{policy:?}");
        }
        let spin = Spin::with(Policy::Finds(Duration::ZERO), YIELDS);
        let yields = |found: bool| {
            let yields = spin.yields(Wait::Eager);
            spin.yielded(yields, found);
            yields
        };
        assert!((0..100).all(|_| yields(true) == YIELDS));
        let in_vain: Vec<_> = (0..320).map(|_| yields(false)).collect();
        let often = in_vain.iter().filter(|&&yields| yields == YIELDS).count();
        assert_eq!(often, 4 + 3 + 9, "four in a row, and one of 32 in the end");
        assert!(in_vain.iter().all(|&yields| yields > 0));
    }
}
