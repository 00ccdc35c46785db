//! `uverbs sched plan`.

use std::path::PathBuf;

use serde::Serialize;
use uverbs::mlx5::sched::{Limits, Plan};

use super::{file, scheduler};
use crate::failure::Result;
use crate::output::Output;
use crate::session::Session;

/// Check a tree against a device, and show the commands that would create it; nothing is sent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file with the tree
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The tree that already exists. Default: none
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// The device. Default: a device that can do everything
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    steps: Vec<String>,
    notes: Vec<String>,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let tree = file::read(&args.file)?;
    let from = args.from.as_deref().map(file::read).transpose()?;
    let limits = match &args.device {
        Some(device) => *scheduler(session, Some(device))?.limits(),
        None => Limits::none(),
    };
    let plan = Plan::between(from.as_ref(), Some(&tree), &limits)?;
    if args.json {
        return out.json(&Report {
            steps: plan.steps().iter().map(ToString::to_string).collect(),
            notes: plan.notes().iter().map(ToString::to_string).collect(),
        });
    }
    print(&plan, out)
}

/// Prints the steps, or that there is nothing to do, and what looks odd.
pub(super) fn print(plan: &Plan, out: &mut Output) -> Result<()> {
    if plan.is_empty() {
        out.line("nothing to do")?;
    }
    for step in plan.steps() {
        out.line(step)?;
    }
    for note in plan.notes() {
        out.line(format_args!("note: {note}"))?;
    }
    Ok(())
}
