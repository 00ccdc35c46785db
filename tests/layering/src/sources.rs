//! Source files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the published crates, without their programs' and tests' data.
const SHIPPED: [&str; 4] = ["src", "uapi/src", "providers", "tests/models/kernel"];
/// Further folders with sources of the repository.
const OTHERS: [&str; 4] = ["docs", "fuzz", "tests", "uapi/tests"];

/// One source file.
#[derive(Debug)]
pub struct Source {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("two folders up").to_owned()
}

/// The sources of the published crates.
pub fn shipped() -> Vec<Source> {
    sources(&SHIPPED)
}

/// All sources.
pub fn whole_repository() -> Vec<Source> {
    sources(&[&SHIPPED[..], &OTHERS].concat())
}

/// The Rust sources below these folders, which must exist, sorted by path.
pub fn sources(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        let folder = root().join(folder);
        if folder.exists() {
            collect(&folder, &mut found);
        }
    }
    found.sort_by(|one: &Source, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    assert!(!found.is_empty(), "no sources below {folders:?}");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    for entry in entries {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            // Cargo's build output is not a source.
            if path.file_name().is_none_or(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("below the root");
            found.push(Source {
                path: name.to_string_lossy().into_owned(),
                text: fs::read_to_string(&path).expect("a source is text"),
            });
        }
    }
}

impl Source {
    /// Lines that are neither empty nor comments, numbered from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (1..).zip(self.text.lines().map(str::trim));
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"))
    }
}
