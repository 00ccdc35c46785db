//! What the tests of the house rules share: the workspace's sources and what cargo knows of it.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

mod crates;
mod sources;

pub use crates::{Crates, Package};
pub use sources::{Source, root, shipped, sources, whole_repository};
