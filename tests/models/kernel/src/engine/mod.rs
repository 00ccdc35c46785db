//! The device: takes requests from send queues, transfers data, completes requests.
//!
//! Nothing happens asynchronously: the engine runs when a doorbell rings, and again at every later
//! call, so that a request that found its receiver not ready is retried.

mod complete;
mod datagram;
mod memory;
mod receive;
mod request;
mod rights;
mod scribble;
mod window;

use uverbs_uapi::ib_user_verbs::ib_uverbs_post_send;

pub(super) use scribble::scribble;

use super::event;
use super::files::FileId;
use super::qp::qps;
use super::state::{Kind, State};
use uverbs_core::error::Errno;

/// `POST_SEND` with no requests in it: rxe's doorbell.
///
/// # Errors
/// EINVAL if the command carries requests, or the queue pair is not ready to send.
pub(super) fn doorbell(
    state: &mut State,
    file: FileId,
    post: &ib_uverbs_post_send,
) -> Result<(), Errno> {
    let id = state.lookup(file, Kind::Qp, post.qp_handle)?;
    if post.wqe_size < 40 || post.wr_count != 0 || post.sge_count != 0 {
        return Err(Errno::INVAL);
    }
    let qp = state.qps.get(&id).ok_or(Errno::NOENT)?;
    if qp.state() < qps::RTS {
        return Err(Errno::INVAL);
    }
    run(state, id);
    Ok(())
}

/// Retries the requests that found their receiver not ready.
pub(super) fn progress(state: &mut State) {
    let retries = |state: &State, id| state.qps.get(&id).is_some_and(|qp| qp.rnr_left.is_some());
    // Copied: of queue pairs there may be many, of these few.
    for id in state.retrying.clone() {
        if retries(state, id) {
            run(state, id);
        }
        if !retries(state, id) {
            state.retrying.remove(&id);
        }
    }
}

/// Processes the send queue of a queue pair, as far as its state allows.
pub(super) fn run(state: &mut State, id: u32) {
    if state.frozen || state.removed.is_some() {
        return;
    }
    match state.qps.get(&id).map(super::qp::Qp::state) {
        Some(qps::RTS) => while request::next(state, id) {},
        Some(qps::ERR) => flush(state, id),
        _ => {}
    }
}

/// Completes everything in a queue pair's queues with a flush error.
pub(super) fn flush(state: &mut State, id: u32) {
    if let Some(qp) = state.qps.get_mut(&id) {
        qp.attr.qp_state = qps::ERR;
        qp.rnr_left = None;
    }
    if state.frozen {
        return;
    }
    complete::flush_send(state, id);
    complete::flush_receive(state, id);
    if state.qps.get(&id).is_some_and(|qp| qp.srq.is_some()) {
        event::raise(state, Kind::Qp, id, event::QP_LAST_WQE_REACHED);
    }
}

/// Reports that the send queue is drained: requests are carried out when they are posted.
pub(super) fn drained(state: &mut State, id: u32) {
    event::raise(state, Kind::Qp, id, event::SQ_DRAINED);
}
