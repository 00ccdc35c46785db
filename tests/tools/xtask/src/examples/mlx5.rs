//! The examples for mlx5 devices, and commands of `uverbs`, on an InfiniBand and an Ethernet
//! function of the software ConnectX with shares, bandwidth caps and rates in effect.

use super::{build, is_wanted, said_by, with_example};
use crate::programs;
use crate::selftest::once::{self, Run};
use crate::selftest::{company, rough};
use anyhow::{Context as _, bail};
use std::time::Instant;
use testbed::connectx::NO_REPORTS;
use testbed::{Command, Connectx, Function, Guest, Kernel, Machine, host};

/// The functions that the examples are run on.
const DEVICES: [&str; 2] = ["mlx5_0", "mlx5_1"];

/// The scheduling trees of the guide, as files.
const TREES: [&str; 2] = ["scheduling.toml", "scheduling-other.toml"];

/// The fraction of a port's 10 Gb/s that the group with seven of ten shares gets, in percent, with
/// some tolerance for a busy host: without shares both get half.
const SEVEN_OF_TEN: std::ops::RangeInclusive<u32> = 60..=80;

/// The most that the group with the cap gets alone, in Mb/s: not much more than the cap. A busy
/// host may send less.
const UP_TO_THE_CAP: u32 = 4300;

