//! The table of requests that own their memory, and of hubs: the safe world's part of
//! `cargo xtask bench --user`, and all of `cargo xtask bench --owned`.

use serde_json::{Value, json};

use super::user::{Loops, cell, optional};

/// What is measured: the loops that are added up, and the goal in the default profile.
struct Row {
    name: &'static str,
    loops: &'static [&'static str],
    goal: Option<f64>,
}

const fn row(name: &'static str, loops: &'static [&'static str], goal: Option<f64>) -> Row {
    Row { name, loops, goal }
}

const ROWS: &[Row] = &[
    row("send and its doorbell", &["queue::counted_send"], None),
    row("its completion", &["queue::counted_complete"], None),
    row(
        "both",
        &["queue::counted_send", "queue::counted_complete"],
        Some(220.0),
    ),
    row("inline send, 32 bytes", &["queue::counted_inline"], None),
    row("its completion", &["queue::counted_complete_inline"], None),
    row(
        "both",
        &["queue::counted_inline", "queue::counted_complete_inline"],
        Some(200.0),
    ),
    row(
        "receive and its doorbell",
        &["queue::counted_receive"],
        None,
    ),
    row(
        "its completion",
        &["queue::counted_complete_received"],
        None,
    ),
    row("hub: send", &["hub::counted_send"], None),
    row("hub: its completion", &["hub::counted_turn"], None),
    row("hub: its result", &["hub::counted_finish"], None),
    row(
        "hub: a message arrives",
        &["hub::counted_turn_received"],
        None,
    ),
    row("hub: it is taken", &["hub::counted_receive"], None),
];

impl Row {
    fn instructions(&self, loops: &Loops) -> anyhow::Result<f64> {
        let each = self.loops.iter().map(|name| loops.instructions(name));
        each.sum()
    }

    /// Least and median.
    fn nanoseconds(&self, loops: &Loops) -> anyhow::Result<[f64; 2]> {
        let mut sum = [0.0, 0.0];
        for name in self.loops {
            let [least, median] = loops.nanoseconds(name)?;
            sum = [sum[0] + least, sum[1] + median];
        }
        Ok(sum)
    }
}

/// The rows above their goals.
pub(super) fn missed(loops: &Loops) -> anyhow::Result<Vec<&'static str>> {
    let mut missed = Vec::new();
    for row in ROWS {
        let instructions = row.instructions(loops)?;
        if row.goal.is_some_and(|goal| instructions > goal) {
            missed.push(row.loops[0]);
        }
    }
    Ok(missed)
}

/// The third table: of the default profile, and of link-time optimisation.
pub(super) fn print(loops: [&Loops; 2]) -> anyhow::Result<()> {
    println!("\n| owned memory | instructions | goal | LTO | ns |\n|---|---|---|---|---|");
    for row in ROWS {
        let [default, lto] = loops.map(|loops| row.instructions(loops));
        let [least, median] = row.nanoseconds(loops[0])?;
        println!(
            "| {} |{}{}{}{}",
            row.name,
            cell(format_args!("{:.1}", default?)),
            optional(row.goal),
            cell(format_args!("{:.1}", lto?)),
            cell(format_args!("{least:.1} ({median:.1})"))
        );
    }
    Ok(())
}

pub(super) fn json(loops: &Loops) -> anyhow::Result<Value> {
    let rows = ROWS.iter().map(|row| {
        Ok(json!({
            "name": row.name,
            "loops": row.loops,
            "instructions": row.instructions(loops)?,
            "nanoseconds": row.nanoseconds(loops)?,
            "goal": row.goal,
        }))
    });
    rows.collect()
}
