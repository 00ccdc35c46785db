//! `cargo xtask bench --user`: instructions and time of the data path in a user's crate, which is
//! outside this workspace: with the default release profile, and with link-time optimisation.
//!
//! The crate is `tests/cost/downstream`. Its device is the software ConnectX in the process, so no
//! virtual machine is needed, and times are those of this machine.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use testbed::cargo;

use super::callgrind::{self, Counts};
use super::{MANY, ROUNDS};

/// How often each loop is timed.
const TIMED: u32 = 3000;

/// What is measured: its function, libmlx5's instructions (rdma-core 56, doorbells of 8 bytes, the
/// loops of `tests/cost/oracle`), and the goal of the typed handle in the default profile.
struct Row {
    name: &'static str,
    function: &'static str,
    libmlx5: Option<f64>,
    goal: Option<f64>,
}

const fn row(
    name: &'static str,
    function: &'static str,
    libmlx5: Option<f64>,
    goal: Option<f64>,
) -> Row {
    Row {
        name,
        function,
        libmlx5,
        goal,
    }
}

const ROWS: &[Row] = &[
    row(
        "write and its doorbell",
        "counted_write",
        Some(309.0),
        Some(70.0),
    ),
    row("send", "counted_send", None, None),
    row("read", "counted_read", None, None),
    row("fetch and add", "counted_atomic", None, None),
    row(
        "inline send, 32 bytes",
        "counted_inline",
        Some(320.0),
        Some(85.0),
    ),
    row(
        "write in a batch of 64",
        "counted_batch",
        Some(190.0),
        Some(45.0),
    ),
    row(
        "the same, requests are data",
        "counted_list_of_data",
        Some(174.0),
        Some(70.0),
    ),
    row(
        "write that is data",
        "counted_one_of_data",
        Some(279.0),
        None,
    ),
    row(
        "receive and its doorbell",
        "counted_receive",
        Some(145.0),
        Some(45.0),
    ),
    row(
        "receive in a batch of 64",
        "counted_receive_batch",
        Some(80.0),
        Some(30.0),
    ),
    row(
        "completion of a write",
        "counted_poll",
        Some(191.0),
        Some(65.0),
    ),
    row(
        "completion kept whole",
        "counted_whole",
        Some(186.0),
        Some(90.0),
    ),
    row(
        "completion of a receive",
        "counted_poll_received",
        Some(225.0),
        None,
    ),
    row(
        "16 completions at once",
        "counted_poll_many",
        Some(114.0),
        Some(40.0),
    ),
    row(
        "16 receives at once",
        "counted_poll_many_received",
        Some(147.0),
        None,
    ),
    row(
        "poll of an empty queue",
        "counted_poll_empty",
        Some(99.0),
        Some(12.0),
    ),
    row(
        "poll_into of an empty queue",
        "counted_poll_into_empty",
        Some(99.0),
        Some(15.0),
    ),
];

/// The handles of any vendor, and those of one.
const HANDLES: [&str; 2] = ["any", "typed"];

/// The figures of one build.
struct Build {
    profile: &'static str,
    counts: Counts,
    /// Least and median nanoseconds.
    times: BTreeMap<String, [f64; 2]>,
}

impl Build {
    fn measure(profile: &'static str, lto: &str) -> anyhow::Result<Self> {
        let program = build(profile, lto)?;
        let [few, many] = ROUNDS.map(|rounds| callgrind::run_here(&program, rounds));
        let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
        Ok(Self {
            profile,
            counts: many?.less(&few?, turns)?,
            times: time(&program)?,
        })
    }

    fn instructions(&self, handle: &str, row: &Row) -> anyhow::Result<f64> {
        self.counts.sum(&[&format!("{handle}::{}", row.function)])
    }

    fn nanoseconds(&self, handle: &str, row: &Row) -> anyhow::Result<[f64; 2]> {
        let name = format!("{handle}::{}", row.function);
        let times = self.times.get(&name);
        times
            .copied()
            .with_context(|| format!("{name} was not timed"))
    }
}

/// Builds the crate in a folder of its own, without settings of this workspace.
fn build(profile: &str, lto: &str) -> anyhow::Result<PathBuf> {
    let root = cargo::workspace();
    let target = root.join("target/downstream").join(profile);
    let status = Command::new("cargo")
        .args(["build", "--release", "--bin", "raw", "--manifest-path"])
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
    Ok(target.join("release/raw"))
}

fn time(program: &Path) -> anyhow::Result<BTreeMap<String, [f64; 2]>> {
    let output = Command::new(program)
        .args([&TIMED.to_string(), "time"])
        .output()
        .with_context(|| program.display().to_string())?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let times = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next().filter(|name| name.contains("::"))?;
        let mut number = || words.next()?.parse::<f64>().ok();
        Some((name.to_owned(), [number()?, number()?]))
    });
    Ok(times.collect())
}

pub(crate) fn run(as_json: bool) -> anyhow::Result<ExitCode> {
    // "false" is the default of a release build: each crate by itself.
    let builds = [
        Build::measure("default", "false")?,
        Build::measure("lto", "fat")?,
    ];
    let mut missed = Vec::new();
    for row in ROWS {
        let typed = builds[0].instructions("typed", row)?;
        if row.goal.is_some_and(|goal| typed > goal) {
            missed.push(row.name);
        }
    }
    if as_json {
        let tables: Vec<_> = builds.iter().map(json).collect::<anyhow::Result<_>>()?;
        println!("{}", Value::from(tables));
    } else {
        print(&builds)?;
        if !missed.is_empty() {
            println!("\nAbove their goals: {}.", missed.join(", "));
        }
    }
    Ok(if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The table as a page of the guide has it.
fn print(builds: &[Build; 2]) -> anyhow::Result<()> {
    println!(
        "| instructions | libmlx5 | any | typed | goal | any, LTO | typed, LTO | ns any | ns typed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let optional = |number: Option<f64>| number.map_or_else(String::new, |it| format!("{it:.0}"));
    for row in ROWS {
        let mut line = format!("| {} | {} |", row.name, optional(row.libmlx5));
        for (build, goal) in builds.iter().zip([Some(row.goal), None]) {
            for handle in HANDLES {
                write!(line, " {:.1} |", build.instructions(handle, row)?)?;
            }
            if let Some(goal) = goal {
                write!(line, " {} |", optional(goal))?;
            }
        }
        for handle in HANDLES {
            let [least, median] = builds[0].nanoseconds(handle, row)?;
            write!(line, " {least:.1} ({median:.1}) |")?;
        }
        println!("{line}");
    }
    Ok(())
}

fn json(build: &Build) -> anyhow::Result<Value> {
    let mut rows = Vec::new();
    for row in ROWS {
        for handle in HANDLES {
            rows.push(json!({
                "name": row.name,
                "handle": handle,
                "instructions": build.instructions(handle, row)?,
                "nanoseconds": build.nanoseconds(handle, row)?,
                "libmlx5": row.libmlx5,
                "goal": row.goal,
            }));
        }
    }
    Ok(json!({ "profile": build.profile, "rows": rows }))
}
