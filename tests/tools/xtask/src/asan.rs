//! `cargo xtask asan`: what needs no machine, under AddressSanitizer.

use crate::cargo::{PACKAGES, TARGET};
use clap::Args;
use std::process::ExitCode;
use testbed::cargo::workspace;
use testbed::host;

/// Run what needs no machine under AddressSanitizer.
///
/// A toolchain is all that is needed: stable lends the switch that nightly has. Leaks are not
/// looked for: memory whose destroy a fake kernel refuses is given up on purpose.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run only tests whose names hold one of these texts.
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
        .args(&options.filters)
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("ASAN_OPTIONS", "detect_leaks=0");
    host::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
