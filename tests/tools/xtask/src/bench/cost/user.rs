//! `cargo xtask bench --user`: instructions and time of the data path in a user's crate, which is
//! outside this workspace: with the default release profile, and with link-time optimisation.
//!
//! The crate is `tests/cost/downstream`. Its device is the software ConnectX in the process, so
//! that times are those of this machine. libmlx5 is timed on the same device, in turns with it, and
//! counted in a virtual machine.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use testbed::cargo;

use super::callgrind::{self, Counts};
use super::libmlx5::{Libmlx5, SUITE};
use super::shapes::Shapes;
use super::times::{Span, Times};
use super::turns::Turns;
use super::{MANY, ROUNDS, oracle, owned, turns};

/// How often each loop is timed.
const TIMED: u32 = 3000;

/// What is measured: its function, and the goal of the typed handle in the default profile.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) function: &'static str,
    goal: Option<f64>,
}

const fn row(name: &'static str, function: &'static str, goal: Option<f64>) -> Row {
    Row {
        name,
        function,
        goal,
    }
}

pub(super) const ROWS: &[Row] = &[
    row("write and its doorbell", "counted_write", Some(70.0)),
    row("send", "counted_send", None),
    row("read", "counted_read", None),
    row("fetch and add", "counted_atomic", None),
    row("inline send, 32 bytes", "counted_inline", Some(85.0)),
    row("write in a batch of 64", "counted_batch", Some(45.0)),
    row(
        "the same, requests are data",
        "counted_list_of_data",
        Some(70.0),
    ),
    row("write that is data", "counted_one_of_data", None),
    row("receive and its doorbell", "counted_receive", Some(45.0)),
    row(
        "receive in a batch of 64",
        "counted_receive_batch",
        Some(30.0),
    ),
    row("completion of a write", "counted_poll", Some(65.0)),
    row("completion kept whole", "counted_whole", Some(90.0)),
    row("completion of a receive", "counted_poll_received", None),
    row("16 completions at once", "counted_poll_many", Some(40.0)),
    row("16 receives at once", "counted_poll_many_received", None),
    row("poll of an empty queue", "counted_poll_empty", Some(12.0)),
    row(
        "poll_into of an empty queue",
        "counted_poll_into_empty",
        Some(15.0),
    ),
];

/// The functions of the table's rows.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.function)
}

/// The handles of any vendor, and those of one.
pub(super) const HANDLES: [&str; 2] = ["any", "typed"];

/// The figures of one build.
struct Build {
    profile: &'static str,
    /// Where its program of requests that the program keeps the memory of is.
    program: PathBuf,
    /// Requests that the program keeps the memory of.
    raw: Loops,
    /// Requests that own their memory.
    owned: Loops,
}

/// The figures of one program.
pub(super) struct Loops {
    counts: Counts,
    times: Times,
}

impl Loops {
    fn measure(program: &Path) -> anyhow::Result<Self> {
        let [few, many] = ROUNDS.map(|rounds| callgrind::run_here(program, rounds));
        let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
        Ok(Self {
            counts: many?.less(&few?, turns)?,
            times: Times::of(Command::new(program).args([&TIMED.to_string(), "time"]))?,
        })
    }

    /// Of the loop of this module and name.
    pub(super) fn instructions(&self, name: &str) -> anyhow::Result<f64> {
        self.counts.sum(&[name])
    }

    pub(super) fn nanoseconds(&self, name: &str) -> anyhow::Result<Span> {
        self.times.span(name)
    }
}

impl Build {
    fn measure(profile: &'static str, lto: &str) -> anyhow::Result<Self> {
        let program = build("raw", profile, lto)?;
        let raw = Loops::measure(&program)?;
        let owned = Loops::measure(&build("owned", profile, lto)?)?;
        Ok(Self {
            profile,
            program,
            raw,
            owned,
        })
    }

    fn instructions(&self, handle: &str, row: &Row) -> anyhow::Result<f64> {
        self.raw
            .instructions(&format!("{handle}::{}", row.function))
    }

    fn nanoseconds(&self, handle: &str, row: &Row) -> anyhow::Result<Span> {
        self.raw.nanoseconds(&format!("{handle}::{}", row.function))
    }
}

