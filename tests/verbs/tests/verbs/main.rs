//! The verbs, topic by topic, on one host with a device that is connected to itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of tests are small"
)]

mod adversary;
mod asynchronous;
mod builder;
mod by_address;
mod cq;
mod cq_events;
mod cq_resize;
mod datagram;
mod drops;
mod events;
mod failures;
mod kinds_of_memory;
mod memory;
mod multicast;
mod newer_operations;
mod open;
mod operations;
mod owned;
mod posting;
mod qp_states;
mod query;
mod srq;
mod srq_limit;
mod unreliable;
mod window;
