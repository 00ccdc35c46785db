//! Streams by address beside librdmacm's rsockets: its `rstream` and our program with the same
//! pattern, alternately in one guest.

use super::Options;
use super::statistics::Pairs;
use crate::cargo::TARGET;
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use testbed::{Command, Guest, Kernel, Machine, WindowSize, cargo, host};

/// How long a server may take to listen, and a run to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The address of the device's interface.
const ADDRESS: &str = "10.1.0.1";

/// How much slower the typical pair may be, on a host with other work.
const NOISE: f64 = 0.95;

/// Sizes of transfers, and how many of them a run makes: one after another, each answered by one;
/// and in one direction, and then in the other. A run takes two or three seconds: shorter ones
/// differ more.
const SIZES: [(u32, u32, u32); 6] = [
    (64, 4000, 40_000),
    (1 << 10, 4000, 40_000),
    (4 << 10, 2500, 10_000),
    (16 << 10, 1200, 2500),
    (64 << 10, 400, 600),
    (1 << 20, 40, 40),
];

/// What is timed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Times {
    kind: Kind,
    size: u32,
    transfers: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Latency,
    Bandwidth,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    Micros,
    MibPerSecond,
    /// Instructions of a transfer.
    Thousands,
}

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let all = SIZES.iter().flat_map(|&(size, single, many)| {
        [(Kind::Latency, single), (Kind::Bandwidth, many)].map(|(kind, transfers)| Times {
            kind,
            size,
            transfers,
        })
    });
    let wanted: Vec<_> = all.filter(|times| times.is_wanted(options)).collect();
    if wanted.is_empty() {
        bail!("nothing is measured of that name");
    }
    let machine = Machine::new(Kernel::named(&options.kernel)?)
        .with_debian_tools()
        .with_debian_packages(&["rdmacm-utils"])
        .with_binary(program()?, "stream-times");
    let machine = if options.count {
        machine.counted()
    } else {
        machine
    };
    let guest = machine.boot()?;
    let release = guest.release();
    host::say(format_args!("booted {release}"));
    let mut rows = Vec::new();
    for times in wanted {
        rows.push((times, times.pairs(&guest, options)?));
    }
    guest.power_off()?;
    print_table(&release, options, &rows);
    let behind: Vec<_> = rows
        .iter()
        .filter(|(_, pairs)| is_behind(pairs, options))
        .map(|(times, _)| format!("{} {}", times.kind.name(), times.size))
        .collect();
    if behind.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("Behind: {}.", behind.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Our program, static, with the same C library as theirs: an emulator executes glibc's copies in
/// less than half the time of musl's, which says nothing about streams.
fn program() -> anyhow::Result<PathBuf> {
    let name = "stream-times";
    let flags = format!("target.{TARGET}.rustflags=['-Ctarget-feature=+crt-static']");
    let which = ["build", "--release", "--package", "interop", "--bin", name];
    let how = ["--target", TARGET, "--config", &flags];
    Ok(cargo::build_host_program(
        name,
        &[&which[..], &how].concat(),
    )?)
}

/// Times also pass a sign test; counts differ by a little in every pair.
fn is_behind(pairs: &Pairs, options: &Options) -> bool {
    pairs.is_below(NOISE) || (!options.count && pairs.is_clearly_worse())
}

impl Times {
    fn is_wanted(self, options: &Options) -> bool {
        let names = [self.kind.name().to_owned(), self.size.to_string()];
        options.filters.is_empty() || options.filters.iter().any(|filter| names.contains(filter))
    }

    /// Rounds, and transfers of one direction in each.
    fn pattern(self) -> [String; 2] {
        let (rounds, count) = match self.kind {
            Kind::Latency => (self.transfers, 1),
            Kind::Bandwidth => (1, self.transfers),
        };
        [rounds.to_string(), count.to_string()]
    }

    /// Alternately, swapping the order, so that a slow period of the machine affects both.
    fn pairs(self, guest: &Guest, options: &Options) -> anyhow::Result<Pairs> {
        let unit = self.kind.unit(options.count);
        let mut pairs = Pairs::new(unit == Unit::MibPerSecond);
        for round in 0..options.pairs() {
            let (theirs, ours) = if round % 2 == 0 {
                let theirs = self.theirs(guest)?;
                (theirs, self.ours(guest)?)
            } else {
                let ours = self.ours(guest)?;
                (self.theirs(guest)?, ours)
            };
            pairs.add(self.figure(theirs, unit), self.figure(ours, unit));
        }
        host::say(format_args!(
            "{} {}: theirs {:.2}, uverbs {:.2} {}",
            self.kind.name(),
            self.size,
            pairs.theirs(),
            pairs.ours(),
            unit.name()
        ));
        Ok(pairs)
    }

    /// The figure of a transfer that takes so many microseconds.
    fn figure(self, micros: f64, unit: Unit) -> f64 {
        match unit {
            // By the clock of a machine that counts, an instruction takes a nanosecond.
            Unit::Micros | Unit::Thousands => micros,
            Unit::MibPerSecond => f64::from(self.size) / micros / 1.048_576,
        }
    }

    /// The microseconds of a transfer by blocking rsockets.
    fn theirs(self, guest: &Guest) -> anyhow::Result<f64> {
        let ([rounds, count], size) = (self.pattern(), self.size.to_string());
        let words = ["-T", "b", "-S", &size, "-I", &rounds, "-C", &count];
        let server = [&["-b", ADDRESS], &words[..]].concat();
        let client = [&["-s", ADDRESS], &words[..]].concat();
        let said = both(guest, "rstream", (&server, "name"), &client)?;
        let last = said.split_whitespace().last();
        let time = last.and_then(|word| word.parse().ok());
        time.with_context(|| format!("rstream gives no figures:\n{said}"))
    }

    /// The same by our streams.
    fn ours(self, guest: &Guest) -> anyhow::Result<f64> {
        let ([rounds, count], size) = (self.pattern(), self.size.to_string());
        let address = format!("{ADDRESS}:7471");
        let words = [address.as_str(), &size, &rounds, &count];
        let server = [&["listen"], &words[..]].concat();
        let said = both(guest, "stream-times", (&server, "listening"), &words)?;
        let figure = said.split_once(" usec/xfer");
        let figure = figure.and_then(|(before, _)| before.split_whitespace().last());
        let time = figure.and_then(|word| word.parse().ok());
        time.with_context(|| format!("stream-times gives no figures:\n{said}"))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
        }
    }

    fn unit(self, is_counted: bool) -> Unit {
        match self {
            _ if is_counted => Unit::Thousands,
            Self::Latency => Unit::Micros,
            Self::Bandwidth => Unit::MibPerSecond,
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Micros => "µs",
            Self::MibPerSecond => "MiB/s",
            Self::Thousands => "1,000 instructions",
        }
    }
}

