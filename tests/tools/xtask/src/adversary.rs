//! `cargo xtask adversary`: random safe programs, by the million.

use crate::cargo::cargo;
use clap::Args;
use std::process::ExitCode;

/// Run random safe programs on an in-process device that writes to all memory it has access to.
///
/// Prints how many programs were run per second; the first that breaks a guarantee is shortened and
/// printed, and ends the run. `cargo xtask adversary -- --help` lists all options: `--sequences`,
/// `--model`, `--seed`, `--jobs`, and what to exclude or to run alone.
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
