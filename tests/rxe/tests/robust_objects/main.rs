//! Objects in large numbers, from many threads, and with every argument invalid.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and says what is missing"
)]

mod bad_commands;
mod bad_queues;
mod bad_requests;
mod bad_states;
mod many;
mod random;
mod threads;

#[path = "../robust_support/mod.rs"]
mod support;
