//! The project's own programs, static and optimised, built for a guest.

use crate::metadata::Metadata;
use anyhow::bail;
use std::path::PathBuf;

/// Builds the command-line tool.
pub(crate) fn uverbs() -> anyhow::Result<PathBuf> {
    if !Metadata::read()?
        .member("uverbs")
        .is_some_and(|package| package.has_program("uverbs"))
    {
        bail!("the package uverbs has no program uverbs to run");
    }
    let args = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--bin",
        "uverbs",
        "--features",
        "cli",
    ];
    Ok(testbed::cargo::build_program("uverbs", &args)?)
}

/// Builds the program whose instructions are counted.
pub(crate) fn cost() -> anyhow::Result<PathBuf> {
    let args = [
        "build",
        "--release",
        "--package",
        "cost-tests",
        "--bin",
        "cost",
    ];
    Ok(testbed::cargo::build_program("cost", &args)?)
}

/// Builds the program whose system calls are counted.
pub(crate) fn reach_rts() -> anyhow::Result<PathBuf> {
    let args = [
        "build",
        "--release",
        "--package",
        "rxe-tests",
        "--bin",
        "reach-rts",
    ];
    Ok(testbed::cargo::build_program("reach-rts", &args)?)
}

/// Builds an example of the documentation.
pub(crate) fn example(name: &str) -> anyhow::Result<PathBuf> {
    let args = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--example",
        name,
    ];
    Ok(testbed::cargo::build_program(name, &args)?)
}
