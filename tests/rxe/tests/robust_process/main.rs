//! A process and the device: effects of starting, forking, changing credentials, limits, signals
//! and being killed.
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
