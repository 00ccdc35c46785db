//! A driver in miniature that drives the model through its registers and command queue, without a machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod blueflame;
mod commands;
mod ethernet;
mod faults;
mod host;
mod nonsense;
mod transport;
mod tree;
