//! The declarations of libibverbs that the crate `ibverbs` 0.9 is built with, under the names of
//! `ibverbs-sys` 0.3 and without C: their functions are those of `uverbs-compat`.
//!
//! ```toml
//! [patch.crates-io]
//! ibverbs-sys = { git = "https://github.com/uverbs/uverbs" }
//! ```
//!
//! `docs/guide/sys-crates.md` says what works.

mod bindings;
mod completion;
#[cfg(all(test, target_arch = "x86_64"))]
mod layouts;

// Linked for its functions; nothing in it has a Rust interface.
use uverbs_compat as _;

pub use bindings::*;
pub use completion::ibv_wc;
pub use libc::{pthread_cond_t, pthread_mutex_t};
