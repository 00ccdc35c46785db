//! A process and the device: what starting, forking, changing credentials, limits, signals and
//! being killed do.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and says what is missing"
)]

mod elsewhere;
mod forked;
mod killed;
mod limits;
mod opening;
mod privileges;
mod signals;
mod system_calls;

#[path = "../robust_support/mod.rs"]
mod support;
