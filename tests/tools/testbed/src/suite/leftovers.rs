//! What a test leaves behind.

use crate::{Command, Error, Guest, Output};
use serde_json::{Map, Value};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the kernel may take to clean up after a process.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Objects of the model that belong to the kernel: the driver creates an event queue when a vector
/// is first used, and keeps it.
const KEPT: [&str; 1] = ["eq"];

/// The prefix by which a test announces on standard output, one per line, reports that it provokes
/// from the software ConnectX.
const EXCUSE: &str = "the model may report: ";

/// What exists on a machine between tests.
#[derive(Debug)]
pub(super) struct Inventory {
    program: String,
    /// What the program prints and what the model counts, each with its name.
    counts: Vec<(String, String)>,
    /// What the model has reported so far.
    reports: Map<String, Value>,
}

impl Inventory {
    pub(super) fn take(guest: &Guest, program: &str) -> Result<Self, Error> {
        let printed = guest.run(Command::new(program))?.check()?.stdout_text();
        let mut counts = vec![(program.to_owned(), printed)];
        if let Ok(connectx) = guest.connectx() {
            for function in 0..connectx.functions() {
                let question = format!("census {function}");
                let answer = connectx.ask(&question)?;
                counts.push((question, without_kept(&answer)));
            }
        }
        Ok(Self {
            program: program.into(),
            counts,
            reports: reports(guest)?,
        })
    }

    /// What the model has reported by now is no concern of the next test, and what the last one was
    /// permitted to provoke is incorrect again.
    pub(super) fn forgive(&mut self, guest: &Guest) -> Result<(), Error> {
        if let Ok(connectx) = guest.connectx() {
            connectx.ask("expect")?;
        }
        self.reports = reports(guest)?;
        Ok(())
    }

    /// What there is after a test, as soon as nothing is left behind.
    pub(super) fn after(&self, guest: &Guest) -> Result<Self, Error> {
        let since = Instant::now();
        loop {
            let now = Self::take(guest, &self.program)?;
            if now.counts == self.counts || since.elapsed() > PATIENCE {
                return Ok(now);
            }
            sleep(PAUSE);
        }
    }

    /// What there is more or less of after a test, and what the model reported meanwhile, each as a
    /// description.
    pub(super) fn leftovers(&self, after: &Self, output: &Output) -> Vec<String> {
        let mut words = self.differences(after);
        words.extend(self.new_reports(after, &output.stdout_text()));
        words
    }

    fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = self.counts.iter().zip(&now.counts);
        pairs
            .filter(|(before, after)| before != after)
            .map(|((name, before), (_, after))| {
                format!("left behind, by {name}:\n  before {before}\n  after  {after}")
            })
            .collect()
    }

    fn new_reports(&self, now: &Self, stdout: &str) -> Vec<String> {
        let excuses: Vec<_> = stdout
            .lines()
            .filter_map(|line| line.split_once(EXCUSE))
            .map(|(_, words)| words)
            .collect();
        now.reports
            .iter()
            .filter(|(what, count)| self.reports.get(*what) != Some(count))
            .filter(|(what, _)| !excuses.iter().any(|words| what.contains(words)))
            .map(|(what, count)| format!("the model reports: {what} ({count} by now)"))
            .collect()
    }
}

/// What the software ConnectX has reported, and how often.
fn reports(guest: &Guest) -> Result<Map<String, Value>, Error> {
    let Ok(connectx) = guest.connectx() else {
        return Ok(Map::new());
    };
    let answer = connectx.ask("reports")?;
    serde_json::from_str(&answer)
        .map_err(|error| Error::packages(format!("reports: {answer}"), error))
}

/// A census, `[("kind", count), …]`, without the kinds that may be kept.
fn without_kept(census: &str) -> String {
    let kinds = census.trim_matches(['[', ']']).split_inclusive("), ");
    kinds
        .filter(|kind| {
            !KEPT
                .iter()
                .any(|kept| kind.starts_with(&format!("(\"{kept}\"")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Inventory, without_kept};
    use serde_json::json;

    fn inventory(count: &str, reports: &serde_json::Value) -> Inventory {
        Inventory {
            program: String::new(),
            counts: vec![("census 0".into(), count.into())],
            reports: reports.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn event_queues_may_stay() {
        let census = r#"[("pd", 3), ("eq", 4), ("cq", 1)]"#;
        assert_eq!(without_kept(census), r#"("pd", 3), ("cq", 1)"#);
    }

    #[test]
    fn more_of_anything_is_reported() {
        let before = inventory("qp 1", &json!({"overrun": 1}));
        assert!(before.differences(&before).is_empty());
        let after = inventory("qp 2", &json!({"overrun": 2, "foreign page": 1}));
        assert_eq!(before.differences(&after).len(), 1);
        assert_eq!(before.new_reports(&after, "").len(), 2);
        let excused = before.new_reports(&after, "test a ... the model may report: overrun\n");
        assert_eq!(
            excused,
            ["the model reports: foreign page (1 by now)"].map(str::to_owned)
        );
    }
}
