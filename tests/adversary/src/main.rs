//! Runs random programs until one breaks a guarantee: `cargo xtask adversary`.

use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use adversary::finding::{Finding, Rule};
use adversary::op::{self, Op, What};
use adversary::run::{Devices, MODELS, Random, play, shrink};
use anyhow::{Context as _, bail};
use clap::{Parser, ValueEnum};

/// Run random safe programs on an in-process device that writes to all memory it has access to.
#[derive(Clone, Debug, Parser)]
#[command(name = "adversary", max_term_width = 100)]
struct Options {
    /// Number of programs to run.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    sequences: u64,
    /// Device model that they run on.
    #[arg(long, value_enum, default_value_t = Model::Fake)]
    model: Model,
    /// Seed of the programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of processes that share the work.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u64,
    /// The number of the first program.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Largest number of steps of a program.
    #[arg(long, value_name = "N", default_value_t = 48)]
    steps: usize,
    /// Check only this guarantee.
    #[arg(long, value_enum)]
    only: Option<Promise>,
    /// Print the program before each step, to see which one ended the process.
    #[arg(long)]
    say: bool,
    /// Never make steps of this kind: this uncovers what a known finding hides.
    #[arg(long, value_name = "STEP", value_delimiter = ',', value_parser = step_of)]
    without: Vec<What>,
    /// Run the program given by these bytes, in hexadecimal.
    #[arg(long, value_name = "HEX")]
    play: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// Two fake kernels with rxe devices.
    Fake,
    /// Two software ConnectX devices.
    Connectx,
    /// The same, with completions that carry only queue pair numbers.
    ConnectxV0,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Promise {
    Changed,
    Leaked,
    NotOut,
    Lost,
    Foreign,
    Garbled,
}

impl Promise {
    fn rule(self) -> Rule {
        match self {
            Self::Changed => Rule::Changed,
            Self::Leaked => Rule::Leaked,
            Self::NotOut => Rule::NotOut,
            Self::Lost => Rule::Lost,
            Self::Foreign => Rule::Foreign,
            Self::Garbled => Rule::Garbled,
        }
    }
}

impl Model {
    fn devices(self) -> Devices {
        let [(_, fake), (_, connectx), (_, connectx_v0)] = MODELS;
        match self {
            Self::Fake => fake,
            Self::Connectx => connectx,
            Self::ConnectxV0 => connectx_v0,
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let Some(hex) = &options.play {
        let bytes = unhex(hex).context("two digits for each byte")?;
        return Ok(report(&options, None, &op::program(&bytes)));
    }
    if options.jobs > 1 || options.sequences > SHARE && !options.say {
        return share(&options);
    }
    let since = Instant::now();
    let mut said = since;
    let last = options.first + options.sequences;
    for number in options.first..last {
        let mut ops = Random::of(options.seed, number).program(options.steps);
        ops.retain(|op| !options.without.contains(&op.what));
        if options.say {
            println!("program {number}: {}", hex(&ops));
        }
        let only = options.only.map(Promise::rule);
        if let Err(found) = play(options.model.devices(), &ops, only) {
            let done = number - options.first + 1;
            say_rate(done, since.elapsed());
            println!("program {number} of seed {}: {found}", options.seed);
            return Ok(report(&options, Some(&found), &ops));
        }
        if said.elapsed() > Duration::from_secs(60) {
            said = Instant::now();
            say_rate(number - options.first + 1, since.elapsed());
        }
    }
    say_rate(options.sequences, since.elapsed());
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn say_rate(count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64().max(1e-9);
    println!(
        "{count} programs in {:.1} s, {rate:.0}/s",
        took.as_secs_f64()
    );
}

/// Runs a program, and its shortest form if it breaks a guarantee.
fn report(options: &Options, found: Option<&Finding>, ops: &[Op]) -> ExitCode {
    let devices = options.model.devices();
    let only = options.only.map(Promise::rule);
    let again = play(devices, ops, only);
    let Err(again) = again else {
        println!(
            "{}",
            if found.is_some() {
                "not again"
            } else {
                "no finding"
            }
        );
        return ExitCode::from(u8::from(found.is_some()));
    };
    println!("{again}");
    let short = shrink(devices, ops, &again, only);
    if let Err(found) = play(devices, &short, only) {
        println!("shortest of {} steps: {found}", short.len());
    }
    for op in &short {
        println!("  {op}");
    }
    println!("bytes {}", hex(&short));
    ExitCode::FAILURE
}

fn hex(ops: &[Op]) -> String {
    let mut text = String::new();
    for byte in op::bytes(ops) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    pairs.chunks_exact(2).map(byte).collect()
}

/// Number of programs that one process runs. What is leaked on purpose stays until its process
/// ends.
const SHARE: u64 = 50_000;

/// Runs several processes at a time, each with its share of the program numbers.
fn share(options: &Options) -> anyhow::Result<ExitCode> {
    let since = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let said = Mutex::new(since);
    let work = || -> anyhow::Result<()> {
        while !failed.load(Ordering::Relaxed) {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            let count = SHARE.min(options.sequences.saturating_sub(start));
            if count == 0 {
                break;
            }
            let first = options.first + start;
            let output = child(options, first, count)?.output()?;
            if !output.status.success() {
                failed.store(true, Ordering::Relaxed);
                let text = String::from_utf8_lossy(&output.stdout);
                println!(
                    "{text}programs {first} to {}: {}",
                    first + count - 1,
                    output.status
                );
            }
            let all = done.fetch_add(count, Ordering::Relaxed) + count;
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.elapsed() > Duration::from_secs(60) {
                *said = Instant::now();
                say_rate(all, since.elapsed());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a thread died")))
    })?;
    say_rate(done.into_inner(), since.elapsed());
    Ok(ExitCode::from(u8::from(failed.into_inner())))
}

/// A kind of step by its name.
fn step_of(name: &str) -> Result<What, String> {
    What::all()
        .find(|what| format!("{what:?}").eq_ignore_ascii_case(name))
        .ok_or_else(|| {
            let names = What::all().map(|what| format!("{what:?}"));
            format!("there are: {}", names.collect::<Vec<_>>().join(", "))
        })
}

/// The command for a process that runs `count` programs from `first` on.
fn child(options: &Options, first: u64, count: u64) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let model = options.model.to_possible_value().context("a model")?;
    command
        .args(["--sequences", &count.to_string()])
        .args(["--model", model.get_name()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--first", &first.to_string()])
        .args(["--steps", &options.steps.to_string()])
        .stdin(Stdio::null());
    if !options.without.is_empty() {
        let names = options.without.iter().map(|what| format!("{what:?}"));
        command.args(["--without", &names.collect::<Vec<_>>().join(",")]);
    }
    if let Some(only) = options.only.and_then(|only| only.to_possible_value()) {
        command.args(["--only", only.get_name()]);
    }
    Ok(command)
}
