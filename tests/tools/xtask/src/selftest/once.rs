//! One run of `uverbs selftest` in a machine: its output and its file.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::time::Duration;
use testbed::{Child, Command, Guest, Output, complaints};

pub(crate) const NAME: &str = "selftest";

/// Time limit of a run. Emulated processors are slow, and so is a busy host.
const LIMIT: Duration = Duration::from_secs(60);

/// What kernels log about requests that are meant to fail, and about datagrams with another key.
const MAY_SAY: [&str; 2] = ["non-flush error status", "bad qkey"];

/// Words that no name in the file may contain.
const SECRETS: [&str; 5] = ["rkey", "lkey", "qkey", "guid", "gid\""];

/// A run without failures.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its output: a line for each check, and the summary.
    pub(crate) text: String,
    /// The file.
    pub(crate) report: Value,
    /// The names of the checks, with their groups.
    pub(crate) checks: Vec<String>,
}

impl Run {
    /// The summary and the time.
    pub(crate) fn counts(&self) -> String {
        let last = self.text.lines().last().unwrap_or_default();
        let seconds = self.report["seconds"].as_f64().unwrap_or_default();
        format!(" ({last}, {seconds:.0} s)")
    }
}

/// Runs the whole self-test on a device, where nothing may fail.
pub(crate) fn run(guest: &Guest, device: &str) -> anyhow::Result<Run> {
    // It takes measurements, and a host is busy at times.
    once(guest, device).or_else(|error| {
        println!("uverbs selftest on {device} ... once more: {error:#}");
        once(guest, device)
    })
}

/// Starts it with further arguments. A plain guest has no program to read a file: the file is
/// written to standard error.
pub(super) fn start(guest: &Guest, device: &str, args: &[String]) -> anyhow::Result<Output> {
    Ok(spawn(guest, device, args)?.wait()?)
}

/// As [`start`], to interact with it.
pub(super) fn spawn(guest: &Guest, device: &str, args: &[String]) -> anyhow::Result<Child> {
    let command =
        Command::new("uverbs").args([NAME, "--device", device, "--json", "/proc/self/fd/2"]);
    Ok(guest.spawn(command.args(args).timeout(3 * LIMIT))?)
}

/// The final contents of the file: it is rewritten completely after each group.
pub(super) fn report(output: &Output) -> anyhow::Result<Value> {
    let written = output.stderr_text();
    // Before the file there may be a request to the operator.
    let file = &written[written.find('{').unwrap_or(written.len())..];
    let reports = serde_json::Deserializer::from_str(file).into_iter::<Value>();
    // After the file there may be an error.
    let mut reports: Vec<Value> = reports.map_while(Result::ok).collect();
    reports
        .pop()
        .with_context(|| format!("no file was written:\n{written}"))
}

fn once(guest: &Guest, device: &str) -> anyhow::Result<Run> {
    let output = start(guest, device, &[])?;
    let text = output.stdout_text();
    ensure!(output.success(), "{}:\n{text}", output.ending_text());
    let last = text.lines().last().unwrap_or_default();
    ensure!(
        last.contains(" ok, 0 FAIL, "),
        "it ends with {last:?}:\n{text}"
    );
    let lines = text.lines().count() - 1;

    let report = report(&output)?;
    ensure!(report["complete"] == true, "the file is not complete");
    let checks = report["checks"].as_array().context("no checks")?;
    ensure!(
        checks.len() == lines,
        "{} checks, {lines} lines",
        checks.len()
    );
    for check in checks {
        for part in ["group", "name", "status", "value", "expected", "seconds"] {
            ensure!(!check[part].is_null(), "{check} has no {part}");
        }
    }
    let names = checks.iter().map(name).collect();
    let seconds = report["seconds"].as_f64().context("no time")?;
    let mut searched = report.clone();
    // Names of counters, which are not secret.
    searched["facts"]["capabilities"] = Value::Null;
    let searched = searched.to_string().to_lowercase();
    if let Some(secret) = SECRETS.iter().find(|secret| searched.contains(**secret)) {
        bail!("the file has {secret:?}");
    }
    ensure!(seconds < LIMIT.as_secs_f64(), "it took {seconds:.0} s");

    let mut wrong = complaints::among(&output.kernel);
    wrong.retain(|line| !MAY_SAY.iter().any(|words| line.text.contains(words)));
    ensure!(wrong.is_empty(), "the kernel complained: {wrong:?}");
    Ok(Run {
        text,
        report,
        checks: names,
    })
}

/// Sends a line to the software ConnectX.
pub(super) fn ask(guest: &Guest, line: &str) -> anyhow::Result<()> {
    let answer = guest.connectx()?.ask(line)?;
    ensure!(answer == "ok", "{line}: {answer}");
    Ok(())
}

/// The name of a check in the file, with its group.
pub(super) fn name(check: &Value) -> String {
    let part = |part: &str| check[part].as_str().unwrap_or_default();
    format!("{}/{}", part("group"), part("name"))
}
