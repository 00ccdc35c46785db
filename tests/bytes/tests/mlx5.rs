//! Boots a machine: what this library writes for an mlx5 device equals what libmlx5 writes.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes_tests::table::Numbers;
use bytes_tests::trace::{self, Fetched};
use bytes_tests::{Table, generate};
use testbed::connectx::{Connectx, Function};
use testbed::{Command, Guest, Kernel, Machine};

/// Seeds of the tables, and how many queue pairs each has.
const SEEDS: [u64; 2] = [1, 2];
const CASES: usize = 40;
const PATIENCE: Duration = Duration::from_secs(120);

fn boot(folder: &Path, tables: &[PathBuf], function: Function) -> Guest {
    let build = [
        "build",
        "--release",
        "--package",
        "bytes-tests",
        "--bin",
        "post-table",
    ];
    let program = testbed::cargo::build_program("post-table", &build).expect("a program");
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/post.py");
    let mut machine = Machine::new(Kernel::named("6.12").expect("a kernel"))
        .connectx(Connectx::new(&[function]).trace(folder.join("trace")))
        .with_debian_tools()
        .with_debian_packages(&["python3-pyverbs", "python3"])
        .with_binary(program, "post-table")
        .with_file(oracle, "/post.py");
    for (number, table) in tables.iter().enumerate() {
        machine = machine.with_file(table, &format!("/table{number}"));
    }
    machine.boot().expect("the machine boots")
}

/// Runs a program and returns what it said of its cases, and what the device wrote down meanwhile.
fn posted(guest: &Guest, trace: &Path, command: &str) -> (Vec<Numbers>, String) {
    let before = std::fs::read_to_string(trace).unwrap_or_default().len();
    let output = guest
        .run(Command::shell(command).timeout(PATIENCE))
        .expect("the guest runs commands")
        .check()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let numbers = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let written = std::fs::read_to_string(trace).expect("a trace");
    (numbers, written[before..].to_owned())
}

fn compare(table: &Table, theirs: &[Vec<Fetched>], ours: &[Vec<Fetched>]) -> usize {
    let mut count = 0;
    for (number, (case, (theirs, ours))) in
        table.cases.iter().zip(theirs.iter().zip(ours)).enumerate()
    {
        let requests: Vec<_> = case.batches.iter().flatten().collect();
        assert_eq!(
            theirs.len(),
            requests.len(),
            "case {number}: the trace has every request"
        );
        for (at, (one, other)) in theirs.iter().zip(ours).enumerate() {
            let [one, other] =
                [one, other].map(|fetched| fetched.without_padding(case.transport, requests[at]));
            assert_eq!(
                one, other,
                "case {number}, request {at}: {:?}",
                requests[at]
            );
            count += 1;
        }
        assert_eq!(theirs.len(), ours.len(), "case {number}");
    }
    count
}

fn requests_are_the_same(function: Function) {
    let folder =
        std::env::temp_dir().join(format!("bytes-{}-{}", function.name(), std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tables: Vec<Table> = SEEDS.map(|seed| generate::table(seed, CASES)).into();
    let paths: Vec<PathBuf> = (0..tables.len())
        .map(|n| folder.join(format!("table{n}")))
        .collect();
    for (table, path) in tables.iter().zip(&paths) {
        std::fs::write(path, serde_json::to_string(table).unwrap()).unwrap();
    }
    let guest = boot(&folder, &paths, function);
    let trace = folder.join("trace");
    let mut count = 0;
    for (number, table) in tables.iter().enumerate() {
        let (their_numbers, theirs) = posted(
            &guest,
            &trace,
            &format!("python3 /post.py mlx5_0 /table{number}"),
        );
        let (our_numbers, ours) =
            posted(&guest, &trace, &format!("post-table mlx5_0 /table{number}"));
        assert_eq!(their_numbers.len(), table.cases.len());
        assert_eq!(our_numbers.len(), table.cases.len());
        for (case, (one, other)) in their_numbers.iter().zip(&our_numbers).enumerate() {
            assert_eq!(
                one.caps, other.caps,
                "sizes of case {case}: {:?}",
                table.cases[case]
            );
        }
        count += compare(
            table,
            &trace::sends(&theirs, &their_numbers),
            &trace::sends(&ours, &our_numbers),
        );
    }
    println!("{count} requests are the same, byte for byte");
    drop(guest);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level connectx"]
fn requests_are_the_same_on_infiniband() {
    requests_are_the_same(Function::Ib);
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level connectx"]
fn requests_are_the_same_on_roce() {
    requests_are_the_same(Function::Roce);
}
