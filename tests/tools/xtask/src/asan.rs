//! `cargo xtask asan`: tests that need no machine, under AddressSanitizer.

use crate::cargo::{PACKAGES, TARGET, THINNED, TIMED};
use clap::Args;
use std::process::ExitCode;
use testbed::cargo::workspace;
use testbed::host;

/// Run the tests that need no machine under AddressSanitizer.
///
/// Only a toolchain is required: stable is allowed to use the nightly flag. Leaks are not detected:
/// memory whose destruction a fake kernel refuses is leaked on purpose.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run only a sample of many similar cases.
    #[arg(long)]
    thinned: bool,
    /// Run only tests whose names contain one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut command = testbed::cargo::command();
    command
        .args([
            "test",
            "--no-fail-fast",
            "--lib",
            "--tests",
            "--target",
            TARGET,
        ])
        .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
        .arg("--target-dir")
        .arg(workspace().join("target/asan"))
        .arg("--")
        .args(TIMED.iter().flat_map(|test| ["--skip", *test]))
        .args(&options.filters)
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("ASAN_OPTIONS", "detect_leaks=0");
    if options.thinned {
        command.env(THINNED, "1");
    }
    host::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
