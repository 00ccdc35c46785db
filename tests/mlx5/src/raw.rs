//! Posting requests that only mlx5 devices accept, without `unsafe` at every call.
//!
//! # Safety
//!
//! What these tests post names memory of [`Registered`](verbs_tests::Registered): atomics that are
//! never freed, whatever a device does to them and whenever.
#![allow(unsafe_code, reason = "posts memory that is never freed")]

use uverbs::error::PostFailed;
use uverbs::mlx5::{
    DcDestination, Frame, IndirectKey, KeyChange, MaskedAtomic, SignatureChange, Signatures, Unit,
    WorkQueue,
};
use uverbs::{
    PostError, QueuePair, QueuePairBuilder, RecvRequest, Remote, SendFlags, SendRequest, Sge,
};

/// Sends one request to a shared receive queue of an XRC domain.
///
/// # Errors
/// As [`SendBatch::push_xrc`](uverbs::SendBatch::push_xrc).
pub fn send_xrc(qp: &mut QueuePair, request: &SendRequest<'_>, srq: u32) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_xrc(request, srq) }?;
    batch.submit()
}

/// Sends one request to a DC target.
///
/// # Errors
/// As [`SendBatch::push_dc`](uverbs::SendBatch::push_dc).
pub fn send_dc(
    qp: &mut QueuePair,
    request: &SendRequest<'_>,
    to: &DcDestination<'_>,
) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_dc(request, to) }?;
    batch.submit()
}

/// Posts a masked atomic operation, signaled.
///
/// # Errors
/// As [`SendBatch::push_masked_atomic`](uverbs::SendBatch::push_masked_atomic).
pub fn masked_atomic(
    qp: &mut QueuePair,
    wr_id: u64,
    remote: Remote,
    operation: MaskedAtomic,
    sge: &Sge,
) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_masked_atomic(wr_id, SendFlags::SIGNALED, remote, operation, sge) }?;
    batch.submit()
}

/// Posts a copy of local memory by the device, which completes.
///
/// # Errors
/// Those of posting.
pub fn copy(qp: &mut QueuePair, wr_id: u64, from: &Sge, to: &Sge) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: both are memory of regions that the test keeps, and waits for the completion.
    unsafe { batch.push_copy(wr_id, SendFlags::SIGNALED, from, to) }?;
    batch.submit()
}

/// Changes an indirect key, signaled.
///
/// # Errors
/// As [`SendBatch::push_key_change`](uverbs::SendBatch::push_key_change).
pub fn change_key(qp: &mut QueuePair, wr_id: u64, change: &KeyChange<'_>) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_key_change(wr_id, SendFlags::SIGNALED, change) }?;
    batch.submit()
}

/// Changes an indirect key with its signatures, and asks for a completion.
///
/// # Errors
/// As [`SendBatch::push_signed_key_change`](uverbs::SendBatch::push_signed_key_change).
pub fn sign_key(
    qp: &mut QueuePair,
    wr_id: u64,
    key: &mut IndirectKey,
    change: &KeyChange<'_>,
    signatures: &Signatures,
) -> Result<(), PostError> {
    let set = SignatureChange::Set(signatures);
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_signed_key_change(wr_id, SendFlags::SIGNALED, key, change, set, None) }?;
    batch.submit()
}

/// Posts a request as it is.
///
/// # Errors
/// As [`SendBatch::push_raw`](uverbs::SendBatch::push_raw).
pub fn post_raw(qp: &mut QueuePair, wr_id: u64, request: &[Unit]) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_raw(wr_id, request) }?;
    batch.submit()
}

/// Sends one frame.
///
/// # Errors
/// As [`SendBatch::push_frame`](uverbs::SendBatch::push_frame).
pub fn send_frame(qp: &mut QueuePair, frame: &Frame<'_>) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module.
    unsafe { batch.push_frame(frame) }?;
    batch.submit()
}

/// Sends one frame that is completely in registered memory.
///
/// # Errors
/// As [`SendBatch::push_packet`](uverbs::SendBatch::push_packet).
pub fn send_packet(qp: &mut QueuePair, request: &SendRequest<'_>) -> Result<(), PostError> {
    let mut batch = qp.send_batch();
    // SAFETY: see the module; the atomics are where the scatter/gather entries say.
    unsafe { batch.push_packet(request) }?;
    batch.submit()
}

/// Requests that small messages are written into completions.
pub fn scatter_to_completions(builder: QueuePairBuilder<'_>) -> QueuePairBuilder<'_> {
    // SAFETY: see the module. Addresses in requests are those of atomics, although the region may
    // have others; nothing else accesses them at the same time. The same holds for what owned queue
    // pairs post.
    unsafe { builder.scatter_to_completions() }
}

/// Posts a receive request to a work queue.
///
/// # Errors
/// As [`WorkQueue::post_recv`].
pub fn recv_work(queue: &mut WorkQueue, wr_id: u64, scatter: &[Sge]) -> Result<(), PostFailed> {
    // SAFETY: see the module.
    unsafe { queue.post_recv(&[RecvRequest { wr_id, scatter }]) }
}
