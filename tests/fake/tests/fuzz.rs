//! The fuzzed functions over the committed seeds, and over random bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;

use fake_tests::targets::{ALL, Target};
use proptest::prelude::*;

fn seeds(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.display().to_string(), fs::read(&path).unwrap())
        })
        .collect()
}

#[test]
fn every_seed_of_every_target() {
    for (name, body) in ALL {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (file, bytes) in seeds {
            println!("{file}");
            body(&bytes);
        }
    }
}

/// Seeds with a few bytes changed reach deeper than random ones.
fn changed(target: Target) -> impl Strategy<Value = Vec<u8>> {
    let seeds: Vec<Vec<u8>> = seeds(target.0)
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
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

fn run(target: Target, cases: u32) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..512), changed(target)];
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&bytes, |bytes| {
            (target.1)(&bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{}: {error}", target.0));
}

macro_rules! targets {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let target = *ALL.iter().find(|(name, _)| *name == stringify!($name)).unwrap();
            run(target, 256);
        }
    )*};
}

targets!(
    async_event,
    gid_sysfs,
    ioctl_reply,
    nldev_dump,
    rxe_ring,
    wc
);
