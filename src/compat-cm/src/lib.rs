//! `librdmacm.so.1` in Rust: the C interface of rdma-core's connection manager library on top of
//! the commands of `uverbs_core::cm` and the C interface of libibverbs.
//!
//! C programs are this crate's users; it has no interface for Rust. `cargo xtask compat` links it
//! to `librdmacm.so.1`, with the versions of [`symbols`]. It calls libibverbs by its public names
//! only, so it works with whichever library of that name the program has. It is a file of its own
//! because programs may have another librdmacm beside this project's libibverbs: two
//! implementations in one process must not share ids.
//!
//! Modules follow the header: `abi` has its structs, the others its functions. What works is listed
//! in `docs/guide/drop-in.md`.

mod abi;
mod addrinfo;
mod channel;
mod connect;
mod cqs;
mod device;
mod device_list;
mod endpoint;
mod event;
mod events;
mod failure;
mod id;
mod listen;
mod multicast;
mod option;
mod path;
mod peer;
mod qp;
mod qp_state;
mod query;
mod resolve;
mod rsocket;
mod srq;
pub mod symbols;
mod table;
mod verbs;
mod wait;

use uverbs_compat_base::{answer, errno, pointer};

pub use uverbs_compat_base::abi::Layout;

/// The layouts of all structs of the header.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    abi::STRUCTS.iter().chain(uverbs_compat_base::abi::PATHS)
}

/// The functions of libibverbs that this one calls.
#[cfg(any(test, feature = "with-verbs"))]
use uverbs_compat as _;
