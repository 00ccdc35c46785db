//! `uverbs selftest`.

mod atomics;
mod check;
mod completions;
mod datagrams;
mod doorbells;
mod errors;
mod facts;
mod firmware;
mod identity;
mod memory;
mod open;
mod pair;
mod report;
mod rings;
mod subject;
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
  uverbs selftest -d mlx5_0 --json report.json";

/// Check this library on a device, by messages from one of its ports to itself
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The device
    #[arg(short = 'd', long, value_name = "DEVICE")]
    device: String,

    /// The port. Default: the first that is up
    #[arg(short = 'i', long, value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..))]
    port: Option<u8>,

    /// Write everything that was found to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is checked, in this order, and when a group hangs. What takes long stops by itself, long before that.
const GROUPS: [Group; 10] = [
    group("identity", 5, identity::checks),
    group("open", 30, open::checks),
    group("doorbells", 30, doorbells::checks),
    group("rings", 60, rings::checks),
    group("completions", 30, completions::checks),
    group("errors", 30, errors::checks),
    group("datagrams", 15, datagrams::checks),
    group("memory", 30, memory::checks),
    group("firmware", 30, firmware::checks),
    group("atomics", 15, atomics::checks),
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
    let facts = Arc::new(Facts::of(&context));
    let mut report = Report {
        tool: "uverbs selftest",
        version: env!("CARGO_PKG_VERSION"),
        device: context.name().to_owned(),
        port,
        facts: &*facts,
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
    });
    let up = subject.context.query_port(port)?.is_active();
    for group in &GROUPS {
        if !up && group.name != "identity" {
            // Nothing is sent through it, so nothing could be said of the rest.
            break;
        }
        watch::run(group, &subject, |record| {
            out.line(&record)?;
            report.checks.push(record);
            out.flush()
        })?;
        // After each group: a machine that stops in the next one leaves a file, too.
        report.summary = Summary::of(&report.checks);
        report.seconds = start.elapsed().as_secs_f64();
        save(args.json.as_deref(), &report)?;
    }
    report.complete = up;
    save(args.json.as_deref(), &report)?;
    out.line(report.summary)?;
    if !up {
        let why = format_args!("port {port} is not active: nothing but what it is was looked at");
        return Err(Failure::new(why).hint("uverbs doctor says what to do about it"));
    }
    if report.summary.fail > 0 {
        return Err(Failure::Reported(FAILED));
    }
    Ok(())
}

fn first_up(context: &Context) -> Result<u8> {
    for port in 1..=context.device_attr().phys_port_cnt {
        if context.query_port(port)?.is_active() {
            return Ok(port);
        }
    }
    // The first says so.
    Ok(1)
}

fn save(path: Option<&Path>, report: &Report<&Facts>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(report).map_err(Failure::new)?;
    fs::write(path, text + "\n")
        .map_err(|error| Failure::new(format_args!("writing {}: {error}", path.display())))
}
