//! `cargo xtask bench --mlx5`: instructions of our data path compared with libmlx5's, on one
//! software ConnectX, and the cost of setting it up.
//!
//! Both programs of `tests/cost` run the same loops under Callgrind in one guest. The cost of a
//! loop is the difference between two runs with different numbers of rounds, so that one-time costs
//! cancel out. It is exact: it is the same in every run.

pub(super) mod c_face;
mod callgrind;
pub(super) mod hot;
mod libmlx5;
mod native;
mod oracle;
mod owned;
mod shapes;
mod start;
mod times;
pub(super) mod turns;
pub(super) mod user;

use super::Options;
use crate::programs;
use callgrind::Counts;
use oracle::USUAL;
use serde_json::{Value, json};
use std::process::ExitCode;
use testbed::{Connectx, Function, Guest, Kernel, Machine, host};

/// Operations per loop, in both programs.
const MANY: f64 = 64.0;
/// Number of rounds in the two runs.
const ROUNDS: [u32; 2] = [2, 6];
/// Ours may take at most this fraction of libmlx5's instructions.
const GOAL: f64 = 0.5;
/// The Debian suite whose libmlx5 is counted here.
const SUITE: &str = "bookworm";
/// Valgrind and the programs it runs are in memory.
const MEMORY_MIB: u32 = 3072;

/// The measures, and the functions whose loop iterations are summed for each.
const MEASURES: &[(&str, &[&str])] = &[
    ("write, 1 SGE, and its doorbell", &["counted_write"]),
    (
        "the same and its completion",
        &["counted_write", "counted_poll"],
    ),
    (
        "inline send, 32 bytes, and its doorbell",
        &["counted_inline"],
    ),
    ("write in a batch of 64", &["counted_batch"]),
    ("receive, 1 SGE, and its doorbell", &["counted_receive"]),
    ("completion of a write", &["counted_poll"]),
    ("the same, 16 at once", &["counted_poll_many"]),
    ("completion of a receive", &["counted_poll_received"]),
    ("poll of an empty queue", &["counted_poll_empty"]),
];

/// The figures of both programs, per operation.
struct Row {
    name: &'static str,
    theirs: f64,
    ours: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }
}

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut good = true;
    let mut tables = Vec::new();
    for copied in [false, true] {
        let (release, rows) = count(options, copied)?;
        good &= rows.iter().all(|row| row.ratio() <= GOAL);
        if options.json {
            tables.push(json(&rows, copied));
        } else {
            print(&release, &rows, copied);
        }
    }
    let (release, rows) = start(options)?;
    good &= rows.iter().all(start::Row::is_good);
    if options.json {
        tables.push(rows.iter().map(start::Row::json).collect());
        println!("{}", Value::from(tables));
    } else {
        start::print(&release, &rows);
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Counts on a device that accepts requests copied with the doorbell, or on one that does not.
fn count(options: &Options, copied: bool) -> anyhow::Result<(String, Vec<Row>)> {
    let (ours, theirs) = (programs::cost()?, oracle::build(SUITE)?);
    let connectx = Connectx::new(&[Function::Ib]);
    let connectx = if copied {
        connectx.blueflame()
    } else {
        connectx
    };
    let guest = Machine::new(Kernel::named(&options.kernel)?)
        .connectx(connectx)
        .memory_mib(MEMORY_MIB)
        .with_debian_tools()
        .with_debian_packages(&["valgrind"])
        .with_binary(ours, "cost-ours")
        .with_binary(theirs.path(USUAL), USUAL.1)
        .boot()?;
    host::say(format_args!(
        "booted {} in {:.1} s",
        guest.release(),
        guest.boot_time().as_secs_f64()
    ));
    let (theirs, ours) = (loops(&guest, USUAL.1, "")?, loops(&guest, "cost-ours", "")?);
    let rows = MEASURES
        .iter()
        .map(|&(name, functions)| {
            Ok(Row {
                name,
                theirs: theirs.sum(functions)?,
                ours: ours.sum(functions)?,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    let release = guest.release();
    guest.power_off()?;
    Ok((release, rows))
}

/// Compares the start of whole programs.
fn start(options: &Options) -> anyhow::Result<(String, Vec<start::Row>)> {
    let guest = Machine::new(Kernel::named(&options.kernel)?)
        .connectx(Connectx::new(&[Function::Ib; 2]).blueflame())
        .with_debian_tools()
        .with_binary(programs::uverbs()?, "uverbs")
        .with_binary(programs::reach_rts()?, start::REACH_RTS)
        .with_binary(programs::example(start::EXAMPLE)?, start::EXAMPLE)
        .boot()?;
    let rows = start::measure(&guest)?;
    let release = guest.release();
    guest.power_off()?;
    Ok((release, rows))
}

/// The cost of each loop of a program in this environment, per iteration.
fn loops(guest: &Guest, program: &str, environment: &str) -> anyhow::Result<Counts> {
    let [few, many] = ROUNDS.map(|rounds| callgrind::run(guest, program, environment, rounds));
    let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
    many?.less(&few?, turns)
}

fn print(release: &str, rows: &[Row], copied: bool) {
    let way = if copied {
        "requests may come with the doorbell (BlueFlame)"
    } else {
        "doorbells of 8 bytes"
    };
    println!("\nLinux {release}, software ConnectX, {way}: instructions\n");
    println!("{:<42} {:>9} {:>9} {:>7}", "", "libmlx5", "uverbs", "ratio");
    for row in rows {
        println!(
            "{:<42} {:>9.1} {:>9.1} {:>7.2}{}",
            row.name,
            row.theirs,
            row.ours,
            row.ratio(),
            if row.ratio() > GOAL { "  too many" } else { "" }
        );
    }
}

fn json(rows: &[Row], copied: bool) -> Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({ "name": row.name, "libmlx5": row.theirs, "uverbs": row.ours, "ratio": row.ratio() })
        })
        .collect();
    json!({ "blueflame": copied, "instructions": rows })
}
