//! Requests that say where they go: to a shared receive queue of the peer's XRC domain, to a target
//! of dynamic connections, or as a frame on the wire.
//!
//! # Safety
//!
//! As for any request (`sends`).
#![allow(unsafe_code, reason = "posts requests that name memory")]

use uverbs_any::{AnyQp, Of};
use uverbs_core::PostError;
use uverbs_core::contract::{Qp as _, UsualSend as _};
use uverbs_core::types::{Payload, SendRequest};
use uverbs_mlx5::{DcDestination, Frame, QpExtra, QueuePair};

use super::own;

use crate::ah::Ah;
use crate::answer::Answer;
use crate::context::Context;
use crate::pointer::Handle;

/// Where a request goes.
#[derive(Clone, Copy)]
pub(crate) enum To<'a> {
    /// To the peer of the connection, or to the destination in the request.
    Usual,
    /// A frame: the device may need its first bytes, which are read where the entries say.
    Frame,
    /// A frame whose header is here. The device cuts what follows it into payloads of this size.
    Segments(&'a [u8], u16),
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

/// Puts a request into the ring whose operation the calling code names, so that the compiler knows
/// it: no part of the request is examined twice.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn put_known(queue: &mut AnyQp, request: &SendRequest<'_>) -> Result<(), PostError> {
    // SAFETY: as in `put`.
    unsafe { queue.put_send(request) }
}

/// Posts such a request by itself if that is little work. Whether it was posted.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn post_usual(queue: &mut AnyQp, request: SendRequest<'_>) -> bool {
    let Some(place) = queue.usual_send() else {
        return false;
    };
    // SAFETY: as in `put`.
    unsafe { place.post(request) }
}

/// Puts such a request into the ring if that is little work. Whether it was put.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn put_composed<'r>(queue: &mut AnyQp, request: impl Fn() -> SendRequest<'r>) -> bool {
    // SAFETY: as in `put`.
    unsafe { queue.put_composed(request) }
}

/// Puts a request into the ring.
#[inline(never)]
pub(crate) fn put(queue: &mut AnyQp, request: &SendRequest<'_>, to: To<'_>) -> Answer<()> {
    let To::Usual = to else {
        return put_to(queue, request, to);
    };
    // SAFETY: as `ibv_post_send` asks, the program keeps what the request names, registered and
    // unchanged, until the request has completed.
    Ok(unsafe { queue.put_send(request) }?)
}

fn put_to(queue: &mut AnyQp, request: &SendRequest<'_>, to: To<'_>) -> Answer<()> {
    let own: Option<&mut QueuePair> = queue.of_mut();
    let own = own.ok_or(PostError::UnsupportedOperation)?;
    let gathers = matches!(request.payload, Payload::Gather(_));
    match to {
        // SAFETY: as in `put`; a program sends frames from memory at the addresses in its entries.
        To::Frame if gathers => unsafe { own.put_packet(request) }?,
        To::Segments(header, size) => {
            let Payload::Gather(rest) = request.payload else {
                return Err(PostError::InvalidRequest.into());
            };
            let frame = Frame {
                wr_id: request.wr_id,
                flags: request.flags,
                header,
                rest,
                segment: Some(size),
            };
            // SAFETY: as in `put`.
            unsafe { own.put_frame(&frame) }?;
        }
        // SAFETY: as in `put`.
        To::Frame | To::Usual => unsafe { own.put_send(request) }?,
        // SAFETY: as in `put`.
        To::Shared(number) => unsafe { own.put_xrc(request, number) }?,
        To::Target(target) => {
            let to = DcDestination {
                address: &target.path.get()?.address,
                number: target.number,
                access_key: target.access_key,
                stream: wrapped(target.stream, own.streams()),
            };
            // SAFETY: as in `put`.
            unsafe { own.put_dc(request, &to) }?;
        }
    }
    Ok(())
}

/// Streams are counted around, as devices do: rdma-core's suite names more than there are.
pub(super) fn wrapped(stream: u16, streams: u32) -> u16 {
    u16::try_from(u32::from(stream) % streams.max(1)).unwrap_or(stream)
}

/// What a raw packet queue pair with room for headers of this many bytes is created with.
pub(crate) fn with_headers(context: Handle<Context>, bytes: u16) -> Answer<QpExtra> {
    own(context.get()?)?;
    Ok(QpExtra::default().with_headers(bytes))
}
