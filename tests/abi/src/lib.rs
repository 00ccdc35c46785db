//! Compares `uverbs-uapi` with kernel headers.
//!
//! The system's C compiler is the oracle: it determines what the headers define, by the debug
//! information of a file that includes them; nothing of it becomes part of the product.
//!
//! * [`headers`] finds the headers: this machine's, and the newest that Debian has.
//! * [`compile`] runs the compiler; [`macros`] and [`dwarf`] read its output.
//! * [`model`] is an ABI as a value, from headers, from Rust or from a [`table`].
//! * [`compare`] finds the differences; [`exceptions`] lists those that were reviewed.

pub mod compare;
pub mod compile;
pub mod dwarf;
pub mod exceptions;
pub mod headers;
pub mod macros;
pub mod model;
pub mod oracle;
pub mod table;
