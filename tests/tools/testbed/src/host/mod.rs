//! What the testbed needs on the host, and how it is installed.
//!
//! A missing tool is installed by `apt-get` (as root, or by `sudo` if that needs no password) or
//! `rustup`; each installation is announced in one line. Where that is not possible, the error
//! contains the command to type.

mod program;
mod tools;

pub use program::{capture, capture_bytes, run};
pub use tools::{API_READER, NIGHTLY, Tool, ensure, llvm_tools};

/// Tells the user what is being done, in one line on standard error.
pub fn say(what: impl std::fmt::Display) {
    eprintln!("   testbed {what}");
}
