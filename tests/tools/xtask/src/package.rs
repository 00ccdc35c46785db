//! `cargo xtask package`: the published crates as they would be uploaded, built only from their
//! packages.

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

/// Folders that are only useful in the repository.
const OURS: [&str; 5] = [
    ".ci/",
    ".github/",
    "docs/generated/",
    "fuzz/",
    "tests/tools/testbed/",
];

/// Pack the published crates, check the contents of each, and build each from its package alone
///
/// They are packed together, so that crates that depend on others are built with the packages of
/// those, and not from the tree. Registries provide only third-party crates. With `--since`, checks
/// whether the version numbers match the changes since then (semver).
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Pack the contents of the tree, committed or not.
    #[arg(long)]
    allow_dirty: bool,
    /// Compare with this commit or tag using `cargo semver-checks`, which must be installed
    /// (`cargo install cargo-semver-checks`).
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

/// Checks what would be packed, without building it: its sources are built by every other step. The
/// tree contains what earlier steps wrote.
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

/// Everything that is published, each after its dependencies.
fn packages() -> impl Iterator<Item = &'static str> {
    PUBLISHED.into_iter().chain([TOOL])
}

/// The files of a package, one per line.
fn contents(package: &str) -> anyhow::Result<String> {
    let mut command = testbed::cargo::command();
    command
        .args(["package", "--list", "--allow-dirty", "--package", package])
        .current_dir(workspace());
    host::capture(&mut command).with_context(|| format!("what is in {package}"))
}

/// Files that a package lacks, and files in it that are of no use to others.
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

/// Whether users of the crates of `revision` need no changes, as far as the version numbers promise
/// it.
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
    fn a_package_without_a_licence_and_with_tools_has_both_reported() {
        let right = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\n";
        assert!(wrong(right).is_empty());
        let bad = "Cargo.toml\nLICENSE-MIT\nsrc/lib.rs\n.ci/run\n";
        assert_eq!(wrong(bad), ["no LICENSE-APACHE", "has .ci/run"]);
    }
}
