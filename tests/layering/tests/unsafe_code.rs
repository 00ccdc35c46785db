//! Where unsafe code is, and that `docs/UNSAFE.md` lists it.
//!
//! The compiler refuses unsafe code in a file that does not allow it, so the attributes show where
//! it is.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;

use layering::{Source, root, shipped, sources};

/// Headings of the two lists in `docs/UNSAFE.md`.
const ISLANDS: &str = "## Islands";
const PASSAGES: &str = "## Passages";

fn looked_at() -> Vec<Source> {
    let mut all = shipped();
    all.extend(sources(&["docs/examples"]));
    all
}

/// Whether an attribute of the file, or else of an item, allows unsafe code.
fn allows(source: &Source, opening: &str) -> bool {
    let compact: String = source.code().map(|(_, line)| line).collect();
    ["allow(", "expect("]
        .iter()
        .any(|lint| compact.contains(&format!("{opening}{lint}unsafe_code")))
}

fn is_island(source: &Source) -> bool {
    allows(source, "#![")
}

/// The paths in the list below a heading: the first cell of each row, in backticks.
fn listed(heading: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/UNSAFE.md")).expect("docs/UNSAFE.md");
    let (_, rest) = text
        .split_once(heading)
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let section = rest.split("\n## ").next().expect("a first part");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn islands_are_listed() {
    let found: BTreeSet<_> = looked_at()
        .iter()
        .filter(|source| is_island(source))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(
        found,
        listed(ISLANDS),
        "files (left) and docs/UNSAFE.md (right)"
    );
}

#[test]
fn passages_are_listed() {
    let found: BTreeSet<_> = looked_at()
        .iter()
        .filter(|source| allows(source, "#[") && !is_island(source))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(
        found,
        listed(PASSAGES),
        "files (left) and docs/UNSAFE.md (right)"
    );
}

#[test]
fn islands_say_why_they_are_sound() {
    for source in looked_at().iter().filter(|source| is_island(source)) {
        assert!(
            source.text.lines().any(|line| line == "//! # Safety"),
            "{} has unsafe code and no paragraph `//! # Safety`",
            source.path
        );
    }
}

/// An attribute of `mod.rs` applies to every file below it, which could then hide unsafe code.
#[test]
fn no_island_has_others_below_it() {
    for source in looked_at().iter().filter(|source| is_island(source)) {
        let below = source.path.trim_end_matches(".rs");
        assert!(
            !["/lib.rs", "/mod.rs", "/main.rs"]
                .iter()
                .any(|name| source.path.ends_with(name))
                && !root().join(below).is_dir(),
            "{} allows unsafe code in the files below it",
            source.path
        );
    }
}

#[test]
fn kernel_numbers_have_no_literals() {
    let lib = fs::read_to_string(root().join("uapi/src/lib.rs")).expect("uapi/src/lib.rs");
    assert!(
        lib.contains("#![forbid(unsafe_code)]"),
        "uapi forbids unsafe code"
    );
}
