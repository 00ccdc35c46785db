//! The receiving side: takes a receive request, fills its buffer, completes it.

use uverbs_uapi::ib_user_verbs::ib_uverbs_wc;
use uverbs_uapi::rdma_user_rxe::{rxe_recv_wqe, rxe_sge};
use zerocopy::FromBytes;

use super::complete::{self, Status, WC_GRH};
use super::rights;
use crate::event;
use crate::state::{Kind, State};

/// `IB_WC_RECV`.
pub(super) const RECV: u32 = 1 << 7;
/// `IB_WC_RECV_RDMA_WITH_IMM`.
pub(super) const RECV_RDMA_WITH_IMM: u32 = RECV + 1;

/// A receive request that was taken from its queue.
#[derive(Debug)]
pub(super) struct Buffer {
    wr_id: u64,
    sges: Vec<rxe_sge>,
}

/// Why there is no receive request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    NotReady,
    Malformed,
}

/// What arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// The bytes for the buffer; `None` if they were written elsewhere.
    pub(super) payload: Option<&'a [u8]>,
    pub(super) byte_len: u32,
    pub(super) opcode: u32,
    pub(super) flags: u32,
    pub(super) ex: u32,
    pub(super) src_qp: u32,
    pub(super) solicited: bool,
}

/// Takes the next receive request of queue pair `id`, its own or the shared queue's.
pub(super) fn take(state: &mut State, id: u32) -> Result<Buffer, Refusal> {
    let srq = state.qps.get(&id).ok_or(Refusal::NotReady)?.srq;
    let Some(srq_id) = srq else {
        let qp = state.qps.get_mut(&id).ok_or(Refusal::NotReady)?;
        let max = qp.cap.max_recv_sge;
        let rq = qp.rq.as_mut().ok_or(Refusal::NotReady)?;
        let (_, bytes) = rq.head().ok_or(Refusal::NotReady)?;
        rq.pop();
        return parse(&bytes, max);
    };
    let srq = state.srqs.get_mut(&srq_id).ok_or(Refusal::NotReady)?;
    let (_, bytes) = srq.ring.head().ok_or(Refusal::NotReady)?;
    srq.ring.pop();
    let max = srq.max_sge;
    if srq.limit != 0 && srq.ring.count() < srq.limit {
        srq.limit = 0;
        event::raise(state, Kind::Srq, srq_id, event::SRQ_LIMIT_REACHED);
    }
    parse(&bytes, max)
}

fn parse(bytes: &[u8], max_sge: u32) -> Result<Buffer, Refusal> {
    let (wqe, rest) = rxe_recv_wqe::read_from_prefix(bytes).map_err(|_| Refusal::Malformed)?;
    if wqe.dma.num_sge > max_sge {
        return Err(Refusal::Malformed);
    }
    Ok(Buffer {
        wr_id: wqe.wr_id,
        sges: entries(rest, wqe.dma.num_sge).ok_or(Refusal::Malformed)?,
    })
}

/// The scatter/gather entries that follow a work queue entry.
pub(super) fn entries(bytes: &[u8], count: u32) -> Option<Vec<rxe_sge>> {
    let mut rest = bytes;
    let mut sges = Vec::new();
    for _ in 0..count {
        let (sge, later) = rxe_sge::read_from_prefix(rest).ok()?;
        sges.push(sge);
        rest = later;
    }
    Some(sges)
}

/// Completes `buffer` with an error that it did not cause.
pub(super) fn fail(state: &mut State, id: u32, buffer: &Buffer, status: Status) {
    let wc = ib_uverbs_wc {
        wr_id: buffer.wr_id,
        status: status as u32,
        qp_num: id,
        ..Default::default()
    };
    complete::receive(state, id, &wc, false);
}

/// Fills `buffer` and completes it. The returned status is for the sender.
pub(super) fn deliver(
    state: &mut State,
    id: u32,
    buffer: &Buffer,
    arrival: &Arrival<'_>,
) -> Status {
    let pd = state.qps.get(&id).map_or(0, |qp| qp.pd);
    let room: u64 = buffer.sges.iter().map(|sge| u64::from(sge.length)).sum();
    let status = match arrival.payload {
        Some(bytes) if bytes.len() as u64 > room => Status::LocalLength,
        Some(bytes) if rights::scatter(state, pd, &buffer.sges, bytes).is_none() => {
            Status::LocalProtection
        }
        _ => Status::Success,
    };
    let mut wc = ib_uverbs_wc {
        wr_id: buffer.wr_id,
        status: status as u32,
        qp_num: id,
        ..Default::default()
    };
    if status == Status::Success {
        wc.opcode = arrival.opcode;
        wc.byte_len = arrival.byte_len;
        wc.wc_flags = WC_GRH | arrival.flags;
        wc.ex = arrival.ex.into();
        wc.src_qp = arrival.src_qp;
        wc.port_num = 1;
    }
    complete::receive(state, id, &wc, arrival.solicited);
    status
}
