//! `cargo xtask api`: the public items of the published crates against the committed lists.

mod face;

use anyhow::{Context as _, bail};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use testbed::cargo::{command_of, workspace};
use testbed::host::{self, API_READER, Tool};

use crate::surface::document;

/// The crates whose items are a choice of this project. `uverbs-uapi` mirrors the kernel's headers,
/// with which `cargo xtask abi` compares it.
const CRATES: [&str; 6] = [
    "uverbs",
    "uverbs-any",
    "uverbs-core",
    "uverbs-fake",
    "uverbs-mlx5",
    "uverbs-rxe",
];

/// Where the committed lists are.
const FOLDER: &str = "docs/generated/api";

/// Compare the public items of the published crates with the lists in docs/generated/api
///
/// One line per item, as `cargo public-api` prints it: without what every type has (`Send`,
/// `From<T> for T`) and without derived impls. A change of the lists is a change of what users may
/// rely on, and belongs in the same commit as the code. Then the rules for the interface of
/// `uverbs` are checked: no glob re-exports, one path for each name, no type without a name, few
/// names at the root, and a clear distinction between what creates and what only describes.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Write the lists instead of comparing.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.write {
        for package in CRATES {
            let file = list(package);
            fs::create_dir_all(workspace().join(FOLDER))?;
            fs::write(&file, items(package)?).with_context(|| file.display().to_string())?;
        }
        look_at_face()?;
    } else {
        compare()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if a list differs from the items of its crate.
pub(crate) fn compare() -> anyhow::Result<()> {
    let mut differing = String::new();
    for package in CRATES {
        let kept = fs::read_to_string(list(package)).unwrap_or_default();
        let now = items(package)?;
        println!("{package}: {} public items", now.lines().count());
        differing += &difference(package, &kept, &now);
    }
    if differing.is_empty() {
        return look_at_face();
    }
    bail!("the public items are not those of {FOLDER} (`cargo xtask api --write`):\n{differing}");
}

fn list(package: &str) -> PathBuf {
    workspace().join(FOLDER).join(format!("{package}.txt"))
}

/// Fails if the interface of `uverbs` breaks one of its rules. The items of all crates have just
/// been read.
fn look_at_face() -> anyhow::Result<()> {
    let mut crates = BTreeMap::new();
    for package in CRATES {
        let name = package.replace('-', "_");
        let documented = document::read(&written_for(package))?;
        crates.insert(name, documented);
    }
    let findings = face::findings("uverbs", &crates);
    if findings.is_empty() {
        return Ok(());
    }
    bail!("the face of uverbs:\n  {}", findings.join("\n  "));
}

/// Where the compiler writes the description of a crate.
fn written_for(package: &str) -> PathBuf {
    let file = format!("target/api/doc/{}.json", package.replace('-', "_"));
    workspace().join(file)
}

/// The public items of a crate, one per line.
fn items(package: &str) -> anyhow::Result<String> {
    host::ensure(&[Tool::ApiReader])?;
    host::say(format_args!("reads the public items of {package}"));
    let folder = workspace().join("target/api");
    let mut command = command_of(API_READER);
    command
        .args(["rustdoc", "--quiet", "--lib", "--all-features"])
        .args(["--package", package])
        .arg("--target-dir")
        .arg(&folder)
        .args(["--", "-Zunstable-options", "--output-format=json"])
        .arg("--cap-lints=allow")
        // Lets this stable compiler emit its unstable format; the same for all crates, or they
        // would be rebuilt.
        .env("RUSTC_BOOTSTRAP", "1");
    host::run(&mut command)?;
    let document = written_for(package);
    let api = public_api::Builder::from_rustdoc_json(&document)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| document.display().to_string())?;
    let mut lines = String::new();
    for item in api.items() {
        writeln!(lines, "{item}")?;
    }
    Ok(lines)
}

/// The differing lines: `-` for those only in the committed list, `+` for those only in the present
/// one.
fn difference(package: &str, kept: &str, now: &str) -> String {
    let [kept, now] = [kept, now].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = kept.difference(&now).map(|line| ('-', line));
    let come = now.difference(&kept).map(|line| ('+', line));
    let lines: Vec<_> = gone
        .chain(come)
        .map(|(sign, line)| format!("{package} {sign} {line}\n"))
        .collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn removed_and_added_lines_are_listed() {
        assert_eq!(difference("it", "a\nb\n", "b\na\n"), "");
        assert_eq!(difference("it", "a\nb\n", "b\nc\n"), "it - a\nit + c\n");
    }
}
