#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

//! Trees against a device that fails when it is told to.

mod fake;
mod plans;
mod rollback;
