//! Queues of other shapes, ours beside libmlx5's: instructions by Callgrind and times in turns,
//! both on this machine, on a software ConnectX in the process.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};
use testbed::host;

use super::callgrind::{self, Counts};
use super::libmlx5::Way;
use super::native::Native;
use super::oracle::{self, Programs};
use super::times::{Span, Times};
use super::user::{cell, optional, span};
use super::{MANY, ROUNDS};

/// How often each program is run, and the rounds of a run.
const TURNS: u32 = 5;
const TIMED: u32 = 500;

const WAYS: [Way; 2] = [
    ("libmlx5", oracle::SHAPES, false),
    ("one thread", oracle::SHAPES, true),
];

/// A loop: ours by its module, and libmlx5's, by the names of their functions.
#[derive(Debug)]
struct Row {
    name: &'static str,
    ours: &'static str,
    theirs: &'static str,
}

const fn row(name: &'static str, ours: &'static str, theirs: &'static str) -> Row {
    Row { name, ours, theirs }
}

const ROWS: &[Row] = &[
    row(
        "receive of a shared queue",
        "shapes::counted_shared_receive",
        "counted_shared_receive",
    ),
    row(
        "the same in a batch of 64",
        "shapes::counted_shared_batch",
        "counted_shared_batch",
    ),
    row(
        "its completion",
        "shapes::counted_shared_poll",
        "counted_shared_poll",
    ),
    row("datagram", "shapes::counted_datagram", "counted_datagram"),
    row(
        "completion, 100 queue pairs in turn",
        "shapes::counted_among_100",
        "counted_among_100",
    ),
    row(
        "completion, 10,000 queue pairs in turn",
        "shapes::counted_among_10000",
        "counted_among_10000",
    ),
    row(
        "the same, typed, 100",
        "shapes::counted_typed_among_100",
        "counted_among_100",
    ),
    row(
        "the same, typed, 10,000",
        "shapes::counted_typed_among_10000",
        "counted_among_10000",
    ),
    row(
        "write, another thread polls",
        "threads::counted_post",
        "counted_post",
    ),
    row(
        "its completion, another thread posts",
        "threads::counted_poll",
        "counted_poll",
    ),
    row(
        "the write, typed",
        "threads::counted_typed_post",
        "counted_post",
    ),
    row(
        "the completion, typed",
        "threads::counted_typed_poll",
        "counted_poll",
    ),
];

/// The figures of both sides.
pub(super) struct Shapes {
    counts: Counts,
    times: Times,
    their_counts: [Counts; WAYS.len()],
    their_times: [Times; WAYS.len()],
}

impl Shapes {
    pub(super) fn measure(program: &Path, theirs: &Programs) -> anyhow::Result<Self> {
        let theirs = Native::new(theirs)?;
        host::say("counts libmlx5 and ours with queues of other shapes");
        let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
        let ours =
            |rounds: u32| callgrind::run_here_with(program, &[&rounds.to_string(), "shapes"]);
        let counts = ours(ROUNDS[1])?.less(&ours(ROUNDS[0])?, turns)?;
        let count = |way| {
            let [few, many] = ROUNDS.map(|rounds| theirs.count(way, rounds));
            many?.less(&few?, turns)
        };
        let [first, second] = WAYS.map(count);
        host::say(format_args!("times them in {TURNS} turns"));
        let mut runs = (Vec::new(), WAYS.map(|_| Vec::new()));
        for _ in 0..TURNS {
            let mut command = Command::new(program);
            command.args([&TIMED.to_string(), "time", "shapes"]);
            runs.0.push(Times::of(&mut command)?);
            for (way, runs) in WAYS.into_iter().zip(&mut runs.1) {
                runs.push(theirs.time(way, TIMED)?);
            }
        }
        Ok(Self {
            counts,
            times: Times::of_runs(&runs.0),
            their_counts: [first?, second?],
            their_times: runs.1.map(|runs| Times::of_runs(&runs)),
        })
    }

    /// The least that libmlx5 takes, either way.
    fn best(&self, row: &Row) -> anyhow::Result<f64> {
        let each = self
            .their_times
            .iter()
            .filter_map(|times| times.get(row.theirs));
        let best = each.map(|[least, _]| least).min_by(f64::total_cmp);
        best.with_context(|| format!("{} was not timed", row.theirs))
    }

    /// Least time of ours, divided by that of libmlx5 at its best.
    fn ratio(&self, row: &Row) -> anyhow::Result<f64> {
        let [least, _] = self.times.span(row.ours)?;
        Ok(least / self.best(row)?)
    }

    /// The rows in which ours take longer than libmlx5 at its best.
    pub(super) fn slower(&self) -> anyhow::Result<Vec<&'static str>> {
        let mut slower = Vec::new();
        for row in ROWS {
            if self.ratio(row)? > 1.0 {
                slower.push(row.name);
            }
        }
        Ok(slower)
    }

    /// The table as a page of the guide has it.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let ways = || WAYS.iter().map(|(name, ..)| *name).chain(["uverbs"]);
        let instructions = ways().map(|way| cell(format_args!("{way}, instructions")));
        let times = ways().map(|way| cell(format_args!("{way}, ns")));
        let heads: String = instructions.chain(times).collect();
        println!("\n| queues of other shapes |{heads} ns, ours / best of libmlx5 |");
        println!("|---{}|", "|---".repeat(2 * WAYS.len() + 3));
        for row in ROWS {
            let mut line = format!("| {} |", row.name);
            for counts in &self.their_counts {
                line += &optional(counts.get(row.theirs));
            }
            line += &cell(format_args!("{:.1}", self.counts.sum(&[row.ours])?));
            for times in &self.their_times {
                line += &span(times.span(row.theirs)?);
            }
            line += &span(self.times.span(row.ours)?);
            println!("{line} {:.2} |", self.ratio(row)?);
        }
        Ok(())
    }

    pub(super) fn json(&self) -> anyhow::Result<Value> {
        let rows = ROWS.iter().map(|row| {
            let theirs = |at: usize| -> anyhow::Result<(Option<f64>, Span)> {
                Ok((
                    self.their_counts[at].get(row.theirs),
                    self.their_times[at].span(row.theirs)?,
                ))
            };
            Ok(json!({
                "name": row.name,
                "uverbs": (self.counts.sum(&[row.ours])?, self.times.span(row.ours)?),
                "libmlx5": theirs(0)?,
                "one thread": theirs(1)?,
            }))
        });
        rows.collect()
    }
}
