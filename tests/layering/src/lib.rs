//! Shared by the tests of the house rules: the workspace's sources and what cargo knows about it.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

mod crates;
mod sources;

pub use crates::{Crates, Package};
pub use sources::{Source, root, shipped, sources, whole_repository};
