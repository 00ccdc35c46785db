//! The stock drivers and Debian's own programs on the model, in machines.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod adapter;
mod blueflame;
mod events;
mod guest;
mod registration;
mod shaper;
mod support;
