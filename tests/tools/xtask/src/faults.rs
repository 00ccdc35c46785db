//! `cargo xtask faults`: which test proves the behaviour at each fault of `tests/faults.txt`.

use anyhow::{Context as _, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::cargo::workspace;

/// The list.
const LIST: &str = include_str!("../../../faults.txt");

/// Where tests are, and what they run on.
const PLACES: [(&str, &str); 9] = [
    ("tests/fake/", "fake"),
    ("tests/rxe/", "rxe"),
    ("tests/mlx5/", "mlx5"),
    ("tests/verbs/", "rxe, mlx5"),
    ("tests/interop/", "interop"),
    ("tests/models/connectx/", "model"),
    ("providers/", "unit"),
    ("src/", "unit"),
    ("uapi/", "unit"),
];

/// Name prefixes of tests that run on only one of the devices, and which device that is. Both have
/// Ethernet ports.
const ALONE: [(&str, Option<&str>); 4] = [
    ("rxe_", Some("rxe")),
    ("mlx5_", Some("mlx5")),
    ("ib_", Some("mlx5")),
    ("roce_", None),
];

/// Print every fault with the tests that prove the behaviour; fail if a fault has none.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Print only faults without a test.
    #[arg(long)]
    missing: bool,
}

/// A test that proves the behaviour at a fault.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Test {
    level: String,
    file: String,
    name: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (titles, tests) = (titles()?, tests()?);
    if let Some(unlisted) = tests.keys().find(|number| !titles.contains_key(number)) {
        bail!("a test is named after F{unlisted}, which tests/faults.txt does not have");
    }
    let none = Vec::new();
    let mut missing = Vec::new();
    for (number, title) in &titles {
        let found = tests.get(number).unwrap_or(&none);
        if found.is_empty() {
            missing.push(format!("F{number}"));
        } else if options.missing {
            continue;
        }
        println!("{:<4} {title}", format!("F{number}"));
        for test in found {
            println!("     {:<9} {} ({})", test.level, test.name, test.file);
        }
    }
    let named: usize = tests.values().map(Vec::len).sum();
    println!("{} faults, {named} tests", titles.len());
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("no test for {}", missing.join(", "))
}

/// Fails if a fault has no test.
pub(crate) fn compare() -> anyhow::Result<()> {
    run(&Options { missing: true }).map(drop)
}

fn titles() -> anyhow::Result<BTreeMap<u32, &'static str>> {
    let lines = LIST
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            line.strip_prefix('F')
                .and_then(|rest| rest.split_once(' '))
                .and_then(|(number, title)| Some((number.parse().ok()?, title.trim())))
                .with_context(|| format!("tests/faults.txt: not a fault: {line}"))
        })
        .collect()
}

/// The tests by the numbers in their names.
fn tests() -> anyhow::Result<BTreeMap<u32, Vec<Test>>> {
    let mut tests: BTreeMap<u32, Vec<Test>> = BTreeMap::new();
    let root = workspace();
    for (place, level) in PLACES {
        for path in sources(&root.join(place))? {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let file = path.strip_prefix(&root).unwrap_or(&path);
            for name in names(&text) {
                for number in numbers(name) {
                    tests.entry(number).or_default().push(Test {
                        level: level_of(name, level).to_owned(),
                        file: file.display().to_string(),
                        name: name.to_owned(),
                    });
                }
            }
        }
    }
    for tests in tests.values_mut() {
        tests.sort();
    }
    Ok(tests)
}

/// The Rust sources below a folder.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("reading the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                found.extend(sources(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The names of the tests in a source: of functions directly below a `test` attribute, which other
/// attributes may follow.
fn names(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = after_fn(line).filter(|_| is_test) {
            found.extend(rest.split('(').next());
            is_test = false;
        } else if line.starts_with("#[ignore") {
            // A test that is not run proves nothing.
            is_test = false;
        }
    }
    found
}

fn after_fn(line: &str) -> Option<&str> {
    line.strip_prefix("fn ")
        .or_else(|| line.strip_prefix("async fn "))
}

/// The faults in a test's name: `f12_f15_…`, possibly after the name of a device or a port.
fn numbers(name: &str) -> Vec<u32> {
    let name = ALONE
        .iter()
        .find_map(|(prefix, _)| name.strip_prefix(prefix))
        .unwrap_or(name);
    name.split('_')
        .map_while(|part| {
            part.strip_prefix('f')
                .filter(|digits| digits.len() == 2)?
                .parse()
                .ok()
        })
        .collect()
}

fn level_of<'a>(name: &str, level: &'a str) -> &'a str {
    ALONE
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .and_then(|(_, alone)| *alone)
        .unwrap_or(level)
}

#[cfg(test)]
mod tests {
    use super::{level_of, names, numbers, titles};

    #[test]
    fn faults_are_numbered_without_gaps() {
        let titles = titles().unwrap_or_default();
        assert!(titles.keys().copied().eq(1..=31), "{titles:?}");
    }

    #[test]
    fn numbers_stand_at_the_front() {
        assert_eq!(numbers("f07_of_any_length"), [7]);
        assert_eq!(numbers("f12_f15_two_at_once"), [12, 15]);
        assert_eq!(numbers("roce_f03_a_port"), [3]);
        assert_eq!(numbers("from_f07"), [0_u32; 0]);
        assert_eq!(numbers("f7_one_digit"), [0_u32; 0]);
        assert_eq!(level_of("rxe_f29_events", "rxe, mlx5"), "rxe");
        assert_eq!(level_of("roce_f03_a_port", "rxe, mlx5"), "rxe, mlx5");
    }

    #[test]
    fn tests_are_functions_below_their_attribute() {
        let text = "fn f01_helper() {}\n#[test]\n#[cfg(unix)]\nfn f02_test() {}\n    #[test]\n    fn f03_inside(x in y()) {}\n\
                    #[test]\n#[ignore = \"slow\"]\nfn f04_never() {}\n";
        assert_eq!(names(text), ["f02_test", "f03_inside"]);
    }
}
