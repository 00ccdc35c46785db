//! `uverbs trace`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uverbs::recorder::{Body, Lines, Record, Sink};
use uverbs::rings::Observer;

use crate::cli::Run;
use crate::failure::{Failure, Result};
use crate::output::{Output, Table};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  uverbs trace info rxe0
  uverbs trace --summary pingpong -d rxe0
  uverbs trace --rings pingpong -d mlx5_0 -n 2
  uverbs trace --json --output commands.jsonl bench send server.example

Lines go to stderr. Keys of memory are left out, for whoever has them may have access to the memory. \
Inline data and messages in completions are shown.";

/// Run another subcommand and decode every command that it issues to the kernel
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Args {
    /// One JSON object per line
    #[arg(long)]
    json: bool,

    /// Write to a file instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show lkeys and rkeys too
    #[arg(long)]
    keys: bool,

    /// Also decode the queues: requests at doorbells, completions at polls
    #[arg(long)]
    rings: bool,

    /// Count commands, errors and time at the end, instead of a line for each
    #[arg(short = 'c', long, conflicts_with_all = ["json", "keys", "rings"])]
    summary: bool,

    #[command(subcommand)]
    run: Run,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let mut writer = writer(args)?;
    if args.summary {
        let summary = Arc::new(Summary::default());
        let session = Session {
            path: session.path,
            recorder: Some(Arc::clone(&summary) as Arc<dyn Sink>),
            observer: None,
        };
        let result = args.run.run(&session, out);
        // Earlier output must not appear after it.
        out.flush()?;
        writeln!(writer, "{}", summary.table())
            .map_err(|error| Failure::new(format_args!("writing the summary: {error}")))?;
        return result;
    }
    let mut lines = Lines::new(writer);
    if args.json {
        lines = lines.with_json();
    }
    if args.keys {
        lines = lines.with_keys();
    }
    let lines = Arc::new(lines);
    let session = Session {
        path: session.path,
        recorder: Some(Arc::clone(&lines) as Arc<dyn Sink>),
        observer: args.rings.then_some(lines as Arc<dyn Observer>),
    };
    args.run.run(&session, out)
}

fn writer(args: &Args) -> Result<Box<dyn Write + Send>> {
    let Some(path) = &args.output else {
        return Ok(Box::new(io::stderr()));
    };
    match File::create(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(Failure::new(format_args!(
            "creating {}: {error}",
            path.display()
        ))),
    }
}

/// Counts calls by name.
#[derive(Debug, Default)]
struct Summary(Mutex<BTreeMap<String, Counts>>);

#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    errors: u64,
    time: Duration,
}

impl Sink for Summary {
    fn record(&self, record: &Record) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = table.entry(name(&record.body)).or_default();
        counts.calls += 1;
        counts.errors += u64::from(record.errno.is_some());
        counts.time += record.duration;
    }
}

impl Summary {
    fn table(&self) -> Table {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<_> = counts.iter().collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.time));
        let mut table = Table::new(&[">CALLS", ">ERRORS", ">TOTAL µs", ">µs/CALL", "COMMAND"]);
        for (name, counts) in rows {
            let micros = counts.time.as_micros();
            table.row([
                counts.calls.to_string(),
                counts.errors.to_string(),
                micros.to_string(),
                (micros / u128::from(counts.calls.max(1))).to_string(),
                name.clone(),
            ]);
        }
        table
    }
}

/// The name of a call: `ioctl CQ/CREATE`, `invoke MODIFY_QP`, `mmap`.
fn name(body: &Body) -> String {
    let mut text = String::new();
    let written = match body {
        Body::Method { object, method, .. } => write!(text, "ioctl {object}/{method}"),
        Body::Command { command, path, .. } => {
            let how = match path {
                uverbs::recorder::CommandPath::Invoke => "invoke",
                uverbs::recorder::CommandPath::Write => "write",
                uverbs::recorder::CommandPath::ConnectionManager => "cm",
            };
            write!(text, "{how} {command}")
        }
        Body::Read { .. } => write!(text, "read an event"),
        Body::Map { .. } => write!(text, "mmap"),
        _ => write!(text, "another call"),
    };
    match written {
        Ok(()) => text,
        Err(_) => "a call without a name".to_owned(),
    }
}
