//! The committed programs, modified ones, and random programs, on every device.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;

use adversary::op::{BYTES, program};
use adversary::run::{Devices, MODELS, play, shrink};
use proptest::prelude::*;

/// Number of programs run on each device.
const CASES: u32 = if cfg!(miri) { 2 } else { 512 };
/// Number of steps in each.
const STEPS: usize = if cfg!(miri) { 12 } else { 48 };

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = fs::read_dir(folder.join(name)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn run(devices: Devices, bytes: &[u8]) {
    let ops = program(bytes);
    let Err(found) = play(devices, &ops, None) else {
        return;
    };
    let short = shrink(devices, &ops, &found, None);
    let steps: Vec<_> = short.iter().map(ToString::to_string).collect();
    panic!("{found}\n{}", steps.join("\n"));
}

macro_rules! machines {
    ($($name:ident: $model:literal, $folder:literal;)*) => {
        $(mod $name {
            use super::*;

            fn devices() -> Devices {
                let found = MODELS.iter().find(|(name, _)| *name == $model);
                found.unwrap_or_else(|| panic!("no model {}", $model)).1
            }

            #[test]
            fn every_seed() {
                let seeds = seeds($folder);
                assert!(!seeds.is_empty());
                let most = if cfg!(miri) { 2 } else { usize::MAX };
                for seed in seeds.into_iter().take(most) {
                    run(devices(), &seed);
                }
            }

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: CASES,
                    failure_persistence: None,
                    // Programs are shrunk step by step.
                    max_shrink_iters: 0,
                    ..ProptestConfig::default()
                })]

                #[test]
                fn any_program(bytes in prop::collection::vec(any::<u8>(), 0..STEPS * BYTES)) {
                    run(devices(), &bytes);
                }

                #[test]
                fn changed_seeds(
                    seed in prop::sample::select(seeds($folder)),
                    changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
                    more in prop::collection::vec(any::<u8>(), 0..64),
                ) {
                    let mut bytes = seed;
                    for (at, byte) in changes {
                        let at = at.index(bytes.len());
                        bytes[at] = byte;
                    }
                    bytes.extend(more);
                    run(devices(), &bytes);
                }
            }
        })*
    };
}

machines! {
    fake: "fake", "adversary_fake";
    connectx: "connectx", "adversary_connectx";
    connectx_without_numbers: "connectx-v0", "adversary_connectx";
}
