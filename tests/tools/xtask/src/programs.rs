//! The project's own programs, static and optimised, built for a guest; and its libraries for C
//! programs.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use testbed::{cargo, host};

/// Builds the command-line tool.
pub(crate) fn uverbs() -> anyhow::Result<PathBuf> {
    Ok(cargo::tool()?)
}

/// Builds the program whose instructions are counted.
pub(crate) fn cost() -> anyhow::Result<PathBuf> {
    Ok(cargo::program_of("cost-tests", "cost")?)
}

/// Builds the program whose system calls are counted.
pub(crate) fn reach_rts() -> anyhow::Result<PathBuf> {
    Ok(cargo::program_of("rxe-tests", "reach-rts")?)
}

/// Builds an example of the documentation.
pub(crate) fn example(name: &str) -> anyhow::Result<PathBuf> {
    example_with(name, &[])
}

/// Builds an example of the documentation that needs features.
pub(crate) fn example_with(name: &str, features: &[&str]) -> anyhow::Result<PathBuf> {
    let features = features.join(",");
    let args = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--features",
        &features,
        "--example",
        name,
    ];
    Ok(cargo::build_program(name, &args)?)
}

/// Builds a package as a library for C programs of a kind, whose file name ends as said.
pub(crate) fn library(
    package: &str,
    (kind, ending): (&str, &str),
    how: &[&str],
) -> anyhow::Result<PathBuf> {
    host::say(format_args!("builds {package}"));
    let output = cargo::command()
        .args(["rustc", "--release", "--lib", "--crate-type", kind])
        .args(["--package", package])
        .args(how)
        .args(["--message-format=json-render-diagnostics", "--quiet"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{package} was not built");
    }
    let messages = String::from_utf8(output.stdout)?;
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from));
    let mut library = files.filter(|file| file.extension().is_some_and(|kind| kind == ending));
    library
        .next_back()
        .with_context(|| format!("cargo built no {kind} of {package}"))
}
