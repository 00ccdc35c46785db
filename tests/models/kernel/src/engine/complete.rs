//! Completions of requests.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_rxe::{rxe_recv_wqe, rxe_send_wqe};
use zerocopy::FromBytes;

use crate::cq;
use crate::state::State;

/// `IB_WC_*`, as far as rxe reports them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum Status {
    Success = 0,
    LocalLength = 1,
    LocalOperation = 2,
    LocalProtection = 4,
    Flushed = 5,
    Bind = 6,
    RemoteInvalid = 9,
    RemoteAccess = 10,
    RemoteOperation = 11,
    RetryExceeded = 12,
    RnrRetryExceeded = 13,
}

/// Send flags (`IB_SEND_*`).
pub(super) const SIGNALED: u32 = 2;
pub(super) const SOLICITED: u32 = 4;
pub(super) const INLINE: u32 = 8;

/// Completion flags (`IB_WC_*`).
pub(super) const WC_GRH: u32 = 1;
pub(super) const WC_WITH_IMM: u32 = 2;
pub(super) const WC_WITH_INVALIDATE: u32 = 8;

fn opcode(work: u32) -> u32 {
    match work {
        IB_UVERBS_WR_RDMA_WRITE | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM => IB_UVERBS_WC_RDMA_WRITE,
        IB_UVERBS_WR_RDMA_READ | IB_UVERBS_WR_RDMA_READ_WITH_INV => IB_UVERBS_WC_RDMA_READ,
        IB_UVERBS_WR_ATOMIC_CMP_AND_SWP => IB_UVERBS_WC_COMP_SWAP,
        IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD => IB_UVERBS_WC_FETCH_ADD,
        IB_UVERBS_WR_LOCAL_INV => IB_UVERBS_WC_LOCAL_INV,
        IB_UVERBS_WR_BIND_MW => IB_UVERBS_WC_BIND_MW,
        IB_UVERBS_WR_FLUSH => IB_UVERBS_WC_FLUSH,
        IB_UVERBS_WR_ATOMIC_WRITE => IB_UVERBS_WC_ATOMIC_WRITE,
        _ => IB_UVERBS_WC_SEND,
    }
}

/// Removes the request at the head of the send queue and completes it: always if it failed,
/// otherwise if it is signaled.
pub(super) fn send(state: &mut State, id: u32, wqe: &rxe_send_wqe, status: Status) {
    let Some(qp) = state.qps.get_mut(&id) else {
        return;
    };
    qp.sq.pop();
    qp.rnr_left = None;
    let wanted = qp.sig_all || wqe.wr.send_flags & SIGNALED != 0 || status != Status::Success;
    if !wanted {
        return;
    }
    let mut wc = ib_uverbs_wc {
        wr_id: wqe.wr.wr_id,
        status: status as u32,
        qp_num: id,
        ..Default::default()
    };
    if status == Status::Success {
        wc.opcode = opcode(wqe.wr.opcode);
        wc.byte_len = wqe.dma.length;
        if matches!(
            wqe.wr.opcode,
            IB_UVERBS_WR_SEND_WITH_IMM | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
        ) {
            wc.wc_flags = WC_WITH_IMM;
        }
    }
    let cq = qp.send_cq;
    cq::complete(state, cq, &wc, false);
}

/// Completes a receive request that was taken from its queue.
pub(super) fn receive(state: &mut State, id: u32, wc: &ib_uverbs_wc, solicited: bool) {
    if let Some(cq) = state.qps.get(&id).map(|qp| qp.recv_cq) {
        cq::complete(state, cq, wc, solicited);
    }
}

pub(super) fn flush_send(state: &mut State, id: u32) {
    while let Some((_, bytes)) = state.qps.get(&id).and_then(|qp| qp.sq.head()) {
        match rxe_send_wqe::read_from_prefix(&bytes) {
            Ok((wqe, _)) => send(state, id, &wqe, Status::Flushed),
            Err(_) => return,
        }
    }
}

pub(super) fn flush_receive(state: &mut State, id: u32) {
    loop {
        let Some(rq) = state.qps.get_mut(&id).and_then(|qp| qp.rq.as_mut()) else {
            return;
        };
        let Some((_, bytes)) = rq.head() else { return };
        rq.pop();
        let Ok((wqe, _)) = rxe_recv_wqe::read_from_prefix(&bytes) else {
            return;
        };
        let wc = ib_uverbs_wc {
            wr_id: wqe.wr_id,
            status: Status::Flushed as u32,
            qp_num: id,
            ..Default::default()
        };
        receive(state, id, &wc, false);
    }
}
