//! Test runs package by package, each with its verdict and its time.

use crate::cargo::PACKAGES;
use anyhow::ensure;
use clap::Args;
use std::process::{Command, ExitCode};
use std::time::Instant;
use testbed::host;

/// Which of [`PACKAGES`] to test, and with which of their tests.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    /// Only these packages.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES)]
    package: Vec<String>,
    /// Run only tests whose names contain one of these texts.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
}

impl Selection {
    /// All tests of these packages.
    pub(crate) fn of(packages: &[&str]) -> Self {
        Self {
            package: packages.iter().map(|&name| name.to_owned()).collect(),
            filters: Vec::new(),
        }
    }

    /// The packages to test.
    pub(crate) fn packages(&self) -> impl Iterator<Item = &'static str> {
        chosen(&PACKAGES, &self.package)
    }
}

/// Those of `all` that were named; all of them if none was.
pub(crate) fn chosen<'a>(
    all: &'a [&'static str],
    named: &'a [String],
) -> impl Iterator<Item = &'static str> + use<'a> {
    all.iter()
        .copied()
        .filter(|package| named.is_empty() || named.iter().any(|name| name == package))
}

/// The verdict and the seconds of each run.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Vec<(String, bool, u64)>);

impl Verdicts {
    /// Runs tests; a failure is printed, and ends no other run.
    pub(crate) fn run(&mut self, name: impl Into<String>, command: &mut Command) {
        let name = name.into();
        let since = Instant::now();
        let result = host::run(command);
        if let Err(error) = &result {
            eprintln!("error: {name}: {error}");
        }
        self.0
            .push((name, result.is_ok(), since.elapsed().as_secs()));
    }

    /// Prints the verdicts.
    ///
    /// # Errors
    /// `failure`, if one of the runs failed.
    pub(crate) fn end(&self, failure: &'static str) -> anyhow::Result<ExitCode> {
        for (name, passed, seconds) in &self.0 {
            let word = if *passed { "ok" } else { "FAILED" };
            println!("{name:<28} {word:<6} {seconds:>5} s");
        }
        ensure!(self.0.iter().all(|(_, passed, _)| *passed), failure);
        Ok(ExitCode::SUCCESS)
    }
}