/// A program with its arguments, and texts that it prints. DEVICE is replaced by a function's name.
type Line = (&'static str, &'static [&'static str]);

const EXAMPLES: [Line; 7] = [
    (
        "scheduling DEVICE",
        &[
            "├── g1  70%",
            "└── g2  30%  at most 4096 Mb/s",
            "refused: ",
            "destroy g2",
        ],
    ),
    ("pacing DEVICE", &[" kb/s for ", "refused: ", "place "]),
    (
        "devx DEVICE",
        &[
            "user contexts",
            "element ",
            "firmware_status BAD_PARAM, syndrome 0xc00002",
            "0 left behind",
        ],
    ),
    (
        "xrc DEVICE",
        &[
            "queue 0 received \"to the first\"",
            "queue 1 received \"to the second\"",
        ],
    ),
    (
        "dynamic_connections DEVICE",
        &[
            "the one target received \"one\"",
            "the other target received \"other\"",
        ],
    ),
    ("timestamps DEVICE", &["kHz", "10 stamps"]),
    (
        "device_memory DEVICE",
        &["the device counted to 42", "a peer reads 42"],
    ),
];

const COMMANDS: [Line; 6] = [
    (
        "uverbs info -v DEVICE",
        &[
            " to 100000000 kb/s",
            "scheduling, shares",
            "firmware commands               yes",
        ],
    ),
    (
        "uverbs sched show /scheduling.toml",
        &["├── g1  70%", "└── g2  30%  at most 4096 Mb/s"],
    ),
    (
        "uverbs sched plan /scheduling.toml -d DEVICE",
        &["create  root", "create  g1  leaf", "create  g2  leaf"],
    ),
    (
        "uverbs sched plan /scheduling-other.toml --from /scheduling.toml -d DEVICE",
        &["modify", "create  web  node", "destroy g2"],
    ),
    (
        "uverbs sched apply /scheduling.toml /scheduling-other.toml -d DEVICE",
        &["create  g2  leaf", "destroy g2", "destroy root"],
    ),
    (
        "uverbs trace --rings --output /dev/stdout selftest -d DEVICE --only completions/laps",
        &[
            "] RECEIVE",
            "] SEND index=0 qpn=0x",
            " flags=signaled",
            "] REQ request=SEND ",
            "] RESP_SEND byte_count=0",
        ],
    ),
];

/// Whether an example of this name is run here.
pub(crate) fn knows(name: &str) -> bool {
    EXAMPLES.iter().any(|line| program(line) == name)
}

fn program(line: &Line) -> &'static str {
    line.0.split(' ').next().unwrap_or_default()
}

/// Runs those whose names contain one of the filters, on each of these kernels.
pub(crate) fn run(kernels: &[&str], filters: &[String]) -> anyhow::Result<()> {
    let wanted: Vec<_> = EXAMPLES
        .iter()
        .chain(&COMMANDS)
        .filter(|line| filters.is_empty() || filters.iter().any(|filter| line.0.contains(filter)))
        .collect();
    let checked = is_wanted(filters);
    if wanted.is_empty() && !checked {
        return Ok(());
    }
    let built = build()?;
    let tool = programs::uverbs()?;
    let writer = rough::writer()?;
    let mut failed = Vec::new();
    for kernel in kernels {
        let connectx = Connectx::new(&[Function::Ib, Function::Roce]).shaper();
        let mut machine = Machine::new(Kernel::named(kernel)?)
            .connectx(connectx)
            .with_binary(&tool, "uverbs")
            .with_binary(&writer, rough::WRITER);
        for line in &EXAMPLES {
            machine = with_example(machine, &built, program(line))?;
        }
        for tree in TREES {
            machine = machine.with_file(format!("docs/examples/{tree}"), &format!("/{tree}"));
        }
        let guest = machine.boot()?;
        println!("\n     Running examples for mlx5 (kernel {kernel})");
        for (line, texts) in &wanted {
            for device in DEVICES {
                let line = line.replace("DEVICE", device);
                // Some take measurements, and a host is busy at times.
                let outcome = one(&guest, &line, texts).or_else(|error| {
                    println!("example {line} ... once more: {error:#}");
                    one(&guest, &line, texts)
                });
                match outcome {
                    Ok(figures) => println!("example {line} ... ok{figures}"),
                    Err(error) => {
                        println!("example {line} ... FAILED\n{error:#}");
                        failed.push(format!("{line} on {kernel}"));
                    }
                }
            }
        }
        // Last, because the model remembers the requests that are meant to fail. The result does
        // not depend on the kernel.
        if checked && kernels.first() == Some(kernel) {
            let wrong = selftest(&guest);
            failed.extend(wrong.iter().map(|what| format!("{what} on {kernel}")));
        }
        guest.power_off()?;
    }
    if !failed.is_empty() {
        bail!("examples: {}", failed.join(", "));
    }
    host::say(format_args!(
        "ran {} examples for mlx5 on {} kernels",
        wanted.len(),
        kernels.len()
    ));
    Ok(())
}

/// Runs the whole self-test on both functions, and its parts with a second host and with
/// disturbances; returns the names of those that failed.
fn selftest(guest: &Guest) -> Vec<String> {
    let mut failed = Vec::new();
    let mut report = |what: String, result: anyhow::Result<String>| match result {
        Ok(figures) => println!("{what} ... ok{figures}"),
        Err(error) => {
            println!("{what} ... FAILED\n{error:#}");
            failed.push(what);
        }
    };
    for device in DEVICES {
        let run = check(guest, device).map(|run| run.counts());
        report(format!("uverbs selftest of {device}"), run);
    }
    let since = Instant::now();
    let company = company::run(guest).map(|_| format!(" ({:.0} s)", since.elapsed().as_secs_f64()));
    let what = "uverbs selftest with a second host and trouble";
    report(what.to_owned(), company);
    failed
}

/// Runs one; it must leave nothing behind in the model, and cause no report of it.
fn one(guest: &Guest, line: &str, texts: &[&str]) -> anyhow::Result<String> {
    let census = || -> anyhow::Result<String> {
        let model = guest.connectx()?;
        Ok(format!(
            "{} {}",
            model.ask("census 0")?,
            model.ask("census 1")?
        ))
    };
    let before = census()?;
    let mut words = line.split(' ');
    let name = words.next().context("a program")?;
    let said = said_by(guest, Command::new(name).args(words))?;
    for text in texts {
        if !said.contains(text) {
            bail!("it did not say {text:?}, but:\n{said}");
        }
    }
    let after = census()?;
    if without_queues(&after) != without_queues(&before) {
        bail!("left behind:\n  before {before}\n  after  {after}");
    }
    let reports = guest.connectx()?.ask("reports")?;
    if reports != NO_REPORTS {
        bail!("the model reports: {reports}");
    }
    if name == "scheduling" {
        return shares(&said);
    }
    Ok(String::new())
}

/// Runs the self-test; the model must report nothing but requests that name memory incorrectly.
fn check(guest: &Guest, device: &str) -> anyhow::Result<Run> {
    let run = once::run(guest, device)?;
    let reports = guest.connectx()?.ask("reports")?;
    let kinds = reports.matches(':').count();
    if kinds > 1 || !reports.contains("memory key") {
        bail!("the model reports: {reports}");
    }
    Ok(run)
}

/// The driver has queues, too: it creates some when a vector is first used, or memory first
/// registered.
fn without_queues(census: &str) -> String {
    let kept = ["eq\"", "cq\"", "qp\""];
    census
        .split("(\"")
        .filter(|kind| !kept.iter().any(|kept| kind.starts_with(kept)))
        .collect()
}

/// Whether the two groups got their shares, and the second alone no more than its cap.
fn shares(said: &str) -> anyhow::Result<String> {
    let measured: Vec<_> = said
        .lines()
        .filter(|line| line.contains(" Mb/s"))
        .skip(1)
        .collect();
    let [first, second, alone] = measured.as_slice() else {
        bail!("not two groups and one alone:\n{said}");
    };
    let percent = number(first, "Mb/s, ", "%")?;
    if !SEVEN_OF_TEN.contains(&percent) {
        bail!("seven of ten shares are not {percent}%:\n{said}");
    }
    let alone_mbps = number(alone, "alone: ", " Mb/s")?;
    if alone_mbps > UP_TO_THE_CAP {
        bail!("a cap of 4096 Mb/s is not {alone_mbps} Mb/s:\n{said}");
    }
    let beside_mbps = number(second, ": ", " Mb/s")?;
    if alone_mbps <= beside_mbps {
        bail!("alone it gets {alone_mbps} Mb/s, and no more than beside the other:\n{said}");
    }
    Ok(format!(" ({first}; {second}; {alone})"))
}

/// The number between two texts.
fn number(line: &str, before: &str, after: &str) -> anyhow::Result<u32> {
    line.split_once(before)
        .and_then(|(_, rest)| rest.split_once(after))
        .and_then(|(digits, _)| digits.parse().ok())
        .with_context(|| format!("no number between {before:?} and {after:?} in {line:?}"))
}
