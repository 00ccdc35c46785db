//! Counts registrations per page, in ranges.

use std::collections::BTreeMap;

/// How many registrations cover each page. A key is the start of a run of equal counts, which
/// extends to the next key. The last key has count 0; before the first key the count is 0 as well.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct PageCounts {
    stretches: BTreeMap<usize, usize>,
}

impl PageCounts {
    /// The maximal runs in `start..end` that no registration covers.
    pub(super) fn unprotected(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        self.runs_in(start, end, 0)
    }

    /// Covers `start..end` once more.
    pub(super) fn add(&mut self, start: usize, end: usize) {
        self.split(start);
        self.split(end);
        for count in self.stretches.range_mut(start..end).map(|(_, count)| count) {
            *count += 1;
        }
        self.join(start, end);
    }

    /// Covers `start..end` once less, and returns the maximal runs that are no longer covered. Runs
    /// that were not covered before are not returned.
    pub(super) fn remove(&mut self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let freed = self.runs_in(start, end, 1);
        self.split(start);
        self.split(end);
        for count in self.stretches.range_mut(start..end).map(|(_, count)| count) {
            *count = count.saturating_sub(1);
        }
        self.join(start, end);
        freed
    }

    fn count_at(&self, address: usize) -> usize {
        self.stretches
            .range(..=address)
            .next_back()
            .map_or(0, |(_, count)| *count)
    }

    /// The runs in `start..end` that are covered exactly `wanted` times.
    fn runs_in(&self, start: usize, end: usize, wanted: usize) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        let (mut from, mut count) = (start, self.count_at(start));
        let later = self
            .stretches
            .range(start..end)
            .filter(|(at, _)| **at != start);
        for (at, next) in later.map(|(at, next)| (*at, *next)).chain([(end, 0)]) {
            if count == wanted && from < at {
                found.push((from, at));
            }
            (from, count) = (at, next);
        }
        found
    }

    fn split(&mut self, at: usize) {
        let count = self.count_at(at);
        self.stretches.entry(at).or_insert(count);
    }

    /// Removes the keys around `start..=end` at which the count does not change.
    fn join(&mut self, start: usize, end: usize) {
        let mut before = self
            .stretches
            .range(..start)
            .next_back()
            .map_or(0, |(_, count)| *count);
        let mut same = Vec::new();
        for (at, count) in self.stretches.range(start..=end) {
            if *count == before {
                same.push(*at);
            }
            before = *count;
        }
        for at in same {
            self.stretches.remove(&at);
        }
    }
}
