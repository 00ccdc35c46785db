//! Posting without `unsafe` at every call.
//!
//! # Safety
//!
//! What these tests post names memory of [`Registered`](crate::Registered): atomics that are never
//! freed, whatever a device does to them and whenever.
#![allow(unsafe_code, reason = "posts memory that is never freed")]

use uverbs::error::PostFailed;
use uverbs::{QueuePair, RecvBatch, RecvRequest, SendBatch, SendRequest, Sge, SharedReceiveQueue};

/// Posts send requests.
///
/// # Errors
/// As [`QueuePair::post_send`].
pub fn send(qp: &mut QueuePair, requests: &[SendRequest<'_>]) -> Result<(), PostFailed> {
    // SAFETY: see the module.
    unsafe { qp.post_send(requests) }
}

/// Puts a send request into a batch.
///
/// # Errors
/// As [`SendBatch::push`].
pub fn push(batch: &mut SendBatch<'_>, request: &SendRequest<'_>) -> Result<(), uverbs::PostError> {
    // SAFETY: see the module.
    unsafe { batch.push(request) }
}

/// Puts a receive request into a batch.
///
/// # Errors
/// As [`RecvBatch::push`].
pub fn push_recv(
    batch: &mut RecvBatch<'_>,
    request: &RecvRequest<'_>,
) -> Result<(), uverbs::PostError> {
    // SAFETY: see the module.
    unsafe { batch.push(request) }
}

/// Posts a receive request.
///
/// # Errors
/// As [`QueuePair::post_recv`].
pub fn recv(qp: &mut QueuePair, wr_id: u64, scatter: &[Sge]) -> Result<(), PostFailed> {
    // SAFETY: see the module.
    unsafe { qp.post_recv(&[RecvRequest { wr_id, scatter }]) }
}

/// Posts a receive request to a shared queue.
///
/// # Errors
/// As [`SharedReceiveQueue::post_recv`].
pub fn recv_shared(
    srq: &mut SharedReceiveQueue,
    wr_id: u64,
    scatter: &[Sge],
) -> Result<(), PostFailed> {
    // SAFETY: see the module.
    unsafe { srq.post_recv(&[RecvRequest { wr_id, scatter }]) }
}
