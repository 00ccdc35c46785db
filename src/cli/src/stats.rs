//! How long things took, in buckets fine enough for percentiles.

/// Counts of durations in nanoseconds. A bucket is at most 1/128 of its value wide, so percentiles
/// are accurate to 0.8 %.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The number of buckets per power of two, as a power of two.
const FINE: u32 = 7;

impl Histogram {
    pub(crate) fn new() -> Self {
        let buckets = index(u64::MAX) + 1;
        Self {
            buckets: vec![0; buckets],
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        if let Some(bucket) = self.buckets.get_mut(index(nanos)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; 0 if nothing was recorded.
    pub(crate) fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The value that `per_100_000` of 100,000 samples do not exceed.
    pub(crate) fn percentile(&self, per_100_000: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per_100_000)).div_ceil(100_000);
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if *count > 0 && seen >= rank {
                let (low, high) = bounds(at);
                return (low + (high - low) / 2).clamp(self.min(), self.max);
            }
        }
        self.max
    }

    /// The non-empty buckets: where each starts, and how many samples it has.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (bounds(at).0, *count))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "fewer than 2^13 buckets; a shift below 64"
)]
const fn index(value: u64) -> usize {
    if value < 1 << FINE {
        return value as usize;
    }
    let shift = value.ilog2() - FINE;
    (((shift as u64) << FINE) + (value >> shift)) as usize
}

/// The first and the last value of a bucket.
const fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 << FINE {
        return (index, index);
    }
    let shift = (index >> FINE) - 1;
    let low = ((index & ((1 << FINE) - 1)) + (1 << FINE)) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_touch() {
        for value in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX / 3, u64::MAX]) {
            let (low, high) = bounds(index(value));
            assert!(low <= value && value <= high, "{value}: {low}..={high}");
            assert!(
                high - low <= value / 128,
                "{value} in a bucket of {}",
                high - low + 1
            );
        }
        for at in 0..index(u64::MAX) {
            assert_eq!(bounds(at).1 + 1, bounds(at + 1).0, "bucket {at}");
        }
    }

    #[test]
    fn percentiles_of_an_even_spread() {
        let mut histogram = Histogram::new();
        for nanos in 1..=100_000 {
            histogram.record(nanos);
        }
        for (percentile, exact) in [(50_000, 50_000_u64), (99_000, 99_000), (99_900, 99_900)] {
            let found = histogram.percentile(percentile);
            assert!(
                found.abs_diff(exact) <= exact / 128,
                "{percentile}: {found}"
            );
        }
        assert_eq!(histogram.min(), 1);
        assert_eq!(histogram.max(), 100_000);
        assert!((histogram.mean() - 50_000.5).abs() < 1e-6);
        assert_eq!(histogram.count(), 100_000);
    }

    #[test]
    fn nothing_recorded_is_zero() {
        let histogram = Histogram::new();
        assert_eq!(histogram.percentile(50_000), 0);
        assert_eq!((histogram.min(), histogram.max()), (0, 0));
        assert_eq!(histogram.buckets().count(), 0);
    }

    #[test]
    fn one_outlier_is_the_maximum_only() {
        let mut histogram = Histogram::new();
        for _ in 0..999 {
            histogram.record(1000);
        }
        histogram.record(1_000_000);
        assert!(histogram.percentile(99_900).abs_diff(1000) <= 8);
        assert_eq!(histogram.max(), 1_000_000);
        assert_eq!(histogram.percentile(100_000), 1_000_000);
    }
}
