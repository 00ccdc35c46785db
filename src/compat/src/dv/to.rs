//! Requests that say where they go: to a shared receive queue of the peer's XRC domain.
//!
//! # Safety
//!
//! As for any request (`sends`).
#![allow(unsafe_code, reason = "posts requests that name memory")]

use uverbs_any::{AnyQp, Of};
use uverbs_core::PostError;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::SendRequest;
use uverbs_mlx5::QueuePair;

/// Where a request goes.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// To the peer of the connection, or to the destination in the request.
    Usual,
    /// To the shared receive queue with this number.
    Shared(u32),
}

/// Puts a request into the ring.
#[inline]
pub(crate) fn put(queue: &mut AnyQp, request: &SendRequest<'_>, to: To) -> Result<(), PostError> {
    match to {
        // SAFETY: the program's promise.
        To::Usual => unsafe { queue.put_send(request) },
        To::Shared(number) => {
            let queue: Option<&mut QueuePair> = queue.of_mut();
            let queue = queue.ok_or(PostError::UnsupportedOperation)?;
            // SAFETY: the program's promise.
            unsafe { queue.put_xrc(request, number) }
        }
    }
}
