//! Faults outside of the program: queues that overrun, peers and links that disappear.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and says what is missing"
)]

mod links;
mod modules;
mod overrun;
mod peers;

#[path = "../robust_support/mod.rs"]
mod support;
