//! `cargo xtask tsan`: what needs no machine, under ThreadSanitizer.

use crate::cargo::{PACKAGES, TARGET};
use anyhow::bail;
use clap::Args;
use std::process::{Command, ExitCode};
use std::time::Instant;
use testbed::cargo::{command_of, workspace};
use testbed::host::{self, NIGHTLY, Tool};

/// Fences and copies are what Rust can say of them, not instructions by hand, which the sanitizer
/// does not see. Nor does it see system calls that are made by hand, and would take memory that is
/// unmapped and mapped again for the old one.
const FLAGS: &str = "-Zsanitizer=thread --cfg uverbs_no_asm --cfg rustix_use_libc";

/// How many cases a property has, unless its test says otherwise: most run on one thread.
const CASES: &str = "32";

/// Run what needs no machine under ThreadSanitizer, with the standard library built for it, too:
/// nobody may access memory while another thread writes to it, but by atomics.
///
/// Nightly and the sources of its standard library are installed if they are missing.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only these packages.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES)]
    package: Vec<String>,
    /// Run only tests whose names hold one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    /// What fits beside all the other checks: threads that share handles, memory and rings.
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
        .env("RUSTFLAGS", FLAGS)
        .env("PROPTEST_CASES", CASES);
    command
}
