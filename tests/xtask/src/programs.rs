//! The project's own programs, built for a guest.

use crate::metadata::Metadata;
use anyhow::bail;
use std::path::PathBuf;

/// Builds the command-line tool, static and optimised.
pub(crate) fn uverbs() -> anyhow::Result<PathBuf> {
    if !has_uverbs()? {
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

/// Whether this workspace has the command-line tool.
pub(crate) fn has_uverbs() -> anyhow::Result<bool> {
    Ok(Metadata::read()?
        .member("uverbs")
        .is_some_and(|package| package.has_program("uverbs")))
}
