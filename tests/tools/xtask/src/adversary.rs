//! `cargo xtask adversary`: safe programs at random, by the million.

use crate::cargo::cargo;
use clap::Args;
use std::process::ExitCode;

/// Run safe programs at random on a device in this process, which writes wherever it may.
///
/// Says how many were run in a second; the first that breaks a promise is told, shortened, and ends
/// the run. `cargo xtask adversary -- --help` tells all that can be chosen: `--sequences`,
/// `--model`, `--seed`, `--jobs`, and what to leave out or to look at alone.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Arguments for the program.
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut args = vec![
        "run",
        "--profile",
        "adversary",
        "--package",
        "adversary",
        "--",
    ];
    args.extend(options.arguments.iter().map(String::as_str));
    cargo(&args, &[])?;
    Ok(ExitCode::SUCCESS)
}
