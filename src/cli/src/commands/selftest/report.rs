//! What is reported about each check, and the file that users send in.

use std::fmt;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use super::check::{Outcome, Trouble};

/// How a check ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Fail,
    /// It worked, but took too long.
    Slow,
    /// The device, the driver or the machine does not support it.
    Skip,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) status: Status,
    /// What was found, or what went wrong.
    pub(super) value: String,
    pub(super) expected: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    pub(super) seconds: f64,
}

/// The file. It contains no memory keys, no queue keys, no addresses and no GUIDs.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a, F> {
    /// The program and its version.
    pub(super) tool: &'static str,
    pub(super) version: &'static str,
    /// What was checked.
    pub(super) device: String,
    pub(super) port: u8,
    /// The requested checks; empty for all.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) only: &'a [String],
    pub(super) facts: F,
    /// The commands that open the device, with their replies.
    pub(super) opening: Vec<serde_json::Value>,
    pub(super) checks: Vec<Record>,
    pub(super) summary: Summary,
    /// False in the file of an interrupted run.
    pub(super) complete: bool,
    pub(super) seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Includes those that were slow.
    pub(super) ok: usize,
    pub(super) fail: usize,
    pub(super) slow: usize,
    pub(super) skip: usize,
}

impl Record {
    pub(super) fn new(
        group: &'static str,
        name: String,
        expected: &'static str,
        optional: bool,
        outcome: Outcome,
        took: Duration,
    ) -> Self {
        let (status, value, detail) = match outcome {
            Ok(found) if found.slow => (Status::Slow, found.value, found.detail),
            Ok(found) => (Status::Ok, found.value, found.detail),
            Err(Trouble::Unsupported(why)) if optional => (Status::Skip, why, None),
            Err(Trouble::Unsupported(why) | Trouble::Failed(why)) => (Status::Fail, why, None),
        };
        Self {
            group,
            name,
            status,
            value,
            expected,
            detail,
            seconds: took.as_secs_f64(),
        }
    }
}

impl Summary {
    pub(super) fn of(checks: &[Record]) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let slow = count(Status::Slow);
        Self {
            ok: count(Status::Ok) + slow,
            fail: count(Status::Fail),
            slow,
            skip: count(Status::Skip),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ok, {} FAIL, {} skip", self.ok, self.fail, self.skip)?;
        match self.slow {
            0 => Ok(()),
            slow => write!(f, " ({slow} of those that are ok were slow)"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, style): (_, Style) = match self.status {
            Status::Ok => ("ok  ", AnsiColor::Green.on_default()),
            Status::Fail => ("FAIL", AnsiColor::Red.on_default().bold()),
            Status::Slow => ("slow", AnsiColor::Yellow.on_default()),
            Status::Skip => ("skip", AnsiColor::Cyan.on_default()),
        };
        let name = format!("{}/{}", self.group, self.name);
        // Errors may have several lines; a check has only one.
        let value = self.value.replace('\n', " ");
        write!(f, "{style}{word}{style:#} {name}  {value}")?;
        match (self.expected, self.status) {
            // A skipped check has nothing to compare.
            ("", _) | (_, Status::Skip) => Ok(()),
            (expected, _) => write!(f, " ({expected})"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::check::Found;
    use super::*;

    fn record(optional: bool, outcome: Outcome) -> Record {
        let took = Duration::from_millis(1500);
        Record::new("rings", "send".into(), "as sent", optional, outcome, took)
    }

    /// Without colours.
    fn plain(record: &Record) -> String {
        anstream::adapter::strip_str(&record.to_string()).to_string()
    }

    #[test]
    fn a_check_is_one_line() {
        let line = plain(&record(false, Ok(Found::new("10 sizes"))));
        assert_eq!(line, "ok   rings/send  10 sizes (as sent)");
        let line = plain(&record(false, Ok(Found::new("9 s").slow_if(true))));
        assert_eq!(line, "slow rings/send  9 s (as sent)");
        let line = plain(&record(false, Err(Trouble::failed("two\nlines"))));
        assert_eq!(line, "FAIL rings/send  two lines (as sent)");
        let line = plain(&record(true, Err(Trouble::unsupported("it has none"))));
        assert_eq!(line, "skip rings/send  it has none");
    }

    #[test]
    fn only_what_a_device_may_lack_is_skipped() {
        let lacking = || Err(Trouble::unsupported("it has none"));
        assert_eq!(record(true, lacking()).status, Status::Skip);
        assert_eq!(record(false, lacking()).status, Status::Fail);
        let failed = record(true, Err(Trouble::failed("broken")));
        assert_eq!(failed.status, Status::Fail);
    }

    #[test]
    fn the_summary_counts_what_is_slow_as_ok() {
        let checks = [
            record(false, Ok(Found::new(""))),
            record(false, Ok(Found::new("").slow_if(true))),
            record(false, Err(Trouble::failed(""))),
            record(true, Err(Trouble::unsupported(""))),
        ];
        let summary = Summary::of(&checks);
        assert_eq!(
            summary.to_string(),
            "2 ok, 1 FAIL, 1 skip (1 of those that are ok were slow)"
        );
        let summary = Summary::of(&checks[..1]);
        assert_eq!(summary.to_string(), "1 ok, 0 FAIL, 0 skip");
    }

    #[test]
    fn the_file_has_every_check_whole() {
        let found = Found::new("10 sizes").detail("0, 1, 7");
        let checks = vec![record(false, Ok(found))];
        let report = Report {
            tool: "uverbs selftest",
            version: "0",
            device: "rxe0".into(),
            port: 1,
            only: &[],
            facts: (),
            opening: Vec::new(),
            summary: Summary::of(&checks),
            checks,
            complete: true,
            seconds: 1.5,
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["summary"]["ok"], 1);
        assert_eq!(
            json["checks"][0],
            serde_json::json!({
                "group": "rings", "name": "send", "status": "ok", "value": "10 sizes",
                "expected": "as sent", "detail": "0, 1, 7", "seconds": 1.5
            })
        );
    }
}
