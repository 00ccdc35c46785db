//! What the device may still write: everything posted that it has not completed.

use uverbs_uapi::ib_user_verbs::{
    IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, IB_UVERBS_WR_RDMA_READ,
};
use uverbs_uapi::rdma_user_rxe::{rxe_recv_wqe, rxe_send_wqe, rxe_sge};
use zerocopy::FromBytes;

use super::receive::entries;
use super::rights;
use crate::qp::Qp;
use crate::ring::Ring;
use crate::state::State;

/// Fills the memory that the requests in all queues let the device write to with `byte`. Returns
/// the number of bytes.
///
/// A removed device does not write any more: the owners of the memory have it back, or have freed
/// it, although the objects may still be known here.
pub(crate) fn scribble(state: &State, byte: u8) -> u64 {
    if state.removed.is_some() {
        return 0;
    }
    let mut written = 0;
    let mut fill = |pd: u32, sges: Vec<rxe_sge>| {
        for sge in sges {
            let pattern = vec![byte; sge.length as usize];
            if rights::scatter(state, pd, &[sge], &pattern).is_some() {
                written += u64::from(sge.length);
            }
        }
    };
    for qp in state.qps.values() {
        reads(qp).for_each(|sges| fill(qp.pd, sges));
        let own = qp.rq.iter();
        own.flat_map(|ring| receives(ring, qp.cap.max_recv_sge))
            .for_each(|sges| fill(qp.pd, sges));
    }
    for srq in state.srqs.values() {
        receives(&srq.ring, srq.max_sge).for_each(|sges| fill(srq.pd, sges));
    }
    written
}

/// The scatter/gather entries of the reads and atomics in a send queue.
fn reads(qp: &Qp) -> impl Iterator<Item = Vec<rxe_sge>> {
    qp.sq.waiting().filter_map(|bytes| {
        let (wqe, rest) = rxe_send_wqe::read_from_prefix(&bytes).ok()?;
        let writes = matches!(
            wqe.wr.opcode,
            IB_UVERBS_WR_RDMA_READ
                | IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
                | IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
        );
        let count = wqe.dma.num_sge.min(qp.cap.max_send_sge);
        writes.then(|| entries(rest, count))?
    })
}

/// The scatter/gather entries of the requests in a receive queue.
fn receives(ring: &Ring, max_sge: u32) -> impl Iterator<Item = Vec<rxe_sge>> {
    ring.waiting().filter_map(move |bytes| {
        let (wqe, rest) = rxe_recv_wqe::read_from_prefix(&bytes).ok()?;
        entries(rest, wqe.dma.num_sge.min(max_sge))
    })
}
