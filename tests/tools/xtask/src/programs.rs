//! The project's own programs, static and optimised, built for a guest.

use std::path::PathBuf;

use testbed::cargo;

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
