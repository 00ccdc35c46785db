//! How often each line was executed, by file, and which lines count.

use super::of_tests;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// From a file, relative to the root of the workspace, to its lines, each with its execution count.
pub(super) type Lines = BTreeMap<String, BTreeMap<usize, u64>>;

/// Crates, where their sources are, and whether the limit applies to them.
pub(super) const CRATES: [(&str, &str, bool); 5] = [
    ("uverbs-core", "providers/core/src/", true),
    ("uverbs-rxe", "providers/rxe/src/", true),
    ("uverbs-mlx5", "providers/mlx5/src/", true),
    ("uverbs-any", "providers/any/src/", false),
    ("uverbs (facade)", "src/", false),
];

/// The programs that come with the facade are not part of the library.
const PROGRAMS: &str = "src/cli/";

/// The part of these counts that concerns lines of the library itself.
pub(super) fn of_the_library(lcov: &str) -> anyhow::Result<Lines> {
    let root = testbed::cargo::workspace();
    let mut lines = read(lcov, &root);
    lines.retain(|file, _| is_of_the_library(file));
    for (file, counts) in &mut lines {
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"))?;
        let tests = of_tests::lines(&text).with_context(|| format!("understanding {file}"))?;
        counts.retain(|line, _| !tests.iter().any(|test| test.contains(line)));
    }
    lines.retain(|_, counts| !counts.is_empty());
    Ok(lines)
}

fn is_of_the_library(file: &str) -> bool {
    let ours = CRATES.iter().any(|(_, folder, _)| file.starts_with(folder));
    ours && !file.starts_with(PROGRAMS) && !crate::coverage::scan::is_test_file(file)
}

/// The records of llvm-cov's `lcov` format: `SF:` a file, `DA:` a line and its count.
fn read(lcov: &str, root: &Path) -> Lines {
    let mut lines = Lines::new();
    let mut file = None;
    for record in lcov.lines() {
        if let Some(path) = record.strip_prefix("SF:") {
            let inside = Path::new(path).strip_prefix(root);
            file = inside.ok().map(|path| path.to_string_lossy().into_owned());
        } else if let Some(data) = record.strip_prefix("DA:")
            && let Some(file) = &file
            && let Some((line, count)) = data.split_once(',')
            && let (Ok(line), Ok(count)) = (line.parse::<usize>(), count.parse::<u64>())
        {
            *lines
                .entry(file.clone())
                .or_default()
                .entry(line)
                .or_default() += count;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_of_a_file_of_ours() {
        let lcov = "SF:/there/src/a.rs\nDA:3,0\nDA:4,17\nend_of_record\nSF:/else/b.rs\nDA:1,1\nend_of_record\n";
        let lines = read(lcov, Path::new("/there"));
        let expected = BTreeMap::from([("src/a.rs".to_owned(), BTreeMap::from([(3, 0), (4, 17)]))]);
        assert_eq!(lines, expected);
    }

    #[test]
    fn neither_tests_nor_programs_nor_the_fake_kernel_count() {
        for file in ["src/qp.rs", "providers/mlx5/src/cq/mod.rs"] {
            assert!(is_of_the_library(file), "{file}");
        }
        for file in [
            "src/cli/src/main.rs",
            "providers/mlx5/src/sq/tests/mod.rs",
            "providers/mlx5/src/cq/poll/tests/mod.rs",
            "providers/core/src/cmd/tests/paths.rs",
            "tests/models/kernel/src/state.rs",
            "tests/fake/src/lib.rs",
        ] {
            assert!(!is_of_the_library(file), "{file}");
        }
    }
}
