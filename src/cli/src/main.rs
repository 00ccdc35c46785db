//! `uverbs`: look at RDMA devices, try them, measure them, and find out what is wrong with them.

mod cli;
mod commands;
mod exchange;
mod failure;
mod idle;
mod output;
mod session;
mod stats;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version end up here, too. If the reader is gone, no message is needed.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE));
        }
    };
    let mut out = Output::new();
    match cli.run(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
