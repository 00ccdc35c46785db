//! `docs/ARCHITECTURE.md` matches the sources: its paths exist, its map has every package, and its
//! walk is the way that calls go.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;

use layering::root;

/// The top-level folders and files, below which the page's paths are.
const TOP: [&str; 6] = ["src/", "uapi/", "providers/", "tests/", "fuzz/", "docs/"];

const WALK: &str = "## One command, top to bottom";

fn page() -> String {
    fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the page is text")
}

/// The texts between backticks, outside of drawings.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let texts = text.split("```").step_by(2);
    texts.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// The cells of the rows of the first table below a heading, without its header.
fn table<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let (_, below) = text.split_once(heading).expect("the page has this heading");
    let rows = below
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn its_paths_exist() {
    let text = page();
    let mut seen = 0;
    for path in quoted(&text).filter(|path| TOP.iter().any(|top| path.starts_with(top))) {
        // `{}` and `*` stand for several files of a folder.
        let fixed = path.split(['*', '{']).next().unwrap_or_default();
        let folder = fixed.rsplit_once('/').map_or(fixed, |(folder, _)| folder);
        let there = if fixed == path { path } else { folder };
        seen += 1;
        assert!(root().join(there).exists(), "there is no {path}");
    }
    assert!(seen > 25, "only {seen} paths were found");
}

#[test]
fn its_map_has_every_package_of_the_tests() {
    let text = page();
    let named: BTreeSet<_> = quoted(&text).collect();
    let missing: Vec<_> = ["tests", "tests/models", "tests/tools"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).expect("a folder of tests"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "not on the map: {missing:?}");
}

/// Each row names the function by which the next one is reached: the row's file calls it, and the
/// next row's file defines it.
#[test]
fn its_walk_is_the_way_that_calls_go() {
    let text = page();
    let rows = table(&text, WALK);
    assert!(rows.len() > 4, "{rows:?}");
    let source = |row: &[&str]| {
        let path = row.get(1).expect("a file").trim_matches('`').to_owned();
        let text = fs::read_to_string(root().join(&path));
        (text.unwrap_or_else(|_| panic!("there is no {path}")), path)
    };
    for pair in rows.windows(2) {
        let [from, to] = pair else { continue };
        let call = from.get(2).expect("a call").trim_matches('`');
        // The way back up.
        if call.is_empty() {
            continue;
        }
        let ((above, from), (below, to)) = (source(from), source(to));
        assert!(
            above.contains(&format!("{call}(")) || above.contains(&format!("{call}::<")),
            "{from} does not call {call}"
        );
        assert!(
            [format!("fn {call}("), format!("fn {call}<")]
                .iter()
                .any(|head| below.contains(head)),
            "{to} has no {call}"
        );
    }
}
