//! `cargo xtask mutants`: which small changes of the library no test notices.

use crate::cargo::{PACKAGES, THINNED};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use testbed::cargo::{command, workspace};
use testbed::host::{self, Tool};

/// The packages that are changed: the base and the providers.
const CHANGED: [&str; 4] = ["uverbs-core", "uverbs-rxe", "uverbs-mlx5", "uverbs-any"];

/// Survivors that are known, and what catches them elsewhere or why nothing can.
const KNOWN: &str = "tests/mutants.txt";

/// Where `cargo mutants` writes.
const OUTPUT: &str = "target/mutants/mutants.out";

/// What came of each change.
const OUTCOMES: &str = "outcomes.json";

/// The changes that it leaves out with `--iterate`.
const LEFT_OUT: &str = "caught.txt";

/// The tests that are run for every change. Those of `hostile-tests` take longer than all of them,
/// and are run only for what these miss.
const QUICK: [&str; 6] = [
    "uverbs-core",
    "uverbs-rxe",
    "uverbs-mlx5",
    "uverbs-any",
    "uverbs-fake",
    "fake-tests",
];

/// Seconds after which a change that makes tests run on counts as noticed.
const PATIENCE: &str = "90";

/// The fewest changes that have to be noticed, in percent.
const ENOUGH: usize = 90;

/// What `cargo mutants` ends with when changes were missed, or ran into the time limit.
const MISSED_OR_LATE: [i32; 2] = [2, 3];

/// Change the base and the providers in small ways, one at a time, and see whether a test fails
///
/// By `cargo mutants`, which is installed if it is missing. A change that no test notices has to be
/// listed in tests/mutants.txt with the test that notices it in a machine, or the reason why none
/// can. Fails when one is not listed, or when fewer than nine of ten are noticed.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Try every Nth change.
    #[arg(long, value_name = "N", default_value_t = 60)]
    every: usize,
    /// Start with this one of them, counted from 0: another sample of the same size.
    #[arg(long, value_name = "K", default_value_t = 0)]
    from: usize,
    /// Only changes of these packages.
    #[arg(long, value_name = "NAME", value_parser = CHANGED)]
    package: Vec<String>,
    /// Only changes whose descriptions match one of these expressions.
    #[arg(value_name = "REGEX")]
    filters: Vec<String>,
}

/// What `cargo mutants` writes down.
#[derive(Deserialize)]
struct Lab {
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: String,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Deserialize)]
struct Mutant {
    name: String,
}

/// What came of a sample.
#[derive(Debug, Default, Eq, PartialEq)]
struct Score {
    noticed: usize,
    missed: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(
        options.from < options.every,
        "--from {} of every {}: counted from 0",
        options.from,
        options.every
    );
    host::ensure(&[Tool::CargoMutants])?;
    let mut score = try_changes(&sample(options), &QUICK, true)?;
    if !score.missed.is_empty() {
        let second = try_changes(&only(&score.missed)?, &PACKAGES, false)?;
        score.noticed += second.noticed;
        score.missed = second.missed;
    }
    for change in &mut score.missed {
        *change = without_place(change);
    }
    judge(&score, &known(&workspace().join(KNOWN))?)
}

