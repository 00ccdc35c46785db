//! `uverbs selftest`: nothing fails, it takes less than a minute, and its file names no keys.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::time::Duration;
use testbed::{Command, Guest, complaints};

const NAME: &str = "selftest";

/// What a run may take. Emulated processors are slow, and so is a busy host.
const LIMIT: Duration = Duration::from_secs(60);

/// What kernels say of requests that are meant to fail, and of datagrams with another key.
const MAY_SAY: [&str; 2] = ["non-flush error status", "bad qkey"];

/// Words that nothing in the file may be called by.
const SECRETS: [&str; 5] = ["rkey", "lkey", "qkey", "guid", "gid\""];

pub(super) fn is_wanted(filters: &[String]) -> bool {
    filters.is_empty() || filters.iter().any(|filter| NAME.contains(filter.as_str()))
}

/// Runs it on a device; tells how many checks there were.
pub(super) fn run(guest: &Guest, device: &str) -> anyhow::Result<String> {
    // It measures, and a host is busy at times.
    once(guest, device).or_else(|error| {
        println!("uverbs selftest on {device} ... once more: {error:#}");
        once(guest, device)
    })
}

fn once(guest: &Guest, device: &str) -> anyhow::Result<String> {
    // A plain guest has nothing to read a file with: the file is the standard error output.
    let command =
        Command::new("uverbs").args([NAME, "--device", device, "--json", "/proc/self/fd/2"]);
    let output = guest.run(command.timeout(2 * LIMIT))?;
    let said = output.stdout_text();
    ensure!(output.success(), "{}:\n{said}", output.ending_text());
    let last = said.lines().last().unwrap_or_default();
    ensure!(
        last.contains(" ok, 0 FAIL, "),
        "it ends with {last:?}:\n{said}"
    );
    let lines = said.lines().count() - 1;

    // It is written after each group, and each time whole.
    let written = output.stderr_text();
    let reports = serde_json::Deserializer::from_str(&written).into_iter::<Value>();
    let mut reports = reports.collect::<Result<Vec<_>, _>>()?;
    let mut report = reports.pop().context("no file was written")?;
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
    let seconds = report["seconds"].as_f64().context("no time")?;
    // Names of counters, which are no secrets.
    report["facts"]["capabilities"] = Value::Null;
    let text = report.to_string().to_lowercase();
    if let Some(secret) = SECRETS.iter().find(|secret| text.contains(**secret)) {
        bail!("the file has {secret:?}");
    }
    ensure!(seconds < LIMIT.as_secs_f64(), "it took {seconds:.0} s");

    let mut wrong = complaints::among(&output.kernel);
    wrong.retain(|line| !MAY_SAY.iter().any(|words| line.text.contains(words)));
    ensure!(wrong.is_empty(), "the kernel complained: {wrong:?}");
    Ok(format!(" ({last}, {seconds:.0} s)"))
}
