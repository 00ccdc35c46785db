//! Requests that say where they go: to a shared receive queue of the peer's XRC domain, or to a
//! target of dynamic connections.
//!
//! # Safety
//!
//! As for any request (`sends`).
#![allow(unsafe_code, reason = "posts requests that name memory")]

use uverbs_any::{AnyQp, Of};
use uverbs_core::PostError;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::SendRequest;
use uverbs_mlx5::{DcDestination, QueuePair};

use crate::ah::Ah;
use crate::answer::Answer;
use crate::pointer::Handle;

/// Where a request goes.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// To the peer of the connection, or to the destination in the request.
    Usual,
    /// To the shared receive queue with this number.
    Shared(u32),
    /// To a target of dynamic connections.
    Target(Target),
}

/// A target of dynamic connections.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(super) path: Handle<Ah>,
    pub(super) number: u32,
    pub(super) access_key: u64,
    pub(super) stream: u16,
}

/// Puts a request into the ring.
#[inline]
pub(crate) fn put(queue: &mut AnyQp, request: &SendRequest<'_>, to: To) -> Answer<()> {
    let To::Usual = to else {
        return put_to(queue, request, to);
    };
    // SAFETY: as `ibv_post_send` asks, the program keeps what the request names, registered and
    // unchanged, until the request has completed.
    Ok(unsafe { queue.put_send(request) }?)
}

fn put_to(queue: &mut AnyQp, request: &SendRequest<'_>, to: To) -> Answer<()> {
    let own: Option<&mut QueuePair> = queue.of_mut();
    let own = own.ok_or(PostError::UnsupportedOperation)?;
    match to {
        // SAFETY: as in `put`.
        To::Usual => unsafe { own.put_send(request) }?,
        // SAFETY: as in `put`.
        To::Shared(number) => unsafe { own.put_xrc(request, number) }?,
        To::Target(target) => {
            let to = DcDestination {
                address: &target.path.get()?.address,
                number: target.number,
                access_key: target.access_key,
                stream: target.stream,
            };
            // SAFETY: as in `put`.
            unsafe { own.put_dc(request, &to) }?;
        }
    }
    Ok(())
}
