//! A miniature driver that drives the model through its registers and command queue, without a
//! virtual machine.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests, and what drives the model for them"
)]
#![cfg_attr(
    not(test),
    allow(dead_code, reason = "tests use more of the driver than programs do")
)]

#[cfg(test)]
mod blueflame;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod compressed;
#[cfg(test)]
mod ethernet;
#[cfg(test)]
mod events;
#[cfg(test)]
mod faults;
mod host;
#[cfg(test)]
mod nonsense;
#[cfg(test)]
mod paging;
mod program;
#[cfg(test)]
mod registration;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod subnet;
#[cfg(test)]
mod transport;
#[cfg(test)]
mod tree;

pub use program::run as run_program;
