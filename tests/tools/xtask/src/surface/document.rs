//! Obtains the compiler's description of the crates.
//!
//! The format is rustdoc's JSON, which changes between compilers. It is therefore parsed as loosely
//! as possible, and a crate with known leaks is read along: if a compiler writes something that is
//! not understood, those leaks are missed, which is reported.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use testbed::cargo::workspace;
use testbed::host;

use super::items::Surface;
use super::judge;

/// The published crates, each after its dependencies.
pub(crate) const PUBLISHED: [&str; 7] = [
    "uverbs-uapi",
    "uverbs-core",
    "uverbs-rxe",
    "uverbs-mlx5",
    "uverbs-any",
    "uverbs",
    "uverbs-fake",
];

/// Private items, too: what is public in a private module is reachable through types that are not
/// named.
const FLAGS: [&str; 6] = [
    "-Zunstable-options",
    "--output-format=json",
    "--document-private-items",
    "--document-hidden-items",
    "--cap-lints=allow",
    "--edition=2024",
];

/// A crate, as described by the compiler.
#[derive(Debug, Deserialize)]
pub(crate) struct Documented {
    pub(crate) root: Id,
    pub(crate) index: HashMap<Id, Item>,
    pub(crate) paths: HashMap<Id, Named>,
}

/// Identifies an item in one crate's document. A number, which was a string in older formats.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[serde(from = "Value")]
pub(crate) struct Id(pub(crate) String);

impl From<Value> for Id {
    fn from(value: Value) -> Self {
        Self(match value {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }
}

/// An item.
#[derive(Debug, Deserialize)]
pub(crate) struct Item {
    pub(crate) name: Option<String>,
    pub(crate) visibility: Value,
    pub(crate) inner: Value,
}

/// The path of an item, starting at its crate.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
}

/// The published crates, after a check that leaks are found at all.
pub(super) fn published() -> anyhow::Result<Vec<Documented>> {
    let folder = workspace().join("target/surface");
    check_reader(&folder.join("known"))?;
    // The same for each of them, or cargo would rebuild their common dependencies.
    let names = PUBLISHED.join(",").replace('-', "_");
    PUBLISHED
        .iter()
        .map(|package| {
            host::say(format_args!("reads what {package} has"));
            let mut command = testbed::cargo::command();
            command
                .args([
                    "rustdoc",
                    "--quiet",
                    "--lib",
                    "--all-features",
                    "--package",
                    package,
                ])
                .arg("--target-dir")
                .arg(&folder)
                .arg("--")
                .args(&FLAGS[..FLAGS.len() - 1]);
            host::run(unlocked(&mut command, &names))?;
            let name = package.replace('-', "_");
            read(&folder.join("doc").join(format!("{name}.json")))
        })
        .collect()
}

/// Documents one source file as a crate.
pub(crate) fn of_source(name: &str, source: &str, folder: &Path) -> anyhow::Result<Documented> {
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{name}.rs"));
    fs::write(&file, source)?;
    let mut command = Command::new(std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into()));
    command
        .arg(&file)
        .args(["--crate-name", name, "--crate-type", "lib"])
        .arg("--out-dir")
        .arg(folder)
        .args(FLAGS);
    host::run(unlocked(&mut command, name))?;
    read(&folder.join(format!("{name}.json")))
}

/// A stable compiler writes this format if that is enabled for these crates.
fn unlocked<'a>(command: &'a mut Command, names: &str) -> &'a mut Command {
    command.env("RUSTC_BOOTSTRAP", names)
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Documented> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    serde_json::from_reader(BufReader::new(file))
        .with_context(|| format!("understanding {}", path.display()))
}

/// Fails if a known leak is not found, or if anything else is.
pub(super) fn check_reader(folder: &Path) -> anyhow::Result<()> {
    let known = of_source("known", KNOWN, folder)?;
    let verdict = judge::judge(&Surface::of(&[known])?, &super::listed::KNOWN_LISTS);
    let found = verdict.findings.join("\n");
    let missed: Vec<_> = leaks(KNOWN)
        .filter(|leak| !found.contains(&format!("known::{leak} ")))
        .collect();
    if !missed.is_empty() || verdict.findings.len() != leaks(KNOWN).count() {
        bail!(
            "this compiler's rustdoc writes what is not understood here: of the known leaks {missed:?} are missed, and found are\n{found}"
        );
    }
    Ok(())
}

/// The leaks that the comments of the known crate name.
fn leaks(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("// Leaks: "))
}

/// A crate with leaks of every kind, and with nothing else that counts as one.
const KNOWN: &str = include_str!("known.rs.txt");
