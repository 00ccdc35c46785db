//! Shows that each check of `uverbs selftest` fails when the device misbehaves.

use super::misbehaviours::{BEYOND, Function, ROWS, Row};
use super::once::{self, Run};
use super::rough;
use anyhow::{bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use testbed::{Guest, host};

/// The result of a check that was not made, because an earlier one did not end.
const NOT_CHECKED: &str = "not checked";

/// A fault, in the model's terms, and what the checks reported.
#[derive(Debug)]
pub(crate) struct Caught {
    pub(super) fault: String,
    pub(super) function: &'static str,
    /// Names of checks, and their findings.
    pub(super) said: Vec<(String, String)>,
}

/// Causes each fault on the functions of a machine, an ib and a roce one with the shaper on, and
/// verifies that the checks detect it. `runs` are complete runs on both functions.
pub(crate) fn run(guest: &Guest, runs: &[Run]) -> anyhow::Result<Vec<Caught>> {
    complete(runs)?;
    some(guest, &[])
}

/// As [`run`], only with the faults that contain one of these texts, or with all if there are no
/// filters.
pub(super) fn some(guest: &Guest, filters: &[String]) -> anyhow::Result<Vec<Caught>> {
    let since = Instant::now();
    let words = words(guest)?;
    let (mut caught, mut failed) = (Vec::new(), Vec::new());
    let wanted = |row: &&Row| {
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| row.fault.contains(filter.as_str()))
    };
    for row in ROWS.iter().filter(wanted) {
        // A host is busy at times.
        match provoke(guest, row).or_else(|_| provoke(guest, row)) {
            Ok(said) => {
                let fault = words.get(row.fault).map_or(row.fault, String::as_str);
                for (check, what) in &said {
                    println!("{:<24} {check}: {what}", row.fault);
                }
                caught.push(Caught {
                    fault: fault.to_owned(),
                    function: row.function.name(),
                    said,
                });
            }
            Err(error) => {
                println!("{} ... FAILED\n{error:#}", row.fault);
                failed.push(row.fault);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not found by the checks that should: {}", failed.join(", "));
    }
    // None of it persists.
    for function in [Function::Ib, Function::Roce] {
        let output = once::start(guest, &function.device(), &only(&["rings/RC send"]))?;
        ensure!(output.success(), "afterwards: {}", output.stdout_text());
    }
    host::say(format_args!(
        "made the device misbehave in {} ways, all of which were found ({:.0} s)",
        caught.len(),
        since.elapsed().as_secs_f64()
    ));
    Ok(caught)
}

/// Every check is covered by a fault, or listed as beyond them.
fn complete(runs: &[Run]) -> anyhow::Result<()> {
    let all: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| &run.checks)
        .map(String::as_str)
        .chain(rough::CHECKS)
        .collect();
    let shown: BTreeSet<&str> = ROWS.iter().flat_map(|row| row.checks).copied().collect();
    let beyond: BTreeSet<&str> = BEYOND.iter().map(|(check, _)| *check).collect();
    let both: Vec<_> = shown.intersection(&beyond).collect();
    ensure!(both.is_empty(), "found out and beyond it: {both:?}");
    let listed: BTreeSet<&str> = shown.union(&beyond).copied().collect();
    let without: Vec<_> = all.difference(&listed).collect();
    ensure!(without.is_empty(), "no fault makes these fail: {without:?}");
    let unknown: Vec<_> = listed.difference(&all).collect();
    ensure!(unknown.is_empty(), "there are no such checks: {unknown:?}");
    Ok(())
}

/// The model's descriptions of its misbehaviours, by name.
fn words(guest: &Guest) -> anyhow::Result<BTreeMap<String, String>> {
    let said = guest.connectx()?.ask("misbehaviours")?;
    let all: Vec<(String, String)> = serde_json::from_str(&said)?;
    let all: BTreeMap<_, _> = all.into_iter().collect();
    for name in all.keys() {
        ensure!(
            ROWS.iter().any(|row| row.fault == name),
            "the model can do {name} wrong, and no check is said to find it"
        );
    }
    Ok(all)
}

fn only(checks: &[&str]) -> Vec<String> {
    let each = checks.iter();
    each.flat_map(|check| ["--only".to_owned(), (*check).to_owned()])
        .collect()
}

/// Causes one fault; returns what the checks reported, all of which must fail.
fn provoke(guest: &Guest, row: &Row) -> anyhow::Result<Vec<(String, String)>> {
    let number = row.function as u8;
    let ask = |line: &str| once::ask(guest, &line.replace('F', &number.to_string()));
    let is_lasting = !row.fault.contains(' ');
    if is_lasting {
        ask(&format!("misbehave F {}", row.fault))?;
    } else {
        ask(row.fault)?;
    }
    let device = row.function.device();
    let output = match row.checks {
        [check] if rough::CHECKS.contains(check) => rough::play(guest, check, &device, number),
        checks => once::start(guest, &device, &only(checks)),
    };
    if is_lasting {
        ask("misbehave F")?;
    } else {
        ask(row.end)?;
    }
    let output = output?;
    let text = output.stdout_text();
    ensure!(
        output.code() == Some(1),
        "{} instead of an exit code of 1:\n{text}",
        output.ending_text(),
    );
    let report = once::report(&output)?;
    let mut said = Vec::new();
    for check in report["checks"].as_array().into_iter().flatten() {
        let (name, value) = (
            once::name(check),
            check["value"].as_str().unwrap_or_default(),
        );
        ensure!(
            check["status"] == "fail" && !value.starts_with(NOT_CHECKED),
            "{name} did not find it:\n{text}"
        );
        said.push((name, value.to_owned()));
    }
    ensure!(said.len() == row.checks.len(), "not all were made:\n{text}");
    Ok(said)
}

impl Function {
    fn device(self) -> String {
        format!("mlx5_{}", self as u8)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ib => "ib",
            Self::Roce => "roce",
        }
    }
}
