//! A kernel with a software ConnectX for C programs over libibverbs and libmlx5.
//!
//! As a shared library that is preloaded into the program, it opens, finds and commands
//! `/dev/infiniband/uverbs0` in place of the kernel. The device is the one of `../downstream`, in
//! the same process; it works when it is told to. So the loops of `../oracle` are timed as those
//! over this library are.

pub mod argument;
#[cfg(not(test))]
mod names;
pub mod node;
