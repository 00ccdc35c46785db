//! How long to poll before sleeping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an adaptive time begins with when sleeps turn out to be short.
const LEAST: Duration = Duration::from_micros(10);

/// The time, which may follow how long sleeps last.
#[derive(Debug)]
pub(super) struct Spin {
    /// The present time, in nanoseconds; [`u64::MAX`] forever.
    now: AtomicU64,
    /// The longest, if it is adaptive.
    longest: Option<Duration>,
}

impl Spin {
    pub(super) fn new(time: Duration, is_adaptive: bool) -> Self {
        Self {
            now: AtomicU64::new(if is_adaptive { 0 } else { nanoseconds(time) }),
            longest: is_adaptive.then_some(time),
        }
    }

    pub(super) fn time(&self) -> Duration {
        match self.now.load(Ordering::Relaxed) {
            u64::MAX => Duration::MAX,
            now => Duration::from_nanos(now),
        }
    }

    /// Whether it learns how long sleeps last.
    pub(super) fn is_adaptive(&self) -> bool {
        self.longest.is_some()
    }

    /// Something came after a sleep, `after` the search for it began: searching for a little longer
    /// would have found it, or is a waste.
    pub(super) fn learn(&self, after: Duration) {
        let Some(longest) = self.longest else { return };
        let now = self.time();
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
            let spin = Spin::new(time, false);
            spin.learn(LEAST);
            spin.learn(Duration::MAX);
            assert_eq!(spin.time(), time);
        }
    }

    #[test]
    fn an_adaptive_time_grows_with_short_sleeps_and_shrinks_with_long_ones() {
        let spin = Spin::new(LONGEST, true);
        assert_eq!(spin.time(), Duration::ZERO);
        let grown: Vec<_> = (0..4)
            .map(|_| {
                spin.learn(Duration::from_micros(30));
                spin.time().as_micros()
            })
            .collect();
        assert_eq!(grown, [10, 20, 40, 50]);
        let shrunk: Vec<_> = (0..4)
            .map(|_| {
                spin.learn(LONGEST);
                spin.time().as_nanos()
            })
            .collect();
        assert_eq!(shrunk, [25_000, 12_500, 0, 0]);
    }
}
