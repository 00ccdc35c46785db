//! Pairs of figures.

use super::measure::Measure;
use serde_json::{Value, json};

/// What is less likely than this is no chance.
const CHANCE: f64 = 0.05;

/// Figures of two programs, taken in pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    more_is_better: bool,
    theirs: Vec<f64>,
    ours: Vec<f64>,
}

impl Pairs {
    pub(super) fn new(more_is_better: bool) -> Self {
        Self {
            more_is_better,
            theirs: Vec::new(),
            ours: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, theirs: f64, ours: f64) {
        self.theirs.push(theirs);
        self.ours.push(ours);
    }

    /// The median of theirs.
    pub(super) fn theirs(&self) -> f64 {
        median(&self.theirs)
    }

    /// The median of ours.
    pub(super) fn ours(&self) -> f64 {
        median(&self.ours)
    }

    /// The median of the pairs' ratios; above 1, ours is better.
    pub(super) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The smallest and the largest ratio.
    pub(super) fn spread(&self) -> (f64, f64) {
        let ratios = self.ratios();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        (least, ratios.iter().copied().fold(0.0, f64::max))
    }

    /// Whether the typical pair is worse than this ratio.
    pub(super) fn is_below(&self, ratio: f64) -> bool {
        self.ratio() < ratio
    }

    /// Whether ours is worse in more pairs than chance makes of programs that are equal: in one
    /// measurement of twenty, by a sign test.
    pub(super) fn is_clearly_worse(&self) -> bool {
        let ratios = self.ratios();
        let worse = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        chance(ratios.len(), worse) < CHANCE
    }

    pub(super) fn json(&self, measure: &Measure) -> Value {
        json!({
            "name": measure.name, "place": measure.place.describe(), "unit": measure.unit,
            "theirs": self.theirs, "uverbs": self.ours, "ratio": self.ratio(),
        })
    }

    fn ratios(&self) -> Vec<f64> {
        let pairs = self.theirs.iter().zip(&self.ours);
        pairs
            .map(|(theirs, ours)| {
                if self.more_is_better {
                    ours / theirs
                } else {
                    theirs / ours
                }
            })
            .collect()
    }
}

/// How likely at least that many heads are when a coin is thrown so often.
fn chance(throws: usize, heads: usize) -> f64 {
    // Of exactly 0, 1, 2, … heads.
    let mut exactly = vec![1.0];
    for _ in 0..throws {
        let less = std::iter::once(0.0).chain(exactly.iter().copied());
        let as_many = exactly.iter().copied().chain(std::iter::once(0.0));
        exactly = less
            .zip(as_many)
            .map(|(a, b)| f64::midpoint(a, b))
            .collect();
    }
    exactly.iter().skip(heads).sum()
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    if sorted.len() % 2 == 1 {
        at(middle)
    } else {
        f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
    }
}

#[cfg(test)]
mod tests {
    use super::{Pairs, chance, median};

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    /// A latency of ours that is worse in `worse` of `count` pairs.
    fn pairs(count: usize, worse: usize) -> Pairs {
        let mut pairs = Pairs::new(false);
        for at in 0..count {
            pairs.add(10.0, if at < worse { 20.0 } else { 5.0 });
        }
        pairs
    }

    #[test]
    fn a_better_result_has_a_ratio_above_one() {
        let mut bandwidth = Pairs::new(true);
        bandwidth.add(100.0, 150.0);
        assert!(bandwidth.ratio() > 1.0 && !bandwidth.is_clearly_worse());
        assert!(pairs(7, 7).ratio() < 1.0 && pairs(7, 0).ratio() > 1.0);
    }

    #[test]
    fn what_chance_may_do_is_no_failure() {
        assert_eq!(
            (chance(3, 0), chance(3, 2), chance(3, 3)),
            (1.0, 0.5, 0.125)
        );
        for (count, most) in [(7, 6), (20, 14)] {
            assert!(!pairs(count, most).is_clearly_worse(), "{most} of {count}");
            assert!(
                pairs(count, most + 1).is_clearly_worse(),
                "{} of {count}",
                most + 1
            );
        }
    }
}
