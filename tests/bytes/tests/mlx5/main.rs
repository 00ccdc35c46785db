//! Boots machines: what this library writes for an mlx5 device equals what libmlx5 writes.
//!
//! A small table on 6.12, InfiniBand without and RoCE with requests that are copied with their
//! doorbells, unless `UVERBS_BYTES` in the environment names kernels
//! (`UVERBS_BYTES=6.1,6.12,newest`): then large ones on those, each with and without.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests"
)]

mod compare;
mod machine;

use std::path::PathBuf;

use bytes_tests::table::Numbers;
use bytes_tests::trace::{FirmwareCommand, Frames, frames, lives, qos};
use bytes_tests::{Table, generate};
use compare::{Counts, ON_PURPOSE, compare, compare_requests};
use machine::{Bench, Setup};
use testbed::Kernel;
use testbed::connectx::Function;

/// Number of queue pairs generated for the only table, and for each table if kernels are named.
const FEW: usize = 16;
const MANY: usize = 40;
/// Number of tables then; each has a seed of its own.
const TABLES: u64 = 2;
/// Number of frames that both programs post.
const FRAMES: usize = 96;
/// Requests in the table of `uverbs rings` that consume a receive.
const RECEIVED: usize = 17;
/// Names of kernels, separated by commas.
const VARIABLE: &str = "UVERBS_BYTES";
const KERNEL: &str = "6.12";

fn numbers(said: &str) -> Vec<Numbers> {
    let lines = said.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn requests_are_the_same(bench: &Bench, tables: &[Table]) -> Counts {
    let mut counts = Counts::default();
    for (number, table) in tables.iter().enumerate() {
        let traced = |program: &str| {
            bench.run(&format!(
                "python3 /requested.py {program} mlx5_0 /table{number}"
            ))
        };
        let (theirs, ours) = (traced("python3 /post.py"), traced("post-table"));
        let (their_numbers, our_numbers) = (numbers(&theirs.said), numbers(&ours.said));
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
            &lives(&theirs.trace, &their_numbers),
            &lives(&ours.trace, &our_numbers),
            &mut counts,
        );
        compare_requests(&theirs.said, &ours.said, &mut counts);
        // Two completion queues, two queue pairs, three modifications of each.
        assert!(counts.requests >= 10 * table.cases.len(), "{counts:?}");
    }
    counts
}

/// Rates and scheduling elements.
fn qos_is_the_same(bench: &Bench, function: Function, counts: &mut Counts) -> usize {
    let traced = |program: &str| bench.run(&format!("python3 /requested.py {program} mlx5_0"));
    let (theirs, ours) = (traced("qos-theirs"), traced("post-qos"));
    compare_requests(&theirs.said, &ours.said, counts);
    let (theirs, ours) = (qos(&theirs.trace), qos(&ours.trace));
    let names = |commands: &[FirmwareCommand]| -> Vec<_> {
        commands.iter().map(|one| one.name.clone()).collect()
    };
    assert_eq!(names(&theirs), names(&ours));
    for (at, (one, other)) in theirs.iter().zip(&ours).enumerate() {
        let differences = one.differences(other);
        assert!(
            differences.is_empty(),
            "{at}, {}: {differences:?}",
            one.name
        );
    }
    // Five elements are created, three of them modified, five destroyed; two queue pairs are
    // attached and detached five times.
    let least = if function == Function::Roce {
        18 + 11
    } else {
        18
    };
    assert!(theirs.len() >= least, "{:?}", names(&theirs));
    theirs.len()
}

