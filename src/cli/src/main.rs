//! `uverbs`: look at RDMA devices, try them, measure them, and find out what is wrong with them.

mod cli;
mod commands;
mod dial;
mod exchange;
mod failure;
mod idle;
mod json;
mod output;
mod session;
mod stats;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::Cli;
use crate::output::Output;

/// Takes memory from the kernel in large chunks: by musl's allocator half of the system calls of a
/// short command would be for memory.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        Cli::from_arg_matches(&matches).map(|cli| (cli, json::wanted(&matches)))
    });
    let (cli, json) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error),
    };
    let mut out = Output::new();
    match cli.run(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => json::report(&failure, json),
    }
}

/// The end of a run whose command line is invalid, or asks for help or the version.
fn refused(error: &clap::Error) -> ExitCode {
    if let Some(failure) = json::usage(error) {
        return json::report(&failure, true);
    }
    // If the reader is gone, no message is needed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE))
}
