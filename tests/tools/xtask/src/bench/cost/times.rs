//! How long loops take, as the programs print it.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, bail};

/// The part of a loop's name that no other line has.
const LOOP: &str = "counted_";

/// Least and median nanoseconds.
pub(super) type Span = [f64; 2];

/// By loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times(BTreeMap<String, Span>);

impl Times {
    /// Runs a program, and reads what it prints.
    pub(super) fn of(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().display().to_string();
        let output = command.output().with_context(|| program.clone())?;
        if !output.status.success() {
            bail!("{program}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let times = Self::read(&String::from_utf8(output.stdout)?);
        if times.0.is_empty() {
            bail!("{program} timed nothing");
        }
        Ok(times)
    }

    fn read(text: &str) -> Self {
        let times = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next().filter(|name| name.contains(LOOP))?;
            let mut number = || words.next()?.parse::<f64>().ok();
            Some((name.to_owned(), [number()?, number()?]))
        });
        Self(times.collect())
    }

    /// Of several runs: the least of all, and the median of their medians.
    pub(super) fn of_runs(runs: &[Self]) -> Self {
        let mut all: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
        for (name, span) in runs.iter().flat_map(|run| &run.0) {
            all.entry(name).or_default().push(*span);
        }
        let each = all.into_iter().map(|(name, spans)| {
            let least = spans
                .iter()
                .map(|[least, _]| *least)
                .fold(f64::MAX, f64::min);
            let mut medians: Vec<_> = spans.iter().map(|[_, median]| *median).collect();
            medians.sort_unstable_by(f64::total_cmp);
            (name.to_owned(), [least, medians[medians.len() / 2]])
        });
        Self(each.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<Span> {
        self.0.get(name).copied()
    }

    pub(super) fn span(&self, name: &str) -> anyhow::Result<Span> {
        self.get(name)
            .with_context(|| format!("{name} was not timed"))
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    const RUN: &str = "sum 4032 63\nany::counted_poll 4.50 5.75\ncounted_write 18.00 20.00\n";

    #[test]
    fn lines_about_loops_are_read() {
        let times = Times::read(RUN);
        assert_eq!(times.get("any::counted_poll"), Some([4.5, 5.75]));
        assert_eq!(times.get("counted_write"), Some([18.0, 20.0]));
        assert_eq!(times.get("sum"), None);
        assert!(times.span("typed::counted_poll").is_err());
    }

    #[test]
    fn of_several_runs_the_least_and_the_middle_one_are_kept() {
        let run = |least, median| Times::read(&format!("counted_write {least} {median}"));
        let runs = [run(18, 30), run(17, 20), run(19, 25)];
        let all = Times::of_runs(&runs);
        assert_eq!(all.get("counted_write"), Some([17.0, 25.0]));
        assert_eq!(Times::of_runs(&[]), Times::default());
    }
}
