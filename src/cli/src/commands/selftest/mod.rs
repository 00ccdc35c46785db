//! `uverbs selftest`.

mod atomics;
mod check;
mod completions;
mod datagrams;
mod doorbells;
mod errors;
mod facts;
mod failed;
mod firmware;
mod frames;
mod identity;
mod memory;
mod open;
mod opening;
mod pair;
mod peer;
mod report;
mod rings;
mod speed;
mod subject;
mod trouble;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uverbs::Context;

use crate::failure::{FAILED, Failure, Result};
use crate::output::Output;
use crate::session::Session;
use facts::Facts;
use report::{Report, Summary};
use subject::Subject;
use watch::Group;

const EXAMPLES: &str = "\
Each check is a line: ok, FAIL, slow (it works, but takes too long) or skip (this device does not have it), its name, what was
found, and what is right. The exit code is 1 if anything fails.

The program makes queues and memory of its own, and sends messages from the port to itself. It changes nothing that is not its
own. The file has no keys, no addresses and no GUIDs.

Examples:
  uverbs selftest -d mlx5_0
  uverbs selftest -d mlx5_0 --json report.json
  uverbs selftest -d mlx5_0 --serve                  # on a second host
  uverbs selftest -d mlx5_0 --peer second.example    # and on the first
  uverbs selftest -d mlx5_0 --only identity --only 'rings/RC send'";

/// Check this library on a device, with messages from one of its ports to itself
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The device
    #[arg(short = 'd', long, value_name = "DEVICE")]
    device: String,

    /// The port. Default: the first that is up
    #[arg(short = 'i', long, value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..))]
    port: Option<u8>,

    /// Only this group of checks, such as rings, or this check, such as 'rings/RC send'; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Also check what happens while you take the port down and reset the device
    #[arg(long)]
    rough: bool,

    /// Also exchange messages with this host, which runs uverbs selftest --serve
    #[arg(long, value_name = "HOST")]
    peer: Option<String>,

    /// Answer the messages of one run on another host with --peer, instead of checking this one
    #[arg(long, conflicts_with_all = ["peer", "rough", "only", "json"])]
    serve: bool,

    /// The TCP port by which both hosts find each other
    #[arg(long, value_name = "PORT", default_value_t = 18517)]
    tcp_port: u16,

    /// Write everything that was found to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is checked, in this order, and after how long a group counts as hanging. Long checks stop
/// by themselves well before that.
const GROUPS: [Group; 14] = [
    group("identity", 5, identity::checks),
    group("open", 30, open::checks),
    group("doorbells", 30, doorbells::checks),
    group("rings", 60, rings::checks),
    group("completions", 30, completions::checks),
    group("errors", 30, errors::checks),
    group("datagrams", 15, datagrams::checks),
    group("memory", 30, memory::checks),
    group("firmware", 30, firmware::checks),
    group("frames", 15, frames::checks),
    group("atomics", 15, atomics::checks),
    group("speed", 15, speed::checks),
    group("peer", 60, peer::checks),
    group("trouble", 480, trouble::checks),
];

