//! Descriptors whose numbers come in replies of legacy commands.
//!
//! # Safety
//!
//! The kernel installs a new descriptor for `GET_CONTEXT` and `CREATE_COMP_CHANNEL` and tells its
//! number in the reply; nobody else knows it. Every [`Kernel`](super::Kernel) promises that: a
//! number in such a reply is that of a descriptor which the caller owns from then on.
#![allow(
    unsafe_code,
    reason = "takes ownership of descriptors by their numbers"
)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes over the descriptor `number` of a reply, if it is one.
pub(crate) fn adopt_fd(number: u32) -> Option<OwnedFd> {
    let raw = RawFd::try_from(number).ok()?;
    // SAFETY: the two callers pass the number that a successful command put into its reply, once each,
    // so by the rule above the descriptor is open and has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}