/// Raw packets: checksums, segmentation, inline data.
fn frames_are_the_same(bench: &Bench, counts: &mut Counts) -> usize {
    let traced = |program: &str| bench.run(&format!("python3 /requested.py {program} mlx5_0"));
    let (theirs, ours) = (traced("frames-theirs"), traced("post-frames"));
    compare_requests(&theirs.said, &ours.said, counts);
    let [theirs, ours] = [theirs, ours].map(|run| {
        let mut said = run.said.lines();
        let said: Frames = said
            .find_map(|line| serde_json::from_str(line).ok())
            .expect("the program says where its memory is");
        frames(&run.trace, said)
    });
    for (at, (one, other)) in theirs.iter().zip(&ours).enumerate() {
        assert_eq!(one, other, "frame {at}");
    }
    assert_eq!((theirs.len(), ours.len()), (FRAMES, FRAMES));
    theirs.len()
}

/// The output of `uverbs rings`, and of the program that people build to compare it with: every
/// field except those that differ from run to run.
fn rings_are_the_same(bench: &Bench, function: Function) -> usize {
    let gid_index = if function == Function::Roce {
        " 1 1"
    } else {
        ""
    };
    let theirs = bench.run(&format!("rings-theirs mlx5_0{gid_index}")).said;
    let ours = bench.run("uverbs rings -d mlx5_0").said;
    for (at, (one, other)) in theirs.lines().zip(ours.lines()).enumerate() {
        assert_eq!(one, other, "line {at}: theirs, ours");
    }
    assert_eq!(theirs.lines().count(), ours.lines().count());
    // 21 requests, of which 17 consume a receive; each has a completion.
    assert_eq!(ours.lines().count(), 21 * 2 + RECEIVED * 2, "{ours}");
    let failures = [" syndrome=REMOTE_ACCESS ", " syndrome=WR_FLUSH "];
    for failure in failures {
        assert!(ours.contains(failure), "{failure}: {ours}");
    }
    ours.lines().count()
}

fn everything_is_the_same(function: Function) {
    for setup in setups(function) {
        let name = format!("bytes-{}-{}", function.name(), std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (count, cases) = match std::env::var_os(VARIABLE) {
            Some(_) => (TABLES, MANY),
            None => (1, FEW),
        };
        let tables: Vec<Table> = (1..=count)
            .map(|seed| generate::table(seed, cases))
            .collect();
        let paths: Vec<PathBuf> = (0..tables.len())
            .map(|n| folder.join(format!("table{n}")))
            .collect();
        for (table, path) in tables.iter().zip(&paths) {
            std::fs::write(path, serde_json::to_string(table).unwrap()).unwrap();
        }
        let bench = setup.boot(&folder, &paths);
        let mut counts = requests_are_the_same(&bench, &tables);
        let of_qos = qos_is_the_same(&bench, function, &mut counts);
        let of_frames = if function == Function::Roce {
            frames_are_the_same(&bench, &mut counts)
        } else {
            0
        };
        let of_rings = rings_are_the_same(&bench, function);
        // An entry of the list that does not differ must be removed.
        for what in ON_PURPOSE {
            assert!(counts.on_purpose[what] > 0, "{what}: {counts:?}");
        }
        assert_eq!(
            counts.copied.map(|count| count > 0),
            [setup.blueflame; 2],
            "{counts:?}"
        );
        println!(
            "the same, byte for byte, in {setup:?}: {counts:?}, {of_frames} frames, {of_qos} of rates and elements, {of_rings} lines of rings"
        );
        drop(bench);
        let _ = std::fs::remove_dir_all(&folder);
    }
}

fn setups(function: Function) -> Vec<Setup> {
    let setup = |kernel: &str, blueflame| Setup {
        kernel: Kernel::named(kernel).expect("a kernel's name"),
        function,
        blueflame,
    };
    match std::env::var(VARIABLE) {
        Ok(kernels) => kernels
            .split(',')
            .flat_map(|kernel| [false, true].map(|blueflame| setup(kernel, blueflame)))
            .collect(),
        Err(_) => vec![setup(KERNEL, function == Function::Roce)],
    }
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level connectx"]
fn requests_are_the_same_on_infiniband() {
    everything_is_the_same(Function::Ib);
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level connectx"]
fn requests_are_the_same_on_roce() {
    everything_is_the_same(Function::Roce);
}
