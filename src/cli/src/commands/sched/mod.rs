//! `uverbs sched`.

mod apply;
mod file;
mod plan;
mod show;

use clap::Subcommand;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;

const FILES: &str = "\
A file describes a tree, as TOML or (where its name ends with .json) as JSON:

  [[children]]
  name = \"g1\"
  share = 7

  [[children]]
  name = \"g2\"
  share = 3
  max_mbps = 4096

share is a weight among siblings (0 or none: the device's default), max_mbps a limit (0 or none: no
limit). An element with children of its own ([[children.children]]) is a node, one without is a leaf
that queue pairs are attached to. Names are unique in the file.

Examples:
  uverbs sched show tree.toml
  uverbs sched plan tree.toml --from old.toml -d mlx5_0
  uverbs sched apply tree.toml -d mlx5_0";

/// Draw, check and try trees of scheduling elements (mlx5)
#[derive(Debug, clap::Args)]
#[command(after_help = FILES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Plan(plan::Args),
    Apply(apply::Args),
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    match &args.command {
        Command::Show(args) => show::run(args, out),
        Command::Plan(args) => plan::run(args, session, out),
        Command::Apply(args) => apply::run(args, session, out),
    }
}

/// The limits and the scheduler of a device.
fn scheduler(session: &Session, device: Option<&str>) -> Result<uverbs::mlx5::sched::Scheduler> {
    let context = session.open(device)?;
    let what = context.name().to_owned();
    let scheduler = context
        .mlx5()
        .and_then(|adapter| adapter.scheduling())
        .map_err(Failure::from)
        .map_err(|failure| failure.while_doing(what))?;
    Ok(scheduler)
}
