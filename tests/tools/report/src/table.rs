//! A report as a readable table.

use super::{Check, Report};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The facts printed about the device and the machine, by their names in the file.
const FACTS: [&str; 10] = [
    "kernel",
    "distribution",
    "machine",
    "processor",
    "driver",
    "driver_version",
    "firmware",
    "board_id",
    "vendor_part_id",
    "pci",
];

/// The words printed for the results of a run, by those in the file.
const WORDS: [(&str, &str); 4] = [
    ("ok", "ok"),
    ("slow", "slow"),
    ("fail", "FAIL"),
    ("skip", "skip"),
];

/// The whole report, or without what succeeded.
pub(crate) fn of(report: &Report, failed_only: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<16} {value}");
    };
    row(
        "device",
        &format!("{}, port {}", report.device, report.port),
    );
    row("program", &format!("{} {}", report.tool, report.version));
    for name in FACTS {
        match &report.facts[name] {
            Value::Null => {}
            Value::String(fact) => row(name, fact),
            Value::Object(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|(part, value)| format!("{part} {value}"))
                    .collect();
                row(name, &parts.join(", "));
            }
            other => row(name, &other.to_string()),
        }
    }
    if !report.only.is_empty() {
        row("only", &report.only.join(", "));
    }
    if !report.complete {
        row("complete", "no: the run was cut off");
    }
    text.push('\n');
    let shown = |check: &&Check| !failed_only || !["ok", "slow"].contains(&&*check.status);
    let width = |part: fn(&Check) -> &str| {
        let lengths = report
            .checks
            .iter()
            .map(|check| part(check).chars().count());
        lengths.max().unwrap_or(0)
    };
    let (groups, names) = (width(|check| &check.group), width(|check| &check.name));
    for check in report.checks.iter().filter(shown) {
        let Check {
            group,
            name,
            value,
            expected,
            seconds,
            ..
        } = check;
        let _ = write!(
            text,
            "{:<4}  {group:groups$}  {name:names$}  {seconds:>6.2} s  {value}",
            word(&check.status)
        );
        if check.status == "fail" && !expected.is_empty() {
            let _ = write!(text, " ({expected})");
        }
        text.push('\n');
    }
    let mut counts = BTreeMap::new();
    for check in &report.checks {
        *counts.entry(word(&check.status)).or_insert(0_u32) += 1;
    }
    let count = |word: &str| counts.get(word).copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "{} ok, {} FAIL, {} skip, {} slow of those that are ok, {:.0} s",
        count("ok") + count("slow"),
        count("FAIL"),
        count("skip"),
        count("slow"),
        report.seconds
    );
    text
}

fn word(status: &str) -> &str {
    let known = WORDS.iter().find(|(name, _)| *name == status);
    known.map_or(status, |(_, word)| word)
}
