//! The project's own commands: `cargo xtask --help`.

mod terminal;
mod vm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Vm(vm::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Vm(options) => vm::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