const fn group(name: &'static str, seconds: u64, checks: fn() -> Vec<check::Check>) -> Group {
    Group {
        name,
        limit: Duration::from_secs(seconds),
        checks,
    }
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let start = Instant::now();
    let context = session.open(Some(&args.device))?;
    let port = match args.port {
        Some(port) => port,
        None => first_up(&context)?,
    };
    let plan = plan(&args.only, |group| match group {
        "peer" => args.peer.is_some(),
        "trouble" => args.rough,
        _ => true,
    })?;
    let facts = Arc::new(Facts::of(&context));
    let mut report = Report {
        tool: "uverbs selftest",
        version: env!("CARGO_PKG_VERSION"),
        device: context.name().to_owned(),
        port,
        only: &args.only,
        facts: &*facts,
        opening: Vec::new(),
        checks: Vec::new(),
        summary: Summary::default(),
        complete: false,
        seconds: 0.0,
    };
    let subject = Arc::new(Subject {
        context,
        port,
        path: session.path,
        recorder: session.recorder.clone(),
        facts: Arc::clone(&facts),
        peer: args.peer.as_ref().map(|host| peer::Peer {
            host: host.clone(),
            port: args.tcp_port,
        }),
    });
    if args.serve {
        return peer::serve(&subject, args.tcp_port, out);
    }
    if args.json.is_some() {
        // A device that refuses these commands also fails checks; the file then goes without them.
        report.opening = opening::commands(&subject).unwrap_or_default();
    }
    let up = subject.context.query_port(port)?.is_active();
    for (group, checks) in plan {
        if !up && group.name != "identity" {
            // No message gets through, so the other checks would show nothing.
            break;
        }
        watch::run(group, checks, &subject, |record| {
            out.line(&record)?;
            report.checks.push(record);
            out.flush()
        })?;
        // After each group, so that a machine that crashes in the next one also leaves a file.
        report.summary = Summary::of(&report.checks);
        report.seconds = start.elapsed().as_secs_f64();
        save(args.json.as_deref(), &report)?;
    }
    if let Some(peer) = &subject.peer {
        // A peer that is already gone need not be notified.
        let _ = peer::end(peer);
    }
    report.complete = up;
    save(args.json.as_deref(), &report)?;
    out.line(report.summary)?;
    if !up {
        let why = format_args!("port {port} is not active: only its identity was checked");
        return Err(Failure::new(why).hint("uverbs doctor says what to do about it"));
    }
    if report.summary.fail > 0 {
        return Err(Failure::Reported(FAILED));
    }
    Ok(())
}

/// The checks to run, by group.
fn plan(
    only: &[String],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(&'static Group, Vec<check::Check>)>> {
    let mut unused: Vec<&String> = only.iter().collect();
    let mut plan = Vec::new();
    for group in GROUPS.iter().filter(|group| is_wanted(group.name)) {
        let mut checks = (group.checks)();
        checks.retain(|check| {
            let full = format!("{}/{}", group.name, check.name);
            let is_named = |name: &str| name == group.name || name == full;
            unused.retain(|name| !is_named(name));
            only.is_empty() || only.iter().any(|name| is_named(name))
        });
        if !checks.is_empty() {
            plan.push((group, checks));
        }
    }
    match unused.first() {
        None => Ok(plan),
        Some(name) => {
            let groups = GROUPS.iter().map(|group| group.name).collect::<Vec<_>>();
            let why = format_args!("there is no group or check {name:?}");
            Err(Failure::usage(why).hint(format_args!(
                "groups are {}; peer needs --peer, trouble needs --rough; checks are GROUP/CHECK, as a run prints them",
                groups.join(", ")
            )))
        }
    }
}

fn first_up(context: &Context) -> Result<u8> {
    for port in 1..=context.device_attr().phys_port_cnt {
        if context.query_port(port)?.is_active() {
            return Ok(port);
        }
    }
    // The first check reports the failure.
    Ok(1)
}

fn save(path: Option<&Path>, report: &Report<'_, &Facts>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(report).map_err(Failure::new)?;
    fs::write(path, text + "\n")
        .map_err(|error| Failure::new(format_args!("writing {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::collections::BTreeSet;

    fn names(only: &[&str]) -> Vec<String> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let mut names = Vec::new();
        for (group, checks) in plan(&only, |_| true).unwrap() {
            names.extend(
                checks
                    .iter()
                    .map(|check| format!("{}/{}", group.name, check.name)),
            );
        }
        names
    }

    #[test]
    fn every_check_has_a_name_of_its_own() {
        let all = names(&[]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn groups_and_checks_are_chosen_by_name() {
        assert_eq!(names(&["rings/RC send"]), ["rings/RC send"]);
        assert_eq!(names(&["errors"]).len(), errors::checks().len());
        let two = names(&["rings/RC send", "identity/port"]);
        assert_eq!(two, ["identity/port", "rings/RC send"]);
        assert!(plan(&["rings/RC".to_owned()], |_| true).is_err());
    }
}
