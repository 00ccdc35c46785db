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

use bytes_tests::table::{Batch, Case, Numbers};
use bytes_tests::trace::{Life, Rung, lives};
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
    let written = written[before..].to_owned();
    // What a test that fails leaves behind.
    let name = command.replace([' ', '/'], "-");
    std::fs::write(trace.with_file_name(&name), &written).expect("a file");
    std::fs::write(trace.with_file_name(name + ".out"), &output.stdout).expect("a file");
    (numbers, written)
}

/// How much was compared.
#[derive(Debug, Default)]
struct Counts {
    sends: usize,
    receives: usize,
    shared_receives: usize,
    doorbells: usize,
    /// Of those, with other records beside them: the device has its doorbells later than memory, which may have moved on by then.
    late: usize,
    arms: usize,
    commands: usize,
}

fn compare(table: &Table, theirs: &[Life], ours: &[Life], counts: &mut Counts) {
    for (number, (case, (theirs, ours))) in
        table.cases.iter().zip(theirs.iter().zip(ours)).enumerate()
    {
        let context = format!("case {number}");
        sends_are_the_same(case, theirs, ours, &context);
        receives_are_the_same(case, theirs, ours, &context);
        assert_eq!(theirs.rings.len(), case.batches.len(), "{context}");
        for (at, (one, other)) in theirs.rings.iter().zip(&ours.rings).enumerate() {
            let said = |rung: &Rung| (rung.place, rung.value, rung.copied);
            assert_eq!(said(one), said(other), "{context}, doorbell {at}");
            counts.late += usize::from(one.records != other.records);
        }
        assert_eq!(theirs.rings.len(), ours.rings.len(), "{context}");
        let armed = case.batches.iter().filter(|batch| batch.notify.is_some());
        assert_eq!(theirs.arms.len(), armed.count(), "{context}");
        assert_eq!(theirs.arms, ours.arms, "{context}");
        commands_are_the_same(theirs, ours, &context);
        counts.commands += theirs.commands.len();
        counts.sends += theirs.sends.len();
        if case.shared {
            counts.shared_receives += theirs.receives.len();
        } else {
            counts.receives += theirs.receives.len();
        }
        counts.doorbells += theirs.rings.len();
        counts.arms += theirs.arms.len();
    }
}

fn sends_are_the_same(case: &Case, theirs: &Life, ours: &Life, context: &str) {
    let requests: Vec<_> = case.requests().collect();
    let missing = "the trace has every request";
    assert_eq!(theirs.sends.len(), requests.len(), "{context}: {missing}");
    for (at, (one, other)) in theirs.sends.iter().zip(&ours.sends).enumerate() {
        let [one, other] =
            [one, other].map(|fetched| fetched.without_padding(case.transport, requests[at]));
        assert_eq!(one, other, "{context}, send {at}: {:?}", requests[at]);
    }
    assert_eq!(theirs.sends.len(), ours.sends.len(), "{context}");
}

fn commands_are_the_same(theirs: &Life, ours: &Life, context: &str) {
    for (one, other) in theirs.commands.iter().zip(&ours.commands) {
        assert_eq!(one.name, other.name, "{context}");
        let differences = one.differences(other);
        assert!(
            differences.is_empty(),
            "{context}, {}: {differences:?}",
            one.name
        );
    }
    assert_eq!(theirs.commands.len(), ours.commands.len(), "{context}");
}

fn receives_are_the_same(case: &Case, theirs: &Life, ours: &Life, context: &str) {
    let requests: Vec<_> = case.batches.iter().flat_map(Batch::received).collect();
    let missing = "the trace has every receive";
    assert_eq!(
        theirs.receives.len(),
        requests.len(),
        "{context}: {missing}"
    );
    for (at, (one, other)) in theirs.receives.iter().zip(&ours.receives).enumerate() {
        let what = || format!("{context}, receive {at}: {:?}", requests[at].receive);
        assert_eq!(one.bytes, other.bytes, "{}", what());
        assert_eq!(one.record, other.record, "{}", what());
        if !case.shared {
            assert_eq!(one.index, other.index, "{}", what());
        }
    }
    assert_eq!(theirs.receives.len(), ours.receives.len(), "{context}");
    for life in [theirs, ours] {
        // Where a shared queue goes on is its own choice, as long as it says so.
        for pair in life.receives.windows(2).filter(|_| case.shared) {
            assert_eq!(pair[0].next, Some(pair[1].index), "{context}");
        }
    }
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
    let mut counts = Counts::default();
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
            assert_eq!(one.receives, other.receives, "sizes of case {case}");
        }
        compare(
            table,
            &lives(&theirs, &their_numbers),
            &lives(&ours, &our_numbers),
            &mut counts,
        );
    }
    assert!(counts.late * 3 < counts.doorbells, "{counts:?}");
    println!("the same, byte for byte: {counts:?}");
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
