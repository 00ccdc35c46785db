//! The counts as a table.

use super::counts::{CRATES, Lines};
use std::collections::BTreeMap;

/// Number of executed lines, and of all lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Share {
    reached: usize,
    all: usize,
}

impl Share {
    fn of(counts: &BTreeMap<usize, u64>) -> Self {
        Self {
            reached: counts.values().filter(|count| **count > 0).count(),
            all: counts.len(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            reached: self.reached + other.reached,
            all: self.all + other.all,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "no crate has so many lines that it matters"
    )]
    fn percent(self) -> f64 {
        100.0 * self.reached as f64 / self.all.max(1) as f64
    }

    fn line(self, name: &str) -> String {
        format!(
            "{name:<44} {:>6} of {:>6} lines {:>6.1} %",
            self.reached,
            self.all,
            self.percent()
        )
    }
}

/// Prints the percentage of each crate, and the files below the limit, the worst first. Returns
/// whether a crate that the limit applies to is below it.
pub(super) fn print(lines: &Lines, at_least: f64) -> bool {
    let mut too_few = false;
    for (name, folder, limited) in CRATES {
        let files: Vec<_> = lines
            .iter()
            .filter(|(file, _)| file.starts_with(folder))
            .map(|(file, counts)| (file, Share::of(counts)))
            .collect();
        let whole = files
            .iter()
            .fold(Share::default(), |sum, (_, share)| sum.and(*share));
        let below = limited && whole.percent() < at_least;
        too_few |= below;
        let mark = if below { "  TOO FEW" } else { "" };
        println!("\n{}{mark}", whole.line(name));
        let mut poor: Vec<_> = files
            .into_iter()
            .filter(|(_, share)| share.percent() < at_least)
            .collect();
        poor.sort_by(|(_, a), (_, b)| a.percent().total_cmp(&b.percent()));
        for (file, share) in poor {
            println!(
                "  {}",
                share.line(file.strip_prefix(folder).unwrap_or(file))
            );
        }
    }
    too_few
}

/// Prints the lines that were never executed, of files whose path contains this text.
pub(super) fn print_unreached(lines: &Lines, part: &str) {
    for (file, counts) in lines.iter().filter(|(file, _)| file.contains(part)) {
        let ranges = unreached(counts);
        if !ranges.is_empty() {
            println!("{file}: {}", ranges.join(" "));
        }
    }
}

/// Ranges of lines that were never executed; lines without code do not interrupt a range.
fn unreached(counts: &BTreeMap<usize, u64>) -> Vec<String> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut open = false;
    for (&line, &count) in counts {
        match ranges.last_mut() {
            Some((_, last)) if count == 0 && open => *last = line,
            _ if count == 0 => ranges.push((line, line)),
            _ => {}
        }
        open = count == 0;
    }
    let words = |(first, last): (usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.into_iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_not_run_are_reported_in_runs() {
        let counts = BTreeMap::from([(1, 0), (2, 0), (5, 0), (6, 3), (7, 0), (9, 1)]);
        assert_eq!(unreached(&counts), ["1-5", "7"]);
        let share = Share::of(&counts);
        assert_eq!((share.reached, share.all), (2, 6));
    }

    #[test]
    fn the_limit_holds_for_providers_and_not_for_the_facade() {
        let half = BTreeMap::from([(1, 0), (2, 1)]);
        let facade = Lines::from([("src/qp.rs".to_owned(), half.clone())]);
        let mut provider = facade.clone();
        for (_, folder, _) in CRATES {
            provider.insert(format!("{folder}a.rs"), half.clone());
        }
        assert!(print(&provider, 90.0));
        assert!(!print(&provider, 50.0));
    }
}
