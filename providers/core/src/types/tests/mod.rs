//! Tests of the vocabulary against the tables that it comes from.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod addresses;
mod completions;
mod open;
mod qp;
mod rate;
mod texts;
mod time;
mod transition;
mod uapi;
