//! `cargo xtask bench`: our command-line tool against perftest, in pairs of runs in one guest.

mod cost;
mod measure;
mod statistics;
mod streams;

use crate::programs;
use anyhow::bail;
use clap::Args;
use measure::{Measure, Place};
use statistics::Pairs;
use std::process::ExitCode;
use testbed::{Guest, Kernel, Machine, host};

/// Compare bandwidth and latency over rxe with perftest's, or the cost of mlx5's data path with
/// libmlx5's.
#[derive(Args, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Instead count instructions on a software ConnectX, compared with libmlx5's.
    #[arg(long, conflicts_with_all = ["pairs", "iterations"])]
    mlx5: bool,
    /// Instead measure the data path in a user's crate, on this machine: by the handles of any
    /// vendor, and by typed ones.
    #[arg(long, conflicts_with_all = ["mlx5", "pairs", "iterations", "kernel"])]
    user: bool,
    /// Only its times, beside those of libmlx5.
    #[arg(long, requires = "user")]
    times: bool,
    /// The part of --user that needs no virtual machine: queues that own their memory, and hubs.
    #[arg(long, conflicts_with_all = ["mlx5", "user", "c", "pairs", "iterations", "kernel"])]
    owned: bool,
    /// Instead compare what the hot functions of a user's crate execute (stores, branches, locks,
    /// calls) with tests/cost/hot.txt.
    #[arg(long, conflicts_with_all = ["mlx5", "user", "owned", "c", "pairs", "iterations", "kernel"])]
    hot: bool,
    /// Rewrite that file.
    #[arg(long, requires = "hot")]
    write: bool,
    /// Instead count instructions of C programs over this project's libibverbs.so.1, compared with
    /// Debian's.
    #[arg(long, conflicts_with_all = ["mlx5", "user", "pairs", "iterations"])]
    c: bool,
    /// On this machine, with a software ConnectX in the process instead of a guest, in a minute.
    /// What Debian's library takes is what was counted last.
    #[arg(long, requires = "c", conflicts_with = "kernel")]
    native: bool,
    /// Instead compare streams by address with librdmacm's (rsockets), size by size: FILTERs are
    /// sizes in bytes, or `latency` and `bandwidth`.
    #[arg(long, conflicts_with_all = ["mlx5", "user", "owned", "hot", "c", "iterations", "json"])]
    streams: bool,
    /// Executed instructions of both sides and the kernel instead of time, which do not depend on
    /// what else the host does. One pair of runs is enough.
    #[arg(long, requires = "streams")]
    count: bool,
    /// Kernel: 5.10, 6.1, 6.12 or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Number of pairs of runs. Default: 7, of times of streams 15
    #[arg(long)]
    pairs: Option<usize>,
    /// Number of operations in each run.
    #[arg(long, default_value_t = 2000)]
    iterations: u32,
    /// Write the table as JSON instead.
    #[arg(long)]
    json: bool,
    /// Measure only quantities whose names, or places, contain one of these texts.
    #[arg(value_name = "FILTER", conflicts_with = "mlx5")]
    filters: Vec<String>,
}

impl Options {
    /// Times of streams need more to tell a few per cent from chance: both ends and the driver's
    /// workers share two processors.
    fn pairs(&self) -> usize {
        let is_uneven = self.streams && !self.count;
        self.pairs.unwrap_or(if is_uneven { 15 } else { 7 })
    }

    fn wants(&self, measure: &Measure) -> bool {
        let texts = [measure.name, measure.place.describe()];
        let named = |text: &String| texts.iter().any(|own| own.contains(text.as_str()));
        self.filters.is_empty() || self.filters.iter().any(named)
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.user && options.times {
        return cost::turns::run(options.json);
    }
    if options.user {
        return cost::user::run(options.json);
    }
    if options.owned {
        return cost::user::run_owned(options.json);
    }
    if options.hot {
        return cost::hot::run(options.write);
    }
    if options.streams {
        return streams::run(options);
    }
    if options.c {
        return cost::c_face::run(options);
    }
    if options.mlx5 {
        return cost::run(options);
    }
    if !measure::ALL.iter().any(|measure| options.wants(measure)) {
        bail!("nothing is measured whose name or place has one of these texts");
    }
    let mut rows = Vec::new();
    let mut release = String::new();
    for place in Place::ALL {
        let wanted = |measure: &&Measure| measure.place == place && options.wants(measure);
        let wanted: Vec<_> = measure::ALL.iter().filter(wanted).collect();
        if wanted.is_empty() {
            continue;
        }
        let machine = Machine::new(Kernel::named(&options.kernel)?)
            .topology(place.topology())
            .with_debian_tools()
            .with_binary(programs::uverbs()?, "uverbs");
        let guest = machine.boot()?;
        host::say(format_args!(
            "booted {} in {:.1} s",
            guest.release(),
            guest.boot_time().as_secs_f64()
        ));
        for measure in wanted {
            rows.push((measure, pairs(&guest, measure, options)?));
        }
        release = guest.release();
        guest.power_off()?;
    }
    if options.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(measure, pairs)| pairs.json(measure))
            .collect();
        println!("{}", serde_json::Value::from(rows));
    } else {
        print_table(&release, options, &rows);
    }
    let behind = rows.iter().any(|(_, pairs)| pairs.is_clearly_worse());
    Ok(if behind {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs theirs and ours alternately, swapping the order, so that a slow period of the machine
/// affects both.
fn pairs(guest: &Guest, measure: &Measure, options: &Options) -> anyhow::Result<Pairs> {
    let mut pairs = Pairs::new(measure.more_is_better());
    for round in 0..options.pairs() {
        let (theirs, ours) = if round % 2 == 0 {
            let theirs = measure.theirs(guest, options.iterations)?;
            (theirs, measure.ours(guest, options.iterations)?)
        } else {
            let ours = measure.ours(guest, options.iterations)?;
            (measure.theirs(guest, options.iterations)?, ours)
        };
        pairs.add(theirs, ours);
        host::say(format_args!(
            "{}, {} {}/{}: theirs {theirs:.2}, uverbs {ours:.2} {}",
            measure.place.describe(),
            measure.name,
            round + 1,
            options.pairs(),
            measure.unit
        ));
    }
    Ok(pairs)
}

fn print_table(release: &str, options: &Options, rows: &[(&Measure, Pairs)]) {
    println!(
        "\nLinux {release}, {} pairs of {} operations",
        options.pairs(),
        options.iterations
    );
    for place in Place::ALL {
        let rows = rows.iter().filter(|(measure, _)| measure.place == place);
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            continue;
        }
        println!(
            "\n{:<28} {:>12} {:>12} {:>8} {:>15}  unit",
            place.describe(),
            "theirs",
            "uverbs",
            "ratio",
            "spread"
        );
        for (measure, pairs) in rows {
            let (least, most) = pairs.spread();
            println!(
                "{:<28} {:>12.2} {:>12.2} {:>8.2} {least:>6.2} – {most:<6.2}  {}",
                measure.name,
                pairs.theirs(),
                pairs.ours(),
                pairs.ratio(),
                measure.unit
            );
        }
    }
    println!("\nMedians; ratio and spread are of the pairs, and above 1 uverbs is better.");
    for (measure, _) in rows.iter().filter(|(_, pairs)| pairs.is_clearly_worse()) {
        let place = measure.place.describe();
        println!("Behind by more than chance: {place}, {}.", measure.name);
    }
}
