//! `cargo xtask bench --c`: instructions of C programs over this project's `libibverbs.so.1`,
//! compared with the same programs over Debian's, in one guest; `--native`: ours on this machine.

use std::process::ExitCode;

use serde_json::{Value, json};
use testbed::{Connectx, Function, Kernel, Machine, cargo, host};

use super::callgrind::{self, Counts};
use super::oracle::{self, EXTENDED, USUAL};
use super::{MANY, MEMORY_MIB, ROUNDS, loops};
use crate::bench::Options;
use crate::compat;

/// The Debian suite whose library is compared.
const SUITE: &str = "trixie";
/// Where this project's library is in the guest.
const FOLDER: &str = "/opt/compat";
/// Neither library takes locks then.
const ONE_THREAD: Variable = ("MLX5_SINGLE_THREADED", "1");
/// Ours may take at most this fraction of Debian's instructions.
const GOAL: f64 = 0.7;

/// A way to use the library: its name in the table, program, and environment.
type Way = (&'static str, (&'static str, &'static str), Option<Variable>);
type Variable = (&'static str, &'static str);
const WAYS: [Way; 3] = [
    ("ibv_post_…", USUAL, None),
    ("ibv_post_…, one thread", USUAL, Some(ONE_THREAD)),
    ("ibv_wr_…, one thread", EXTENDED, Some(ONE_THREAD)),
];

/// What is compared: its name, its loops, and what Debian's library takes by each way (rdma-core
/// 56.1), for comparisons without a guest.
type What = (&'static str, &'static [&'static str], [f64; 3]);
const ROWS: &[What] = &[
    (
        "write and its doorbell",
        &["counted_write"],
        [309.4, 299.4, 219.3],
    ),
    (
        "the same and its completion",
        &["counted_write", "counted_poll"],
        [500.7, 480.7, 378.6],
    ),
    (
        "inline send, 32 bytes",
        &["counted_inline"],
        [320.4, 310.4, 243.2],
    ),
    (
        "write in a batch of 64",
        &["counted_batch"],
        [189.8, 189.6, 135.5],
    ),
    ("fetch and add", &["counted_atomic"], [316.4, 306.4, 226.3]),
    (
        "receive and its doorbell",
        &["counted_receive"],
        [145.4, 135.4, 0.0],
    ),
    (
        "receive in a batch of 64",
        &["counted_receive_batch"],
        [82.1, 81.9, 0.0],
    ),
    (
        "completion of a write",
        &["counted_poll"],
        [191.3, 181.3, 159.3],
    ),
    (
        "completion of a receive",
        &["counted_poll_received"],
        [304.3, 294.3, 236.3],
    ),
    (
        "16 completions at once",
        &["counted_poll_many"],
        [113.8, 113.1, 134.3],
    ),
    (
        "16 receives at once",
        &["counted_poll_many_received"],
        [146.8, 146.2, 136.2],
    ),
    (
        "poll of an empty queue",
        &["counted_poll_empty"],
        [99.2, 89.2, 59.2],
    ),
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
    let rows = if options.native {
        count_here()?
    } else {
        count(options)?
    };
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
    for (way, (_, program), variable) in WAYS {
        let environment = variable.map(|(name, value)| format!("{name}={value}"));
        let environment = environment.as_deref().unwrap_or_default();
        let theirs = loops(&guest, program, environment)?;
        let over = format!("LD_LIBRARY_PATH={FOLDER} {environment}");
        let ours = loops(&guest, program, &over)?;
        rows.extend(ROWS.iter().filter_map(|&(name, functions, _)| {
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

/// The same without a guest.
fn count_here() -> anyhow::Result<Vec<Row>> {
    let library = compat::archive("cost-c-face", &[])?;
    let programs = oracle::build_here(SUITE, &library)?;
    let mut rows = Vec::new();
    for (at, (way, program, variable)) in WAYS.into_iter().enumerate() {
        let path = programs.path(program);
        let run = |rounds| callgrind::run_c_here(&path, variable.as_slice(), rounds);
        let [few, many] = ROUNDS.map(run);
        let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
        let ours = many?.less(&few?, turns)?;
        rows.extend(ROWS.iter().filter_map(|&(name, functions, theirs)| {
            Some(Row {
                way,
                name,
                theirs: *theirs.get(at)?,
                ours: sum(&ours, functions)?,
            })
        }));
    }
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
