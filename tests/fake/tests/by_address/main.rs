//! Connections by address as programs make them, on the fake kernel with both ends in one process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod datagrams;
mod deaths;
mod drops;
mod flood;
mod handshake;
mod hostile;
mod hub_tasks;
mod hubs;
mod ids;
mod iwarp;
mod many;
mod refusals;
mod side;
mod tasks;

use std::time::{Duration, Instant};

use fake_tests::PATIENCE;

/// Waits until something holds that another thread does.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
