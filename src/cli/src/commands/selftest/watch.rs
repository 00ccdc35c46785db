//! Runs the checks of a group one after another, without waiting for one that hangs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::check::{Check, Outcome, Trouble};
use super::report::Record;
use super::subject::Subject;
use crate::failure::{Failure, Result};

/// Checks that belong together.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// How long all of them together may take.
    pub(super) limit: Duration,
    pub(super) checks: fn() -> Vec<Check>,
}

/// What is known about a check before it is run.
struct Plan {
    name: String,
    expected: &'static str,
    optional: bool,
}

/// A check that has ended.
struct Done {
    outcome: Outcome,
    took: Duration,
}

/// Runs these checks of `group`, and passes each to `report` as it ends.
///
/// A check that panics has failed, and the next one is run. One that does not end in time has
/// failed as well; its thread is abandoned, and the checks after it have failed, too, because they
/// were not run.
pub(super) fn run(
    group: &Group,
    checks: Vec<Check>,
    subject: &Arc<Subject>,
    report: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let plans: Vec<Plan> = checks
        .iter()
        .map(|check| Plan {
            name: check.name.to_string(),
            expected: check.expected,
            optional: check.optional,
        })
        .collect();
    let (sender, receiver) = channel();
    let subject = Arc::clone(subject);
    thread::Builder::new()
        .name(group.name.to_owned())
        .spawn(move || make(checks, &subject, &sender))
        .map_err(|error| Failure::new(format_args!("starting a thread: {error}")))?;
    collect(group, plans, &receiver, report)
}

fn make(checks: Vec<Check>, subject: &Subject, sender: &Sender<Done>) {
    for check in checks {
        let start = Instant::now();
        let look = AssertUnwindSafe(|| (check.look)(subject));
        let outcome = catch_unwind(look).unwrap_or_else(|payload| Err(panicked(&*payload)));
        let took = start.elapsed();
        if sender.send(Done { outcome, took }).is_err() {
            // Nothing waits for it any more.
            return;
        }
    }
}

fn collect(
    group: &Group,
    plans: Vec<Plan>,
    receiver: &Receiver<Done>,
    mut report: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + group.limit;
    let mut over = None;
    for plan in plans {
        let start = Instant::now();
        let done = if over.is_some() {
            Err("not checked: ".to_owned() + over.unwrap_or_default())
        } else {
            let left = end.saturating_duration_since(start);
            receiver.recv_timeout(left).map_err(|error| {
                over = Some("an earlier check of the group did not end");
                match error {
                    RecvTimeoutError::Timeout => {
                        format!("did not end: the group has {:?}", group.limit)
                    }
                    RecvTimeoutError::Disconnected => "its thread ended".to_owned(),
                }
            })
        };
        let done = done.unwrap_or_else(|why| Done {
            outcome: Err(Trouble::Failed(why)),
            took: start.elapsed(),
        });
        report(Record::new(
            group.name,
            plan.name,
            plan.expected,
            plan.optional,
            done.outcome,
            done.took,
        ))?;
    }
    Ok(())
}

fn panicked(payload: &(dyn Any + Send)) -> Trouble {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Trouble::failed(format_args!("panicked: {}", text.unwrap_or("no text")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn group(limit: u64) -> Group {
        Group {
            name: "group",
            limit: Duration::from_millis(limit),
            checks: Vec::new,
        }
    }

    fn plans(names: &[&str]) -> Vec<Plan> {
        let plan = |name: &&str| Plan {
            name: (*name).to_owned(),
            expected: "",
            optional: false,
        };
        names.iter().map(plan).collect()
    }

    fn reported(limit: u64, names: &[&str], receiver: &Receiver<Done>) -> Vec<String> {
        let mut values = Vec::new();
        let report = |record: Record| {
            values.push(record.value);
            Ok(())
        };
        collect(&group(limit), plans(names), receiver, report).unwrap();
        values
    }

    #[test]
    fn a_check_that_hangs_ends_its_group() {
        let (_sender, receiver) = channel();
        assert_eq!(
            reported(1, &["a", "b"], &receiver),
            [
                "did not end: the group has 1ms",
                "not checked: an earlier check of the group did not end"
            ]
        );
    }

    #[test]
    fn what_ended_in_time_counts() {
        let (sender, receiver) = channel();
        let outcome = Ok(super::super::check::Found::new("fine"));
        let took = Duration::ZERO;
        sender.send(Done { outcome, took }).unwrap();
        drop(sender);
        let values = reported(60_000, &["a", "b"], &receiver);
        assert_eq!(values, ["fine", "its thread ended"]);
    }

    #[test]
    fn a_panic_has_a_text() {
        let payload = catch_unwind(|| std::panic::resume_unwind(Box::new("so")));
        let Trouble::Failed(why) = panicked(&*payload.unwrap_err()) else {
            unreachable!("a panic is a failure");
        };
        assert_eq!(why, "panicked: so");
    }
}
