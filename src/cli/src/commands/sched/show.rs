//! `uverbs sched show`.

use std::path::PathBuf;

use super::file::{self, Written};
use crate::failure::Result;
use crate::output::Output;

/// Draw the tree that a file describes, with shares as percentages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Output) -> Result<()> {
    let tree = file::read(&args.file)?;
    if args.json {
        return out.json_as_is(&Written::from(&tree));
    }
    out.line(tree.to_string().trim_end())
}
