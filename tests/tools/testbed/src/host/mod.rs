//! What the testbed needs on the host, and how it gets there.
//!
//! A missing tool is installed by `apt-get` (as root, or by `sudo` that asks nothing) or `rustup`,
//! each named in one line. Where that is not possible, the error holds the command to type.

mod program;
mod tools;

pub use program::{capture, capture_bytes, run};
pub use tools::{API_READER, NIGHTLY, Tool, ensure, llvm_tools};

/// Tells the user what is being done, in one line on standard error.
pub fn say(what: impl std::fmt::Display) {
    eprintln!("   testbed {what}");
}
