//! The tables of `docs/guide/kernels.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fake_tests::kernels::{OF_MLX5, REQUIREMENTS, Since, rows};
use uverbs::error::Op;
use uverbs_fake::{Feature, Profile};

use crate::heart::{Ways, heart};

/// Which encodings commands used, by kernel. Adjacent kernels with the same results share a column.
fn table_of_ways() -> String {
    let mut columns: Vec<(_, _, Ways)> = Vec::new();
    for profile in Profile::ALL {
        let (version, ways) = (profile.version(), heart(*profile));
        match columns.last_mut() {
            Some((_, last, same)) if *same == ways => *last = version,
            _ => columns.push((version, version, ways)),
        }
    }
    let mut table = String::from("| |");
    for (first, last, _) in &columns {
        let _ = write!(table, " {}.{}", first.0, first.1);
        if first != last {
            let _ = write!(table, " to {}.{}", last.0, last.1);
        }
        table.push_str(" |");
    }
    let _ = write!(table, "\n|---|{}\n", "---|".repeat(columns.len()));
    for (place, op) in Op::ALL.iter().enumerate() {
        if !columns.iter().any(|(.., ways)| ways.contains_key(&place)) {
            continue;
        }
        let _ = write!(table, "| `{}` |", op.name());
        for (.., ways) in &columns {
            let way = ways.get(&place).map_or("–", String::as_str);
            let _ = write!(table, " {way} |");
        }
        table.push('\n');
    }
    table
}

/// The part of the guide between the two marks with this name.
fn part(guide: &str, name: &str) -> String {
    let (from, to) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (_, rest) = guide.split_once(&from).expect("the mark of a table");
    let (part, _) = rest.split_once(&to).expect("the mark of a table's end");
    part.to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_guide_has_these_tables() {
    let guide = fs::read_to_string(root().join("docs/guide/kernels.md")).unwrap();
    let tables = [
        ("what is required", rows(REQUIREMENTS)),
        ("what is required of mlx5", rows(OF_MLX5)),
        ("ways", table_of_ways()),
    ];
    let others: Vec<String> = tables
        .into_iter()
        .filter(|(name, table)| part(&guide, name) != *table)
        .map(|(name, table)| format!("<!-- {name} -->\n{table}<!-- end of {name} -->\n"))
        .collect();
    assert!(
        others.is_empty(),
        "docs/guide/kernels.md should have\n{}",
        others.join("\n")
    );
}

#[test]
fn rows_are_in_order_and_their_tests_exist() {
    let mut sources = String::new();
    for folder in ["providers", "tests"] {
        collect(&root().join(folder), &mut sources);
    }
    for table in [REQUIREMENTS, OF_MLX5] {
        assert!(table.is_sorted_by_key(|row| row.since.version()));
        for row in table {
            let name = format!("fn {}(", row.test);
            assert!(
                row.test.is_empty() || sources.contains(&name),
                "{}",
                row.test
            );
        }
    }
    // Every kernel feature that the fake plays has its row.
    for feature in Feature::ALL {
        let listed = REQUIREMENTS
            .iter()
            .any(|row| matches!(row.since, Since::Fake(of) if of == *feature));
        assert!(listed, "{feature:?}");
    }
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, sources);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            sources.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
