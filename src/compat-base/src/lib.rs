//! What the libraries for C programs have in common: the structs of `infiniband/verbs.h` (`abi`),
//! pointers that C passes (`pointer`), what functions return to it (`answer`, `errno`), and counts
//! of acknowledged events in its mutexes (`wait`).
//!
//! `uverbs-compat` is `libibverbs.so.1` on top of this, `uverbs-compat-cm` is `librdmacm.so.1`.
//! They are linked into separate files, and share no state.
#![allow(
    missing_debug_implementations,
    reason = "most are pointers of C, of which nothing can be printed"
)]

pub mod abi;
pub mod answer;
pub mod errno;
pub mod pointer;
pub mod symbols;
pub mod wait;
