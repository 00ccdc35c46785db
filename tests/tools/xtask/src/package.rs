//! `cargo xtask package`: the published crates as they would be uploaded, built from nothing else.

use anyhow::{Context as _, bail};
use clap::Args;
use std::process::ExitCode;
use testbed::cargo::workspace;
use testbed::host;

use crate::cargo::cargo;
use crate::surface::document::PUBLISHED;

/// The tool, which is published like the libraries.
const TOOL: &str = "uverbs-cli";

/// Files that every crate has to have.
const NEEDED: [&str; 3] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT"];

/// And one of these.
const ROOTS: [&str; 2] = ["src/lib.rs", "src/main.rs"];

/// Folders that are of use in the repository alone.
const OURS: [&str; 5] = [
    ".ci/",
    ".github/",
    "docs/generated/",
    "fuzz/",
    "tests/tools/testbed/",
];

/// Pack the published crates, look at what is in each, and build each from its package alone
///
/// Together, so that those that need others are built with their packages, and not from the tree.
/// Registries are asked for everybody else's crates only. With `--since`, tells whether a version's
/// number promises what the changes since then keep.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Pack what is in the tree, committed or not.
    #[arg(long)]
    allow_dirty: bool,
    /// Compare with this commit or tag by `cargo semver-checks`, which has to be installed (`cargo
    /// install cargo-semver-checks`).
    #[arg(long, value_name = "REVISION")]
    since: Option<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    pack(if options.allow_dirty {
        &["--allow-dirty"]
    } else {
        &[]
    })?;
    if let Some(revision) = &options.since {
        compare_with(revision)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at what would be packed, and builds nothing of it: its sources are built by every other
/// step. The tree holds what earlier steps wrote.
pub(crate) fn compare() -> anyhow::Result<()> {
    pack(&["--allow-dirty", "--no-verify"])
}

fn pack(more: &[&str]) -> anyhow::Result<()> {
    for package in packages() {
        let files = contents(package)?;
        let wrong = wrong(&files);
        println!("{package}: {} files", files.lines().count());
        if !wrong.is_empty() {
            bail!("{package}: {}", wrong.join(", "));
        }
    }
    let mut arguments = vec!["package", "--target-dir", "target/package-check"];
    for package in packages() {
        arguments.extend(["--package", package]);
    }
    arguments.extend(more);
    cargo(&arguments, &[])
}

/// Everything that others get, each after what it needs.
fn packages() -> impl Iterator<Item = &'static str> {
    PUBLISHED.into_iter().chain([TOOL])
}

/// The files of a package, a line each.
fn contents(package: &str) -> anyhow::Result<String> {
    let mut command = testbed::cargo::command();
    command
        .args(["package", "--list", "--allow-dirty", "--package", package])
        .current_dir(workspace());
    host::capture(&mut command).with_context(|| format!("what is in {package}"))
}

/// What a package lacks, and what it has that is of no use to others.
fn wrong(files: &str) -> Vec<String> {
    let has = |needed: &str| files.lines().any(|file| file == needed);
    let lacking = NEEDED.into_iter().filter(|needed| !has(needed));
    let rootless = (!ROOTS.into_iter().any(has)).then_some(ROOTS[0]);
    let ours = files
        .lines()
        .filter(|file| OURS.iter().any(|folder| file.starts_with(folder)));
    lacking
        .chain(rootless)
        .map(|file| format!("no {file}"))
        .chain(ours.map(|file| format!("has {file}")))
        .collect()
}

/// Whether users of the crates of `revision` can go on as they are, as far as the numbers of the
/// versions promise it.
fn compare_with(revision: &str) -> anyhow::Result<()> {
    let mut arguments = vec!["semver-checks", "check-release", "--baseline-rev", revision];
    for package in PUBLISHED {
        arguments.extend(["--package", package]);
    }
    cargo(&arguments, &[]).context(
        "`cargo semver-checks` found a change, or is not here: cargo install cargo-semver-checks",
    )
}

#[cfg(test)]
mod tests {
    use super::wrong;

    #[test]
    fn a_package_without_a_licence_and_with_tools_is_told_of_both() {
        let right = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\n";
        assert!(wrong(right).is_empty());
        let bad = "Cargo.toml\nLICENSE-MIT\nsrc/lib.rs\n.ci/run\n";
        assert_eq!(wrong(bad), ["no LICENSE-APACHE", "has .ci/run"]);
    }
}
