//! `cargo xtask abi`: compares the ABI in Rust with the kernel's C headers.

use crate::cargo::cargo;
use clap::Args;
use std::process::ExitCode;

/// Compare uverbs-uapi with the kernel's headers, and both with the committed table.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// First rewrite the table.
    #[arg(long)]
    bless: bool,
    /// Use the newest headers of the last run instead of asking Debian's mirror.
    #[arg(long)]
    offline: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    compare(options.bless, options.offline)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn compare(bless: bool, offline: bool) -> anyhow::Result<()> {
    let mut args = vec![
        "run",
        "--quiet",
        "--package",
        "abi-check",
        "--",
        if bless { "bless" } else { "check" },
    ];
    args.extend(offline.then_some("--offline"));
    cargo(&args, &[])
}
