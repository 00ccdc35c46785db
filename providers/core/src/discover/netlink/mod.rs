//! RDMA netlink: what the kernel reports about devices, without opening any (`rdma_netlink.h`,
//! `nldev.c`).
//!
//! [`Client`] has one method per command. Underneath, a [`Request`] is a value that is encoded to
//! bytes, and everything that the kernel sends is parsed by pure functions: [`messages`] splits a
//! datagram, [`Attributes`] iterates over a message, and each answer type has a `parse`. They
//! accept any bytes.
//!
//! Framing is done by the crate `netlink-packet-core`.

mod attributes;
mod client;
mod conversation;
mod device;
mod link;
mod message;
mod request;
mod resource;
mod statistics;
mod system;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use attributes::is_file_name;
pub use attributes::{Attributes, Bytes, Malformed};
pub use client::Client;
pub(super) use client::Found;
pub use device::{Device, Port, Uverbs};
pub use message::{Message, messages};
pub use request::{Attribute, Request};
pub use resource::{Owner, Resource, ResourceKind, Summary, Usage};
pub use statistics::{Counter, parse_counters};
pub use system::{NetnsMode, System};

pub use crate::sys::netlink::{
    NETLINK_ANSWERS, NETLINK_DATAGRAM_MAX, NetlinkTransport, RdmaSocket,
};