/// Runs a server, and its client when it is ready; returns what the client said.
fn both(
    guest: &Guest,
    program: &str,
    (server, ready): (&[&str], &str),
    client: &[&str],
) -> anyhow::Result<String> {
    let size = WindowSize {
        rows: 24,
        columns: 200,
    };
    let command = |words: &[&str]| {
        let command = Command::new(program).args(words.iter().copied());
        command.timeout(PATIENCE)
    };
    let server = guest.spawn(command(server).with_terminal(size))?;
    server.wait_for_text(ready, PATIENCE)?;
    let client = guest.run(command(client))?.check()?;
    server.wait()?.check()?;
    Ok(client.stdout_text())
}

fn print_table(release: &str, options: &Options, rows: &[(Times, Pairs)]) {
    let count = options.pairs();
    println!("\nLinux {release}, one rxe device, {count} pairs of runs, by blocking calls\n");
    println!(
        "{:<10} {:>8} {:>10} {:>10} {:>7} {:>15}  unit",
        "", "bytes", "rsockets", "uverbs", "ratio", "spread"
    );
    for (times, pairs) in rows {
        let (least, most) = pairs.spread();
        println!(
            "{:<10} {:>8} {:>10.2} {:>10.2} {:>7.2} {least:>6.2} – {most:<6.2}  {}",
            times.kind.name(),
            times.size,
            pairs.theirs(),
            pairs.ours(),
            pairs.ratio(),
            times.kind.unit(options.count).name()
        );
    }
    println!("\nMedians; ratio and spread are of the pairs, and above 1 uverbs is better.");
}
