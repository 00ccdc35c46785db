//! `cargo xtask abi`: the kernel's words in Rust against the kernel's headers in C.

use crate::cargo::cargo;
use clap::Args;
use std::process::ExitCode;

/// Compare uverbs-uapi with the kernel's headers, and both with the committed table.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Write the table anew first.
    #[arg(long)]
    bless: bool,
    /// Take the newest headers of the last time instead of asking Debian's mirror.
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
