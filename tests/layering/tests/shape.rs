//! How sources are laid out: modules in folders, comments in lines that fit a screen.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use layering::{Source, root, whole_repository};

/// The largest width of a comment line.
const WIDTH: usize = 100;

/// It uses files of the tool, a program that no other package can depend on.
const BORROWER: &str = "tests/hostile/src/lib.rs";

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Line numbers and widths of comments that are too long. Tables, code, and lines with a URL cannot
/// be wrapped.
fn too_long(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(said) = comment(line) else {
            in_code = false;
            continue;
        };
        if said.starts_with("```") {
            in_code = !in_code;
        }
        let width = line.chars().count();
        let whole = in_code || said.starts_with('|') || said.contains("://");
        if width > WIDTH && !whole {
            found.push((number, width));
        }
    }
    found
}

#[test]
fn comments_are_wrapped() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in whole_repository() {
        seen += source.text.lines().filter_map(comment).count();
        for (number, width) in too_long(&source.text) {
            wrong.push(format!("{}:{number} has {width} columns", source.path));
        }
    }
    assert!(seen > 5_000, "only {seen} lines of comments were found");
    assert!(wrong.is_empty(), "more than {WIDTH}: {wrong:#?}");
}

#[test]
fn what_cannot_be_wrapped_may_be_long() {
    const NONE: [usize; 0] = [];
    let long = "word ".repeat(30);
    let numbers = |text: String| -> Vec<usize> {
        let found = too_long(&text);
        found.into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers(format!("// short\n    // {long}\n")), [2]);
    assert_eq!(numbers(format!("//! {long}\n/// {long}\n")), [1, 2]);
    assert_eq!(numbers(format!("let text = \"{long}\"; // why\n")), NONE);
    assert_eq!(numbers(format!("/// | {long} |\n")), NONE);
    assert_eq!(
        numbers(format!("/// See https://example.org/ {long}\n")),
        NONE
    );
    let fenced = format!("/// ```text\n/// {long}\n/// ```\n/// {long}\n");
    assert_eq!(numbers(fenced), [4]);
    // A fence ends with its comment.
    let open = format!("/// ```text\nfn one() {{}}\n/// {long}\n");
    assert_eq!(numbers(open), [3]);
}

/// Whether a file is laid out as no module should be: it names the path of another one, or is
/// beside its own folder.
fn is_astray(source: &Source) -> bool {
    let stem = source.path.trim_end_matches(".rs");
    source.code().any(|(_, line)| line.starts_with("#[path")) || root().join(stem).is_dir()
}

#[test]
fn a_module_with_parts_is_a_folder() {
    let mut all = whole_repository();
    all.retain(|source| format!("/{}", source.path).contains("/src/"));
    assert!(all.len() > 500, "only {} files were looked at", all.len());
    let astray: Vec<_> = all.iter().filter(|source| is_astray(source)).collect();
    let (known, wrong): (Vec<_>, Vec<_>) = astray
        .into_iter()
        .map(|source| &source.path)
        .partition(|path| *path == BORROWER);
    assert!(
        wrong.is_empty(),
        "`#[path]`, or beside a folder of its name: {wrong:#?}"
    );
    assert!(
        !known.is_empty(),
        "{BORROWER} is laid out like the others: strike it from this file"
    );
}
