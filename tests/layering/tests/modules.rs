//! Which modules may name which inside a crate.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use layering::{Source, root, sources};

/// Modules of the driver layer that build on each other, each with those above it.
const ABOVE: [(&str, &[&str]); 3] = [
    ("kind", &["cmd", "object", "contract"]),
    ("cmd", &["object", "contract"]),
    ("object", &["cmd", "contract"]),
];

/// Whether a file belongs to the module, and not to its tests.
fn is_of(path: &str, module: &str) -> bool {
    let inside = path.trim_start_matches("providers/core/src/");
    let of = inside == format!("{module}.rs") || inside.starts_with(&format!("{module}/"));
    of && !inside.contains("/tests")
}

/// Commands know nothing about the objects whose handles they name, and objects nothing about
/// commands: both know kinds.
#[test]
fn commands_and_objects_do_not_name_each_other() {
    let driver = sources(&["providers/core/src"]);
    let mut wrong = Vec::new();
    for (module, above) in ABOVE {
        let files: Vec<_> = driver
            .iter()
            .filter(|source| is_of(&source.path, module))
            .collect();
        assert!(!files.is_empty(), "{module} is nowhere");
        for source in files {
            for (number, line) in source.code() {
                for other in above {
                    if line.contains(&format!("crate::{other}")) {
                        wrong.push(format!("{}:{number}: {line}", source.path));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const ROOMS: &str = "## The rooms of mlx5";
const MLX5: &str = "providers/mlx5/src/";
/// Modules that belong to no floor.
const OUTSIDE: [&str; 3] = ["lib", "models", "tests"];

/// Modules of mlx5 and their floors, as given on the page.
fn floors() -> BTreeMap<String, u32> {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the page is text");
    let (_, below) = page.split_once(ROOMS).expect("the page has this heading");
    let rows = below
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let floor_of = |row: &str| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let floor = cells.next()?.parse().ok()?;
        Some((cells.next()?.trim_matches('`').to_owned(), floor))
    };
    rows.skip(2).filter_map(floor_of).collect()
}

/// The module that a file of mlx5 is in, unless it is a test file.
fn room(source: &Source) -> Option<&str> {
    let inside = source.path.strip_prefix(MLX5)?;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (!OUTSIDE.contains(&first) && !inside.contains("/tests")).then_some(first)
}

/// The names after `crate::` in a line.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split("crate::").skip(1);
    behind.map(|path| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
        path.get(..end.unwrap_or(path.len())).unwrap_or(path)
    })
}

#[test]
fn rooms_of_mlx5_name_only_rooms_below_them() {
    let floors = floors();
    let mlx5 = sources(&[MLX5]);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for source in &mlx5 {
        let Some(room) = room(source) else { continue };
        seen.insert(room.to_owned());
        let floor = floors.get(room);
        let code = source.code().take_while(|(_, line)| *line != "mod tests {");
        for (number, line) in code {
            // Names of the crate's root do not show which module they come from, and have no floor.
            for other in named(line).filter(|other| *other != room && *other != "tests") {
                if floors.get(other).is_none_or(|other| Some(other) >= floor) {
                    wrong.push(format!("{}:{number}: {line}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let known: BTreeSet<_> = floors.into_keys().collect();
    assert_eq!(seen, known, "the page's rooms");
}
