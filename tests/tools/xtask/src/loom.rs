//! `cargo xtask loom`: what threads do to queues concurrently, in every order.

use clap::Args;
use std::process::ExitCode;
use testbed::cargo::workspace;
use testbed::host;

/// Explore concurrent accesses of threads to the tables and trackers of mlx5: every order of
/// accesses, and every value that the language permits a load to return.
///
/// Only `loom` is required, which cargo fetches. Each model prints how many executions it has, and
/// how often a thread is preempted in one: that is the bound.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only models whose names begin with one of these texts: `lives`, `numbers::threads`.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    explore(&options.filters)?;
    Ok(ExitCode::SUCCESS)
}

/// Explores the models, or only those whose names begin with one of these texts.
pub(crate) fn explore(filters: &[String]) -> anyhow::Result<()> {
    let all = [String::new()];
    let filters = if filters.is_empty() { &all } else { filters };
    let filters = filters.iter().map(|filter| format!("models::{filter}"));
    let mut command = testbed::cargo::command();
    command
        .args(["test", "--release", "--no-fail-fast", "--lib"])
        .args(["--package", "uverbs-mlx5"])
        .arg("--target-dir")
        .arg(workspace().join("target/loom"))
        .args(["--", "--nocapture"])
        .args(filters)
        .env("RUSTFLAGS", "--cfg loom")
        // Not a program to be distributed: it should build quickly.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    Ok(host::run(&mut command)?)
}
