//! Both programs timed in turns, so that what else this machine does is the same for both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use serde_json::{Value, json};
use testbed::host;

use super::libmlx5::{Libmlx5, SUITE, WAYS};
use super::native::Native;
use super::oracle::{self, Programs};
use super::shapes::Shapes;
use super::times::{Span, Times};
use super::user::{self, HANDLES, ROWS, cell, span};

/// How often each program is run, and the rounds of a run.
const TURNS: u32 = 10;
const ROUNDS: u32 = 1000;

/// How long ours and libmlx5 take on the same device, in this process.
pub(super) struct Turns {
    ours: Times,
    theirs: [Times; WAYS.len()],
}

/// `cargo xtask bench --user --times`: this table, and that of other shapes.
pub(crate) fn run(as_json: bool) -> anyhow::Result<ExitCode> {
    let (profile, lto) = user::PROFILES[0];
    let ours = user::build("raw", profile, lto)?;
    let programs = oracle::build(SUITE)?;
    let turns = Turns::measure(&ours, &programs)?;
    let shapes = Shapes::measure(&ours, &programs)?;
    let mut slower = turns.slower()?;
    slower.extend(shapes.slower()?);
    if as_json {
        println!(
            "{}",
            json!({ "turns": turns.json()?, "shapes": shapes.json()? })
        );
    } else {
        turns.print()?;
        shapes.print()?;
        print_slower(&slower);
    }
    Ok(if slower.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(super) fn print_slower(rows: &[&str]) {
    if !rows.is_empty() {
        println!("\nSlower than libmlx5: {}.", rows.join(", "));
    }
}

impl Turns {
    /// Runs both.
    pub(super) fn measure(ours: &Path, theirs: &Programs) -> anyhow::Result<Self> {
        let theirs = Native::new(theirs)?;
        host::say(format_args!("times libmlx5 and ours in {TURNS} turns"));
        let mut runs = (Vec::new(), WAYS.map(|_| Vec::new()));
        for _ in 0..TURNS {
            let mut command = Command::new(ours);
            command.args([&ROUNDS.to_string(), "time", "usual"]);
            runs.0.push(Times::of(&mut command)?);
            for (way, runs) in WAYS.into_iter().zip(&mut runs.1) {
                runs.push(theirs.time(way, ROUNDS)?);
            }
        }
        Ok(Self {
            ours: Times::of_runs(&runs.0),
            theirs: runs.1.map(|runs| Times::of_runs(&runs)),
        })
    }

    fn ours(&self, handle: &str, function: &str) -> anyhow::Result<Span> {
        self.ours.span(&format!("{handle}::{function}"))
    }

    /// Of libmlx5 each way, where it has that loop.
    fn theirs(&self, function: &str) -> [Option<Span>; WAYS.len()] {
        self.theirs.each_ref().map(|times| times.get(function))
    }

    /// The least that libmlx5 takes, whichever way.
    fn best(&self, function: &str) -> anyhow::Result<f64> {
        let each = self.theirs(function).into_iter().flatten();
        let best = each.map(|[least, _]| least).min_by(f64::total_cmp);
        best.with_context(|| format!("{function} was not timed"))
    }

    /// The rows in which typed handles take longer than libmlx5 at its best.
    pub(super) fn slower(&self) -> anyhow::Result<Vec<&'static str>> {
        let mut slower = Vec::new();
        for row in ROWS {
            let [least, _] = self.ours("typed", row.function)?;
            if least > self.best(row.function)? {
                slower.push(row.name);
            }
        }
        Ok(slower)
    }

    /// The table as a page of the guide has it.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let columns = HANDLES.into_iter().chain(["typed / best of libmlx5"]);
        let heads: Vec<_> = Libmlx5::names().into_iter().chain(columns).collect();
        let ruler = "---|".repeat(heads.len());
        let heads = heads.into_iter().map(cell).collect::<String>();
        println!("\n| nanoseconds |{heads}\n|---|{ruler}");
        for row in ROWS {
            let mut line = format!("| {} |", row.name);
            for theirs in self.theirs(row.function) {
                line += &theirs.map_or_else(|| cell(""), span);
            }
            for handle in HANDLES {
                line += &span(self.ours(handle, row.function)?);
            }
            let [least, _] = self.ours("typed", row.function)?;
            println!("{line} {:.2} |", least / self.best(row.function)?);
        }
        Ok(())
    }

    pub(super) fn json(&self) -> anyhow::Result<Value> {
        let rows = ROWS.iter().map(|row| {
            let theirs = Libmlx5::names().into_iter().zip(self.theirs(row.function));
            let theirs: BTreeMap<_, _> = theirs.collect();
            let ours = HANDLES.map(|handle| Ok((handle, self.ours(handle, row.function)?)));
            let ours = ours
                .into_iter()
                .collect::<anyhow::Result<BTreeMap<_, _>>>()?;
            Ok(json!({ "name": row.name, "libmlx5": theirs, "uverbs": ours }))
        });
        rows.collect()
    }
}
