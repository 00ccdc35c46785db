//! Random safe programs that try to observe memory changing which a device still writes to.
//!
//! A [program](op) is a list of steps that any program under `#![forbid(unsafe_code)]` could take
//! with the public calls of `uverbs`. A [`World`] carries them out on a [`Device`](device::Device),
//! which between any two steps writes to every byte that it may still write. The guarantees that
//! are checked after each step, and at the end, are in [`finding`].
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
