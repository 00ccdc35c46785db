//! The same work requests, posted by this library and by libmlx5, on a software ConnectX that writes down what it is given.
//!
//! A [`Table`] of requests is drawn at random with a fixed seed. `post-table` posts it with this library,
//! `oracle/post.py` with rdma-core (pyverbs); [`trace`] reads the device's trace of each and makes them comparable.
//!
//! Compared are: send requests; receive requests with all of their room; doorbells with what is written there, and the
//! doorbell records and consumer indexes that the device finds then; arms of completion queues; sizes that were granted; and what the
//! firmware is told to create and to change.
//!
//! # What is not the same, and why
//!
//! | what | libmlx5 | here |
//! |---|---|---|
//! | numbers, keys, addresses, page lists | its own | their own; replaced or left out |
//! | behind inline data that ends within a unit | what was there before | zeros; nobody reads it |
//! | the second operand of fetch-and-add | what was there before | zeros; nobody reads it |
//! | in which order places of a shared queue are used again | as they complete | lowest first. Each request names the next, which is checked |
//! | behind the end of a list in a shared queue | what was there before, in its order | the same, in another order |
//! | a piece without a length in a shared queue | a length of 0, which the device takes for 2 GiB | left out; the tables have none |
//! | places of a shared queue | more than were asked for, so that receives which found memory not there can wait and be used again | what was asked for; such a receive completes with an error |
//! | records beside a doorbell | as the device finds them, which may be later than the doorbell | the same; fewer than a third may differ, for a busy host makes the device late |
//! | user context of commands | none, unless a DEVX context was asked for | always, where the device has them |

pub mod generate;
pub mod table;
pub mod trace;

pub use table::Table;
