//! `cargo xtask tsan`: tests that need no machine, under ThreadSanitizer.

use crate::cargo::{PACKAGES, TARGET, TIMED};
use anyhow::bail;
use clap::Args;
use std::process::{Command, ExitCode};
use std::time::Instant;
use testbed::cargo::{command_of, workspace};
use testbed::host::{self, NIGHTLY, Tool};

/// Fences and copies use what Rust provides, not inline assembly, which the sanitizer does not see.
/// Nor does it see system calls made directly, so that it would take memory that is unmapped and
/// mapped again for the old memory.
const FLAGS: &str = "-Zsanitizer=thread --cfg uverbs_no_asm --cfg rustix_use_libc";

/// Number of cases per property, unless its test sets another: most run on one thread.
const CASES: &str = "32";

/// Run the tests that need no machine under ThreadSanitizer, with the standard library built for
/// it, too: no memory may be accessed while another thread writes to it, except by atomics.
///
/// Nightly and the sources of its standard library are installed if they are missing.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only these packages.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES)]
    package: Vec<String>,
    /// Run only tests whose names contain one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    /// What is fast enough to run along with all the other checks: threads that share handles,
    /// memory and rings.
    pub(crate) fn share() -> Self {
        Self {
            package: vec!["fake-tests".to_owned()],
            filters: Vec::new(),
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    host::ensure(&[Tool::RustSource])?;
    let mut results = Vec::new();
    for package in PACKAGES {
        if !options.package.is_empty() && !options.package.iter().any(|name| name == package) {
            continue;
        }
        host::say(format_args!("watches the threads of {package}"));
        let since = Instant::now();
        let result = host::run(&mut watched(package, &options.filters));
        if let Err(error) = &result {
            eprintln!("error: {package}: {error}");
        }
        results.push((package, result.is_ok(), since.elapsed().as_secs()));
    }
    for (package, passed, seconds) in &results {
        let word = if *passed { "ok" } else { "FAILED" };
        println!("{package:<14} {word:<6} {seconds:>5} s");
    }
    if results.iter().any(|(_, passed, _)| !passed) {
        bail!("ThreadSanitizer found something");
    }
    Ok(ExitCode::SUCCESS)
}

fn watched(package: &str, filters: &[String]) -> Command {
    let mut command = command_of(NIGHTLY);
    command
        .args(["test", "--no-fail-fast", "--lib", "--tests"])
        .args(["-Zbuild-std", "--target", TARGET, "--package", package])
        .arg("--target-dir")
        .arg(workspace().join("target/tsan"))
        .arg("--")
        .args(filters)
        .args(["--skip", TIMED])
        .env("RUSTFLAGS", FLAGS)
        .env("PROPTEST_CASES", CASES);
    command
}
