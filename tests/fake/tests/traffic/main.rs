//! Queues at work, on a ConnectX in this process and on the fake kernel's rxe: every operation with
//! messages and lists of every shape, through queues of several sizes, around their ends many
//! times. What arrives, what completes and in which order is compared with what was requested.
#![forbid(unsafe_code)]
// A whole device would be interpreted.
#![cfg(not(miri))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bench;
mod datagrams;
mod failures;
mod world;

use bench::{Bench, Shape};
use fake_tests::is_thinned;
use uverbs::QpType;
use world::World;

/// As many as make every ring begin again several times; fewer where each takes long.
fn rounds() -> u32 {
    if is_thinned() { 50 } else { 400 }
}

const SHAPES: [Shape; 7] = [
    Shape {
        sends: 20,
        receives: 50,
        sges: 3,
        inline: 28,
        shared: false,
        kind: QpType::Uc,
    },
    Shape {
        sends: 1,
        receives: 1,
        sges: 1,
        inline: 0,
        shared: false,
        kind: QpType::Rc,
    },
    Shape {
        sends: 7,
        receives: 3,
        sges: 2,
        inline: 16,
        shared: false,
        kind: QpType::Rc,
    },
    Shape {
        sends: 64,
        receives: 64,
        sges: 5,
        inline: 100,
        shared: false,
        kind: QpType::Rc,
    },
    Shape {
        sends: 300,
        receives: 1000,
        sges: 13,
        inline: 400,
        shared: false,
        kind: QpType::Rc,
    },
    Shape {
        sends: 16,
        receives: 5,
        sges: 1,
        inline: 60,
        shared: true,
        kind: QpType::Rc,
    },
    Shape {
        sends: 33,
        receives: 600,
        sges: 1,
        inline: 32,
        shared: true,
        kind: QpType::Rc,
    },
];

#[test]
fn every_operation_arrives_and_completes() {
    for world in World::all() {
        for (seed, shape) in (1..).zip(SHAPES) {
            let mut bench = Bench::new(world(), &shape, seed);
            for _ in 0..rounds() {
                bench.one();
            }
            bench.end();
        }
    }
}

#[test]
fn batches_arrive_and_complete_in_their_order() {
    for world in World::all() {
        for (seed, shape) in (100..).zip(SHAPES) {
            let mut bench = Bench::new(world(), &shape, seed);
            for _ in 0..rounds() / 8 {
                bench.batch();
            }
            bench.end();
        }
    }
}

/// Completions that were not polled move to the new ring in their order.
#[test]
fn a_completion_queue_is_resized_with_completions_in_it() {
    for world in World::all() {
        for (seed, shape) in (200..).zip(SHAPES) {
            let mut bench = Bench::new(world(), &shape, seed);
            for entries in [5, 1000, 64, 63, 4000] {
                bench.batch();
                bench.batch_while(|bench| bench.resize(entries));
                bench.one();
            }
            bench.end();
        }
    }
}
