//! `cargo xtask bench --c`: instructions of C programs over this project's `libibverbs.so.1`,
//! compared with the same programs over Debian's, in one guest.

use std::process::ExitCode;

use serde_json::{Value, json};
use testbed::{Connectx, Function, Kernel, Machine, cargo, host};

use super::callgrind::Counts;
use super::oracle::{self, EXTENDED, USUAL};
use super::{MEMORY_MIB, loops};
use crate::bench::Options;
use crate::compat;

/// The Debian suite whose library is compared.
const SUITE: &str = "trixie";
/// Where this project's library is in the guest.
const FOLDER: &str = "/opt/compat";
/// Neither library takes locks then.
const ONE_THREAD: &str = "MLX5_SINGLE_THREADED=1";
/// Ours may take at most this fraction of Debian's instructions.
const GOAL: f64 = 0.7;

/// A way to use the library: its name in the table, program, and environment.
type Way = (&'static str, (&'static str, &'static str), &'static str);
const WAYS: [Way; 3] = [
    ("ibv_post_…", USUAL, ""),
    ("ibv_post_…, one thread", USUAL, ONE_THREAD),
    ("ibv_wr_…, one thread", EXTENDED, ONE_THREAD),
];

const ROWS: &[(&str, &[&str])] = &[
    ("write and its doorbell", &["counted_write"]),
    (
        "the same and its completion",
        &["counted_write", "counted_poll"],
    ),
    ("inline send, 32 bytes", &["counted_inline"]),
    ("write in a batch of 64", &["counted_batch"]),
    ("fetch and add", &["counted_atomic"]),
    ("receive and its doorbell", &["counted_receive"]),
    ("receive in a batch of 64", &["counted_receive_batch"]),
    ("completion of a write", &["counted_poll"]),
    ("completion of a receive", &["counted_poll_received"]),
    ("16 completions at once", &["counted_poll_many"]),
    ("16 receives at once", &["counted_poll_many_received"]),
    ("poll of an empty queue", &["counted_poll_empty"]),
];

/// Instructions per operation, over Debian's library and over this one.
struct Row {
    way: &'static str,
    name: &'static str,
    theirs: f64,
    ours: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }
}

pub(in crate::bench) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let rows = count(options)?;
    if options.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "way": row.way, "name": row.name, "libmlx5": row.theirs,
                    "uverbs": row.ours, "ratio": row.ratio(),
                })
            })
            .collect();
        println!("{}", Value::from(rows));
    } else {
        print(&rows);
    }
    Ok(if rows.iter().all(|row| row.ratio() <= GOAL) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn count(options: &Options) -> anyhow::Result<Vec<Row>> {
    let programs = oracle::build(SUITE)?;
    let folder = cargo::workspace().join("target/compat");
    let mut machine = Machine::new(Kernel::named(&options.kernel)?)
        .connectx(Connectx::new(&[Function::Ib]))
        .memory_mib(MEMORY_MIB)
        .with_debian_tools()
        .with_debian_packages(&["valgrind"])
        .debian_suite(SUITE)
        .with_binary(programs.path(USUAL), USUAL.1)
        .with_binary(programs.path(EXTENDED), EXTENDED.1);
    for file in compat::build(&folder)? {
        let name = file.file_name().unwrap_or_default().display().to_string();
        machine = machine.with_file(file, &format!("{FOLDER}/{name}"));
    }
    let guest = machine.boot()?;
    host::say(format_args!("counts on {}", guest.release()));
    let mut rows = Vec::new();
    for (way, (_, program), environment) in WAYS {
        let theirs = loops(&guest, program, environment)?;
        let over = format!("LD_LIBRARY_PATH={FOLDER} {environment}");
        let ours = loops(&guest, program, &over)?;
        rows.extend(ROWS.iter().filter_map(|&(name, functions)| {
            Some(Row {
                way,
                name,
                theirs: sum(&theirs, functions)?,
                ours: sum(&ours, functions)?,
            })
        }));
    }
    guest.power_off()?;
    Ok(rows)
}

/// The sum of what these loops take; `None` for one that the program does not have.
fn sum(counts: &Counts, functions: &[&str]) -> Option<f64> {
    let each = functions.iter().map(|function| counts.get(function));
    each.sum()
}

fn print(rows: &[Row]) {
    println!("instructions per operation, doorbells of 8 bytes\n");
    println!(
        "{:<24}{:<30} {:>9} {:>9} {:>7}",
        "", "", "libmlx5", "uverbs", "ratio"
    );
    for row in rows {
        println!(
            "{:<24}{:<30} {:>9.1} {:>9.1} {:>7.2}{}",
            row.way,
            row.name,
            row.theirs,
            row.ours,
            row.ratio(),
            if row.ratio() > GOAL { "  too many" } else { "" }
        );
    }
}
