//! Netlink without a kernel: bytes that a kernel sent, and bytes that no kernel would send.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod conversations;
mod fields;
mod golden;
mod hostile;
mod orders;
pub(crate) mod script;
