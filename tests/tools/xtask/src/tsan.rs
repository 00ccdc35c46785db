//! `cargo xtask tsan`: tests that need no machine, under ThreadSanitizer.

use crate::by_package::{Selection, Verdicts};
use crate::cargo::{C_CALLERS, TARGET, THINNED, TIMED};
use clap::Args;
use std::process::{Command, ExitCode};
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
    #[command(flatten)]
    selection: Selection,
}

impl Options {
    /// What is fast enough to run along with all the other checks: threads that share handles,
    /// memory and rings, and threads of C programs.
    pub(crate) fn share() -> Self {
        Self {
            selection: Selection::of(&["fake-tests", C_CALLERS]),
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    host::ensure(&[Tool::RustSource])?;
    let mut verdicts = Verdicts::default();
    for package in options.selection.packages() {
        host::say(format_args!("watches the threads of {package}"));
        verdicts.run(package, &mut watched(package, &options.selection.filters));
    }
    verdicts.end("ThreadSanitizer found something")
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
        .args(TIMED.iter().flat_map(|test| ["--skip", *test]))
        .env("RUSTFLAGS", FLAGS)
        .env("PROPTEST_CASES", CASES)
        // Of similar cases, more find no other races.
        .env(THINNED, "1");
    command
}
