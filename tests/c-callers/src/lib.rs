//! The library for C programs, called as these call it: by the names of `libibverbs.so.1`, and by
//! the pointers in its structs. It runs on the fake kernel's rxe, or on a ConnectX in the process.

mod bench;
pub mod calls;
mod pair;

pub use bench::{Bench, Kind};
pub use calls::At;
pub use pair::{Pair, Shape};
