//! The same work requests, posted by this library and by libmlx5, on a software ConnectX that writes down what it is given.
//!
//! A [`Table`] of requests is drawn at random with a fixed seed. `post-table` posts it with this library,
//! `oracle/post.py` with rdma-core (pyverbs); [`trace`] reads the device's trace of each and makes them comparable.

pub mod generate;
pub mod table;
pub mod trace;

pub use table::Table;