/// The arguments that select the sample.
fn sample(options: &Options) -> Vec<String> {
    let mut arguments = vec![
        format!("--shard={}/{}", options.from, options.every),
        "--sharding=round-robin".to_owned(),
    ];
    let packages: Vec<_> = match options.package.as_slice() {
        [] => CHANGED.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    arguments.extend(packages.iter().map(|name| format!("--package={name}")));
    arguments.extend(options.filters.iter().map(|regex| format!("--re={regex}")));
    arguments
}

/// The arguments that select the changes with these names: all others are written down as noticed
/// before. Expressions would also select every field that may be left out of a struct, whatever its
/// name.
fn only(names: &[String]) -> anyhow::Result<Vec<String>> {
    let packages = CHANGED.map(|name| format!("--package={name}"));
    let listed = changes().arg("--list").args(&packages).output()?;
    ensure!(listed.status.success(), "cargo mutants: {}", listed.status);
    let all = String::from_utf8(listed.stdout)?;
    let (wanted, others): (Vec<_>, Vec<_>) = all
        .lines()
        .partition(|change| names.iter().any(|name| name == change));
    ensure!(
        wanted.len() == names.len(),
        "{} changes are to be tried again, and {} of them are there",
        names.len(),
        wanted.len()
    );
    let folder = workspace().join(OUTPUT);
    fs::write(folder.join(LEFT_OUT), others.join("\n") + "\n")?;
    let mut arguments = packages.to_vec();
    arguments.push("--iterate".to_owned());
    Ok(arguments)
}

/// `cargo mutants` with what it never changes.
fn changes() -> Command {
    let mut command = command();
    command
        .args(["mutants", "--no-config"])
        .args(["--exclude", "**/tests.rs", "--exclude", "**/tests/**"])
        // Nearly always bits that do not overlap are put together, and it is no change. `&` in the
        // same places is one.
        .args(["--exclude-re", r"replace \| with \^"])
        // Compiled for the models of `cargo xtask loom` alone.
        .args(["--exclude", "**/sync/stand_in.rs"]);
    command
}

/// Runs `cargo mutants` over what `selection` selects, with the tests of the packages `tests`.
fn try_changes(selection: &[String], tests: &[&str], thinned: bool) -> anyhow::Result<Score> {
    let mut command = changes();
    command
        .args(["--output", "target/mutants"])
        .args(["--minimum-test-timeout", PATIENCE])
        .args(tests.iter().flat_map(|name| ["--test-package", name]))
        .args(selection)
        // Nobody debugs these programs, and linking them takes most of the time.
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    if thinned {
        command.env(THINNED, "1");
    }
    host::say(format_args!(
        "changes the library, and runs {}",
        tests.join(", ")
    ));
    let status = command.status()?;
    if !status.success()
        && !status
            .code()
            .is_some_and(|code| MISSED_OR_LATE.contains(&code))
    {
        bail!("cargo mutants: {status}");
    }
    let text = fs::read_to_string(workspace().join(OUTPUT).join(OUTCOMES));
    score(&text.with_context(|| format!("cargo mutants: {status}, and no {OUTCOMES}"))?)
}

/// What `cargo mutants` found.
fn score(outcomes: &str) -> anyhow::Result<Score> {
    let lab: Lab = serde_json::from_str(outcomes).context("cargo mutants wrote another form")?;
    let mut score = Score::default();
    for outcome in lab.outcomes {
        let Scenario::Mutant(mutant) = outcome.scenario else {
            continue;
        };
        match outcome.summary.as_str() {
            "CaughtMutant" | "Timeout" => score.noticed += 1,
            "MissedMutant" => score.missed.push(mutant.name),
            // It does not compile, and so is no change.
            "Unviable" => {}
            other => bail!("{}: {other}", mutant.name),
        }
    }
    Ok(score)
}

/// `file.rs:12:5: replace …` as `file.rs: replace …`, because lines move.
fn without_place(name: &str) -> String {
    let Some((place, change)) = name.split_once(": ") else {
        return name.to_owned();
    };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {change}")
}

/// The list of known survivors: a change, ` | `, and the reason; `#` begins a comment.
fn known(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = text.lines().map(str::trim);
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries
        .map(|line| {
            let entry = line.rsplit_once(" | ");
            let (change, why) = entry.with_context(|| format!("{KNOWN}: no reason: {line}"))?;
            Ok((change.to_owned(), why.to_owned()))
        })
        .collect()
}

fn judge(score: &Score, known: &BTreeMap<String, String>) -> anyhow::Result<ExitCode> {
    let tried = score.noticed + score.missed.len();
    ensure!(tried != 0, "nothing was changed");
    let mut unlisted = 0;
    for change in &score.missed {
        if let Some(why) = known.get(change) {
            println!("known    {change} ({why})");
        } else {
            unlisted += 1;
            println!("missed   {change}");
        }
    }
    println!(
        "{} of {tried} changes were noticed; of the others {unlisted} are not in {KNOWN}",
        score.noticed
    );
    let enough = score.noticed * 100 >= tried * ENOUGH;
    Ok(if enough && unlisted == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTCOMES: &str = r#"{"outcomes": [
        {"scenario": "Baseline", "summary": "Success"},
        {"scenario": {"Mutant": {"name": "a.rs:1:2: replace f -> u32 with 0"}}, "summary": "CaughtMutant"},
        {"scenario": {"Mutant": {"name": "a.rs:3:2: replace + with - in g"}}, "summary": "MissedMutant"},
        {"scenario": {"Mutant": {"name": "b.rs:3:2: replace h with ()"}}, "summary": "Timeout"},
        {"scenario": {"Mutant": {"name": "b.rs:9:2: replace i with ()"}}, "summary": "Unviable"}
    ], "total_mutants": 4}"#;

    #[test]
    fn mutants_that_do_not_compile_do_not_count() {
        let found = score(OUTCOMES).unwrap();
        assert_eq!(found.noticed, 2);
        assert_eq!(found.missed, ["a.rs:3:2: replace + with - in g"]);
        let kept = without_place(&found.missed[0]);
        assert_eq!(kept, "a.rs: replace + with - in g");
    }

    #[test]
    fn unlisted_or_too_many_survivors_fail() {
        let listed = BTreeMap::from([("x".to_owned(), "why".to_owned())]);
        let of = |noticed, missed: &[&str]| Score {
            noticed,
            missed: missed.iter().map(|&change| change.to_owned()).collect(),
        };
        let failed = |score| judge(&score, &listed).unwrap() != ExitCode::SUCCESS;
        assert!(!failed(of(9, &["x"])));
        assert!(failed(of(8, &["x"])));
        assert!(failed(of(99, &["y"])));
        assert!(judge(&of(0, &[]), &listed).is_err());
    }

    #[test]
    fn the_committed_list_is_read() {
        known(&workspace().join(KNOWN)).unwrap();
    }
}
