//! Code in the guides is taken from programs that are run, and the targets of links exist.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

use layering::{root, sources};

/// The README and all pages below `docs`.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    for folder in ["docs", "docs/guide", "docs/generated"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of pages");
        let files = entries.map(|entry| entry.expect("an entry").path());
        found.extend(
            files.filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a page is text")
}

/// The lines of each fenced block of Rust, trimmed.
fn rust_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```rust" {
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            blocks.push(
                block
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .collect(),
            );
        }
    }
    blocks
}

#[test]
fn code_in_guides_is_code_of_examples() {
    let examples = sources(&["docs/examples"]);
    let examples: Vec<Vec<&str>> = examples
        .iter()
        .map(|source| {
            source
                .text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect()
        })
        .collect();
    let mut seen = 0;
    for page in pages() {
        for block in rust_blocks(&read(&page)) {
            seen += 1;
            let found = examples
                .iter()
                .any(|example| example.windows(block.len()).any(|lines| lines == block));
            assert!(found, "{}: in no example: {block:#?}", page.display());
        }
    }
    assert!(seen > 20, "only {seen} blocks of code were found");
}

/// Fences of other kinds of Rust would not be looked at above; rustdoc compiles that of the page
/// about the test bed.
#[test]
fn no_code_in_guides_escapes_by_its_fence() {
    for page in pages() {
        let is_compiled = page.ends_with("docs/testbed.md");
        let text = read(&page);
        let mut is_open = false;
        for fence in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("```"))
        {
            is_open = !is_open;
            let escapes = fence.starts_with("rust") && fence != "rust" && !is_compiled;
            assert!(!is_open || !escapes, "{}: ```{fence}", page.display());
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().expect("a page is in a folder");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path)
            };
            assert!(target.exists(), "{} links to {link}", page.display());
            if !place.is_empty() {
                let there = read(&target)
                    .lines()
                    .any(|line| anchor(line).as_deref() == Some(place));
                assert!(
                    there,
                    "{} links to {link}, which has no such heading",
                    page.display()
                );
            }
        }
    }
    assert!(seen > 40, "only {seen} links were found");
}

/// The anchor of a heading: lower case, without punctuation, with hyphens for spaces.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}
