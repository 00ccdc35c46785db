//! `cargo xtask fuzz`: libFuzzer with AddressSanitizer, target by target.

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use std::fs;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use testbed::cargo::workspace;
use testbed::host;

/// The fuzzers' target; the sanitizer requires an explicit one.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Flags that make a program count its edges for libFuzzer, as cargo-fuzz sets them.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Zsanitizer=address -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// The longest time that one input may take, in seconds.
const SLOWEST: u32 = 20;
/// The largest amount of memory a fuzzer may use, in MiB: what a hostile kernel refuses to destroy
/// is leaked, and adds up.
const MEMORY: u32 = 4096;

/// Fuzz every target with AddressSanitizer, and print its speed and coverage.
///
/// Only a toolchain is required: stable is allowed to use the nightly flags.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How long to fuzz each target, in minutes.
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Number of targets to fuzz at a time.
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZero<usize>,
    /// Length of the longest input, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    max_len: u32,
    /// Minimize the corpus to what its coverage needs, add that to the seeds, and do not fuzz.
    #[arg(long)]
    minimize: bool,
    /// Only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// The result of a target.
struct Outcome {
    name: String,
    executions: u64,
    per_second: u64,
    covered: u64,
    edges: u64,
    inputs: u64,
    finding: Option<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = workspace().join("fuzz");
    let targets = chosen(&folder, &options.targets)?;
    build(&folder, &targets)?;
    if options.minimize {
        for name in &targets {
            minimize(&folder, name, options.max_len)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = fuzz_all(&folder, &targets, options)?;
    if outcomes.len() > 1 {
        println!();
        outcomes.iter().for_each(print_one);
    }
    let found: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((&outcome.name, outcome.finding.as_ref()?)))
        .collect();
    for (name, finding) in &found {
        eprintln!("error: {name}: {finding}");
    }
    Ok(if found.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_one(outcome: &Outcome) {
    println!(
        "{:<18} {:>11} executions {:>7}/s {:>6} of {} edges {:>5} inputs  {}",
        outcome.name,
        outcome.executions,
        outcome.per_second,
        outcome.covered,
        outcome.edges,
        outcome.inputs,
        if outcome.finding.is_some() {
            "FINDING"
        } else {
            "ok"
        }
    );
}

/// The requested targets, which must exist.
fn chosen(folder: &Path, wanted: &[String]) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    let path = folder.join("fuzz_targets");
    for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            all.push(name.to_owned());
        }
    }
    all.sort();
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no target {unknown}; there are: {}",
            all.join(", ")
        );
    }
    if !wanted.is_empty() {
        all.retain(|name| wanted.contains(name));
    }
    Ok(all)
}

fn build(folder: &Path, targets: &[String]) -> anyhow::Result<()> {
    let mut command = testbed::cargo::command();
    command
        .current_dir(folder)
        .args(["build", "--release", "--target", TARGET])
        .args(targets.iter().flat_map(|name| ["--bin", name]))
        .env("RUSTFLAGS", FLAGS)
        .env("RUSTC_BOOTSTRAP", "1");
    host::say(format_args!("builds {} fuzzers", targets.len()));
    Ok(host::run(&mut command)?)
}

/// A fuzzer with the arguments common to all its runs.
fn fuzzer(folder: &Path, name: &str, max_len: u32) -> Command {
    let mut command = Command::new(
        folder
            .join("target")
            .join(TARGET)
            .join("release")
            .join(name),
    );
    command
        .current_dir(folder)
        // Memory of objects whose destruction is refused is leaked on purpose.
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_odr_violation=0")
        .arg(format!("-max_len={max_len}"))
        .arg(format!("-timeout={SLOWEST}"))
        .arg(format!("-rss_limit_mb={MEMORY}"));
    command
}

/// The corpus that grows here, and the committed seeds.
fn inputs(folder: &Path, name: &str) -> anyhow::Result<[PathBuf; 2]> {
    let folders = ["corpus", "seeds"].map(|kind| folder.join(kind).join(name));
    for folder in &folders {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(folders)
}

/// Fuzzes `jobs` targets at a time.
fn fuzz_all(folder: &Path, targets: &[String], options: &Options) -> anyhow::Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut outcomes = Vec::new();
        while let Some(name) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            host::say(format_args!("fuzzes {name}"));
            let outcome = fuzz(folder, name, options)?;
            print_one(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    };
    let done = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.get()).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .map_err(|_| anyhow!("a fuzzer's thread died"))?
            })
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut outcomes: Vec<_> = done.into_iter().flatten().collect();
    outcomes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(outcomes)
}

fn fuzz(folder: &Path, name: &str, options: &Options) -> anyhow::Result<Outcome> {
    let artifacts = folder.join("artifacts").join(name);
    fs::create_dir_all(&artifacts).with_context(|| artifacts.display().to_string())?;
    let mut command = fuzzer(folder, name, options.max_len);
    // 0 would mean no limit.
    let seconds = (options.minutes * 60.0).max(1.0);
    let mut child = command
        .arg(format!("-max_total_time={seconds:.0}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1")
        .args(inputs(folder, name)?)
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("the fuzzer {name}"))?;
    let mut outcome = Outcome {
        name: name.to_owned(),
        executions: 0,
        per_second: 0,
        covered: 0,
        edges: 0,
        inputs: 0,
        finding: None,
    };
    let mut last = Vec::new();
    let stderr = child.stderr.take().context("its output")?;
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        read_line(&mut outcome, &line);
        last.push(line);
        if last.len() > 60 {
            last.remove(0);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        eprintln!("{}", last.join("\n"));
        let text = outcome.finding.take().unwrap_or_default();
        outcome.finding = Some(format!(
            "{status}; the input is in {}; {text}",
            artifacts.display()
        ));
    }
    Ok(outcome)
}

/// Takes the figures from a line of libFuzzer's output.
fn read_line(outcome: &mut Outcome, line: &str) {
    let after = |mark: &str| {
        let rest = line.split_once(mark)?.1.trim_start();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    if let Some(edges) = after("PC tables (") {
        outcome.edges = edges;
    }
    if let Some(covered) = after(" cov: ") {
        outcome.covered = covered;
        outcome.inputs = after(" corp: ").unwrap_or(outcome.inputs);
    }
    if let Some(executions) = after("stat::number_of_executed_units:") {
        outcome.executions = executions;
    }
    if let Some(per_second) = after("stat::average_exec_per_sec:") {
        outcome.per_second = per_second;
    }
    let first = outcome.finding.is_none();
    if first && (line.contains("panicked at") || line.contains("ERROR: ")) {
        outcome.finding = Some(line.to_owned());
    }
}

/// Adds inputs to the seeds that cover what the seeds do not.
fn minimize(folder: &Path, name: &str, max_len: u32) -> anyhow::Result<()> {
    let [corpus, seeds] = inputs(folder, name)?;
    let mut command = fuzzer(folder, name, max_len);
    command.arg("-merge=1").args([seeds, corpus]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    host::say(format_args!("merges {name}"));
    Ok(host::run(&mut command)?)
}
