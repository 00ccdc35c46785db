//! The fuzz targets over the committed seeds, over modified ones, and over random bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

use fake_tests::is_thinned;
use hostile_tests::Target;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// The fuzz targets: structures of a kernel, and the library against hostile kernels and devices.
fn targets() -> impl Iterator<Item = Target> {
    let words = fake_tests::targets::ALL.iter();
    words.chain(hostile_tests::ALL).copied()
}

/// Number of seeds of each target that are run. Miri takes seconds for each.
const SEEDS: usize = if cfg!(miri) { 2 } else { usize::MAX };
/// Number of modified or random inputs of each target that are run.
fn cases() -> u32 {
    match (cfg!(miri), is_thinned()) {
        (true, _) => 1,
        (false, true) => 16,
        (false, false) => 128,
    }
}

/// The largest part of an input that is given to a target.
const LONGEST: usize = if cfg!(miri) { 96 } else { usize::MAX };

fn give(body: fn(&[u8]), input: &[u8]) {
    body(input.get(..LONGEST).unwrap_or(input));
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz().join("seeds").join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.display().to_string(), fs::read(&path).unwrap())
        })
        .collect();
    seeds.sort_by(|(a_file, a), (b_file, b)| (a.len(), a_file).cmp(&(b.len(), b_file)));
    seeds
}

/// At most this many of them, spread from the first to the last.
fn spread<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let (last, gaps) = (all.len().saturating_sub(1), most.saturating_sub(1));
    if gaps >= last {
        return all;
    }
    let wanted: Vec<_> = (0..most).map(|at| at * last / gaps.max(1)).collect();
    let numbered = all.into_iter().enumerate();
    let kept = numbered.filter(|(at, _)| wanted.contains(at));
    kept.map(|(_, one)| one).collect()
}

fn target(name: &str) -> Target {
    let found = targets().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("{name} is no target"))
}

fn run_seeds((name, body): Target) {
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let there = seeds.len();
    let seeds = spread(seeds, SEEDS);
    println!("{name}: {} of {there} seeds", seeds.len());
    for (file, bytes) in seeds {
        println!("{file}");
        give(body, &bytes);
    }
}

#[test]
fn a_spread_goes_from_the_first_to_the_last() {
    let all: Vec<_> = (0..11).collect();
    assert_eq!(spread(all.clone(), usize::MAX), all);
    assert_eq!(spread(all.clone(), 11), all);
    assert_eq!(spread(all.clone(), 3), [0, 5, 10]);
    assert_eq!(spread(all.clone(), 2), [0, 10]);
    assert_eq!(spread(all, 1), [0]);
    assert_eq!(spread(vec![7], 2), [7]);
    assert!(spread(Vec::<u8>::new(), 2).is_empty());
}

/// Seeds with a few bytes changed reach deeper than random ones.
fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    (
        prop::sample::select(seeds),
        prop::collection::vec(change, 0..8),
    )
        .prop_map(|(mut bytes, changes)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            bytes
        })
}

fn run_changed((name, body): Target) {
    let cases = cases();
    println!("{name}: {cases} inputs");
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let seeds = seeds(name).into_iter().map(|(_, bytes)| bytes).collect();
    let random = prop::collection::vec(any::<u8>(), 0..512);
    TestRunner::new(config)
        .run(&prop_oneof![random, changed(seeds)], |bytes| {
            give(body, &bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// The same two tests for each target.
macro_rules! tests_of {
    ($($name:ident,)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        mod every_seed_of {
            $(#[test]
            fn $name() {
                super::run_seeds(super::target(stringify!($name)));
            })*
        }

        mod changed_seeds_and_random_bytes_of {
            $(#[test]
            fn $name() {
                super::run_changed(super::target(stringify!($name)));
            })*
        }
    };
}

tests_of!(
    api_machine,
    async_event,
    cm_event,
    completion_event,
    devx_event,
    differential,
    exchange,
    gid_sysfs,
    ioctl_reply,
    mlx5_context,
    mlx5_ring,
    nldev_dump,
    prm_words,
    reply_address,
    reply_cq,
    reply_device,
    reply_devx,
    reply_memory,
    reply_qp,
    reply_receive,
    reply_xrc,
    rxe_ring,
    rxe_srq,
    sched_file,
    sched_tree,
    stream_wire,
    sysfs_devices,
    texts,
    wc,
);

#[test]
fn every_target_is_tested() {
    let mut all: Vec<_> = targets().map(|(name, _)| name).collect();
    all.sort_unstable();
    assert_eq!(all, TESTED);
}

/// A target that libFuzzer does not know is not fuzzed.
#[test]
fn every_target_is_one_of_the_fuzzers() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in targets().map(|(name, _)| name).chain(["connectx"]) {
        assert!(
            manifest.contains(&format!("name = \"{name}\"\n")),
            "{name} is not in the fuzzer's manifest"
        );
        let file = fuzz().join(format!("fuzz_targets/{name}.rs"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("::{name}(bytes)")) || name == "connectx");
    }
    assert!(manifest.matches("[[bin]]").count() >= 20);
}
