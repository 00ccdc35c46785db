//! `uverbs rates`.

use serde::Serialize;
use uverbs::rate::Rate;

use crate::failure::{Failure, Result};
use crate::output::{Output, Table};

/// Show the static rates of address vectors: names, multipliers of 2.5 Gb/s, Mb/s
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uverbs rates\n  uverbs rates --mbps 103125\n  uverbs rates --multiplier 40 --json"
)]
pub(crate) struct Args {
    /// Only the rate of exactly this many Mb/s
    #[arg(long, value_name = "MBPS", conflicts_with = "multiplier")]
    mbps: Option<u32>,

    /// Only the rate of exactly this many times 2.5 Gb/s
    #[arg(long, value_name = "TIMES")]
    multiplier: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    rates: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    number: u8,
    speed: String,
    multiplier: Option<u32>,
    mbps: Option<u32>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<()> {
    let rates = match (args.mbps, args.multiplier) {
        (None, None) => Rate::ALL.to_vec(),
        (Some(mbps), _) => vec![Rate::from_mbps(mbps).ok_or_else(none)?],
        (None, Some(times)) => vec![Rate::from_multiplier(times).ok_or_else(none)?],
    };
    let rows: Vec<Row> = rates.into_iter().map(Row::of).collect();
    if args.json {
        return out.json(&Report { rates: rows });
    }
    let mut table = Table::new(&["RATE", ">NUMBER", ">MULTIPLIER", ">MBIT/S", "C NAME"]);
    for row in rows {
        let or_dash = |number: Option<u32>| number.map_or_else(|| "-".into(), |n| n.to_string());
        table.row([
            row.speed,
            row.number.to_string(),
            or_dash(row.multiplier),
            or_dash(row.mbps),
            row.name.to_owned(),
        ]);
    }
    out.line(table)
}

impl Row {
    fn of(rate: Rate) -> Self {
        Self {
            name: rate.c_name().unwrap_or("-"),
            number: rate.raw(),
            speed: rate.to_string(),
            multiplier: rate.multiplier(),
            mbps: rate.mbps(),
        }
    }
}

fn none() -> Failure {
    Failure::new("there is no such rate").hint("uverbs rates shows all of them")
}