/// Builds the crate in a folder of its own, without settings of this workspace.
pub(super) fn build(program: &str, profile: &str, lto: &str) -> anyhow::Result<PathBuf> {
    let root = cargo::workspace();
    let target = root.join("target/downstream").join(profile);
    let status = Command::new("cargo")
        .args(["build", "--release", "--bin", program, "--manifest-path"])
        .arg(root.join("tests/cost/downstream/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", lto)
        .env_remove("RUSTFLAGS")
        .status()
        .context("no `cargo`")?;
    if !status.success() {
        bail!("cost-downstream does not build");
    }
    Ok(target.join("release").join(program))
}

/// The profiles: "false" is the default of a release build, each crate by itself.
pub(super) const PROFILES: [(&str, &str); 2] = [("default", "false"), ("lto", "fat")];

/// Owned queues alone.
pub(crate) fn run_owned(as_json: bool) -> anyhow::Result<ExitCode> {
    let [default, lto] =
        PROFILES.map(|(profile, lto)| Loops::measure(&build("owned", profile, lto)?));
    let loops = [&default?, &lto?];
    if as_json {
        let [default, lto] = loops.map(owned::json);
        println!("{}", json!({ "default": default?, "lto": lto? }));
    } else {
        owned::print(loops)?;
    }
    Ok(finish(&owned::missed(loops[0])?, as_json))
}

/// Says which rows are above their goals.
fn finish(missed: &[&str], as_json: bool) -> ExitCode {
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    if !as_json {
        println!("\nAbove their goals: {}.", missed.join(", "));
    }
    ExitCode::FAILURE
}

pub(crate) fn run(as_json: bool) -> anyhow::Result<ExitCode> {
    let [default, lto] = PROFILES.map(|(profile, lto)| Build::measure(profile, lto));
    let builds = [default?, lto?];
    let programs = oracle::build(SUITE)?;
    let turns = Turns::measure(&builds[0].program, &programs)?;
    let libmlx5 = Libmlx5::measure(&programs)?;
    let mut missed = Vec::new();
    for row in ROWS {
        let typed = builds[0].instructions("typed", row)?;
        if row.goal.is_some_and(|goal| typed > goal) {
            missed.push(row.name);
        }
    }
    let owned = [&builds[0].owned, &builds[1].owned];
    missed.extend(owned::missed(owned[0])?);
    let shapes = Shapes::measure(&builds[0].program, &programs)?;
    let mut slower = turns.slower()?;
    slower.extend(shapes.slower()?);
    if as_json {
        let tables = builds
            .iter()
            .map(json)
            .collect::<anyhow::Result<Vec<_>>>()?;
        println!(
            "{}",
            json!({ "builds": tables, "libmlx5": json_of(&libmlx5), "heap": libmlx5.heap(), "turns": turns.json()?, "shapes": shapes.json()? })
        );
    } else {
        print(&builds, &libmlx5)?;
        turns.print()?;
        shapes.print()?;
        owned::print(owned)?;
        turns::print_slower(&slower);
    }
    let done = finish(&missed, as_json);
    Ok(if slower.is_empty() {
        done
    } else {
        ExitCode::FAILURE
    })
}

/// The table as a page of the guide has it.
fn print(builds: &[Build; 2], libmlx5: &Libmlx5) -> anyhow::Result<()> {
    let columns = ["any", "typed", "goal", "any, LTO", "typed, LTO"];
    let heads = Libmlx5::names().into_iter().chain(columns);
    println!("| instructions |{}", heads.map(cell).collect::<String>());
    println!(
        "|---{}|",
        "|---".repeat(Libmlx5::names().len() + columns.len())
    );
    for row in ROWS {
        let mut line = format!("| {} |", row.name);
        for theirs in libmlx5.instructions(row.function) {
            line += &optional(theirs);
        }
        for (build, goal) in builds.iter().zip([Some(row.goal), None]) {
            for handle in HANDLES {
                line += &cell(format_args!("{:.1}", build.instructions(handle, row)?));
            }
            line += &goal.map(optional).unwrap_or_default();
        }
        println!("{line}");
    }
    println!("\n| one takes of libmlx5's heap | bytes |\n|---|---|");
    for (kind, bytes) in libmlx5.heap() {
        println!("| {kind} | {bytes} |");
    }
    Ok(())
}

pub(super) fn cell(content: impl Display) -> String {
    format!(" {content} |")
}

pub(super) fn span([least, median]: Span) -> String {
    cell(format_args!("{least:.1} ({median:.1})"))
}

pub(super) fn optional(number: Option<f64>) -> String {
    number.map_or_else(|| cell(""), |number| cell(format_args!("{number:.0}")))
}

fn json_of(libmlx5: &Libmlx5) -> Value {
    let rows = ROWS.iter().map(|row| {
        let ways = Libmlx5::names().into_iter();
        let ways = ways.zip(libmlx5.instructions(row.function));
        let ways: BTreeMap<_, _> = ways.collect();
        json!({ "name": row.name, "instructions": ways })
    });
    rows.collect()
}

fn json(build: &Build) -> anyhow::Result<Value> {
    let usual = ROWS
        .iter()
        .flat_map(|row| HANDLES.map(|handle| (row, handle)));
    let rows = usual.map(|(row, handle)| {
        Ok(json!({
            "name": row.name,
            "handle": handle,
            "instructions": build.instructions(handle, row)?,
            "nanoseconds": build.nanoseconds(handle, row)?,
            "goal": row.goal,
        }))
    });
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
    let owned = owned::json(&build.owned)?;
    Ok(json!({ "profile": build.profile, "rows": rows, "owned": owned }))
}
