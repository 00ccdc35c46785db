//! `uverbs sched apply`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use uverbs::mlx5::sched::{Applied, ApplyError};

use super::{file, plan, scheduler};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;

/// Create a tree in a device, change it, and destroy it again
///
/// Elements belong to the process that creates them: other programs cannot attach queue pairs to
/// them, and they end with this command. It shows that a device accepts a tree and its changes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device. Default: the first that can be opened
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,

    /// Keep the last tree for this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    hold: Option<Duration>,

    /// The trees: the first is created, and then changed into each of the others
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let trees = args
        .files
        .iter()
        .map(|path| file::read(path))
        .collect::<Result<Vec<_>>>()?;
    let mut applied = Applied::new(scheduler(session, args.device.as_deref())?);
    for tree in &trees {
        let done = applied.apply(tree).map_err(failure)?;
        plan::print(&done, out)?;
        out.line(tree.to_string().trim_end())?;
        out.flush()?;
    }
    if let Some(time) = args.hold {
        thread::sleep(time);
    }
    let done = applied.clear().map_err(failure)?;
    plan::print(&done, out)
}

/// What failed, and whether the tree is unchanged.
fn failure(error: ApplyError) -> Failure {
    let state = match (&error.step, error.not_undone.as_slice()) {
        (None, _) => "nothing was sent".to_owned(),
        (Some(step), []) => format!("at \"{step}\"; what was done before it was undone"),
        (Some(step), left) => format!("at \"{step}\"; {} steps could not be undone", left.len()),
    };
    Failure::from(error.error).while_doing(state)
}
