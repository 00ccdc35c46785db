//! `libibverbs.so.1` in Rust: the C interface of rdma-core's library on top of uverbs.
//!
//! C programs, and Rust crates that bind libibverbs, are this crate's users; it has no interface
//! for Rust. `cargo xtask compat` links it to `libibverbs.so.1`, with the versions of [`symbols`],
//! and makes a `libmlx5.so.1` alongside it. What works is listed in `docs/guide/drop-in.md`.
//!
//! Modules follow the headers: `abi` has their structs, the others their functions, by object.
//! Arguments from C are taken by the types of `pointer`, and answers given by those of `answer`, so
//! most functions contain no unsafe code of their own; each is exported, which is unsafe by itself.

mod abi;
mod ah;
mod allocator;
mod answer;
mod builder;

mod channel;
mod context;
mod cq;
mod device;
mod dv;
mod env;
mod errno;
mod events;
mod extended;
mod flow;
mod fork;
mod kern;
mod lock;
mod memory;
mod monitor;
mod pd;
mod pointer;
mod post;
mod qp;
mod qp_ex;
mod query;
mod sends;
mod slots;
mod srq;
mod state;
mod strings;
mod stubs;
pub mod symbols;
mod users;
mod wait;
mod window;

pub use abi::{Layout, layouts};
