//! `libibverbs.so.1` in Rust: the C interface of rdma-core's library on top of uverbs.
//!
//! C programs, and Rust crates that bind libibverbs, are this crate's users; it has no interface
//! for Rust. `cargo xtask compat` links it to `libibverbs.so.1`, with the versions of [`symbols`],
//! and makes a `libmlx5.so.1` alongside it. What works is listed in `docs/guide/drop-in.md`.
//!
//! Modules follow the headers: `abi` of `uverbs-compat-base` has their structs, the others their
//! functions, by object. Arguments from C are taken by the types of `pointer` there, and answers
//! given by those of `answer`, so most functions contain no unsafe code of their own; each is
//! exported, which is unsafe by itself.

mod ah;
mod allocator;
mod batch;
mod builder;

mod channel;
mod completion;
mod context;
mod cq;
mod device;
mod dv;
mod env;
mod events;
mod extended;
mod flow;
mod fork;
mod hints;
mod kern;
mod lock;
mod memory;
mod monitor;
mod pd;
mod post;
mod qp;
mod qp_ex;
mod query;
mod sends;
mod slots;
mod srq;
mod state;
mod steps;
mod strings;
mod stubs;
pub mod symbols;
mod users;
mod window;

use uverbs_compat_base::{abi, answer, errno, pointer, wait};

#[cfg(feature = "harness")]
pub use context::open_over;
pub use uverbs_compat_base::abi::Layout;

/// The layouts of all structs.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    abi::layouts().chain(dv::VENDOR)
}
