//! Safe programs at random, which try to see memory change that a device still writes.
//!
//! A [program](op) is a list of steps that any program under `#![forbid(unsafe_code)]` could make
//! with the public calls of `uverbs`. A [`World`] makes them on a [`Device`](device::Device), which
//! between any two steps writes to every byte that it may still write. Promises that are looked at
//! after each step, and at the end, are in [`finding`].
#![allow(clippy::match_bool, reason = "a choice of the program's reads as one")]

pub mod device;
mod face;
pub mod fake;
pub mod finding;
pub mod mlx5;
pub mod op;
pub mod run;
mod shaky;
mod world;

pub use world::World;
