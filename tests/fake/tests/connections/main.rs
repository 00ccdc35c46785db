//! The connection manager's commands, on the fake kernel with both ends of each connection.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod addresses;
mod datagrams;
mod ends;
mod handshake;
mod hostile;
mod orders;
mod process;

use uverbs_core::Result;
use uverbs_core::error::Errno;

/// The errno of a failure, which there must be.
#[track_caller]
fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    let error = result.expect_err("it must fail");
    error.errno().unwrap_or_else(|| panic!("{error}"))
}
