#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

//! Trees on a device that fails on demand.

mod attach;
mod elements;
mod fake;
mod live;
mod plans;
mod rollback;
