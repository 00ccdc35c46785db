//! Shared receive queues (`drivers/infiniband/sw/rxe/rxe_srq.c`).

use uverbs_uapi::ib_user_verbs::ib_uverbs_modify_srq;
use uverbs_uapi::rdma_user_rxe::{
    mminfo, rxe_create_srq_resp, rxe_modify_srq_cmd, rxe_recv_wqe, rxe_sge,
};

use crate::device::{MAX_SRQ_SGE, max_wr};
use crate::files::FileId;
use crate::ring::{Ring, Side};
use crate::state::{Counts, Kind, State};
use uverbs_core::error::Errno;

/// `IB_SRQ_MAX_WR`.
const MAX_WR_BIT: u32 = 1;
/// `IB_SRQ_LIMIT`.
const LIMIT_BIT: u32 = 2;

/// A shared receive queue. Its id is its number.
#[derive(Debug)]
pub(super) struct Srq {
    pub(super) pd: u32,
    pub(super) ring: Ring,
    pub(super) max_sge: u32,
    pub(super) limit: u32,
    pub(super) user_handle: u64,
    pub(super) events: Option<FileId>,
    pub(super) counts: Counts,
}

/// The parameters of a new shared receive queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Create {
    pub(super) pd: u32,
    pub(super) user_handle: u64,
    pub(super) max_wr: u32,
    pub(super) max_sge: u32,
    pub(super) limit: u32,
    pub(super) events: Option<FileId>,
    /// Size of the buffer for the driver's reply.
    pub(super) room: usize,
}

/// The result of a creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Created {
    pub(super) handle: u32,
    pub(super) max_wr: u32,
    pub(super) max_sge: u32,
    pub(super) driver: rxe_create_srq_resp,
}

fn ring(max_wr: u32, max_sge: u32) -> Result<Ring, Errno> {
    let size = size_of::<rxe_recv_wqe>() + max_sge as usize * size_of::<rxe_sge>();
    Ring::new(max_wr, size, Side::Consumer)
}

/// `create_srq`.
pub(super) fn create(state: &mut State, file: FileId, create: &Create) -> Result<Created, Errno> {
    let default = state.context_with_queues(file)?.events;
    let pd = state.lookup(file, Kind::Pd, create.pd)?;
    if create.room < size_of::<rxe_create_srq_resp>()
        || create.max_wr == 0
        || create.max_wr > max_wr(state.profile)
        || create.max_sge > MAX_SRQ_SGE
    {
        return Err(Errno::INVAL);
    }
    let max_sge = create.max_sge.max(1);
    let ring = ring(create.max_wr, max_sge)?;
    let max_wr = ring.capacity();
    let mi = state.announce(file, &ring.memory);
    let id = state.fresh_id(Kind::Srq)?;
    state.srqs.insert(
        id,
        Srq {
            pd,
            ring,
            max_sge,
            limit: create.limit,
            user_handle: create.user_handle,
            events: create.events.or(default),
            counts: Counts::default(),
        },
    );
    Ok(Created {
        handle: state.new_handle(file, Kind::Srq, id),
        max_wr,
        max_sge,
        driver: rxe_create_srq_resp {
            mi,
            srq_num: id,
            reserved: 0,
        },
    })
}

/// `modify_srq`: returns the new queue's location if it was resized. Applies everything or nothing.
pub(super) fn modify(
    state: &mut State,
    file: FileId,
    request: &ib_uverbs_modify_srq,
    driver_len: usize,
) -> Result<Option<mminfo>, Errno> {
    let id = state.lookup(file, Kind::Srq, request.srq_handle)?;
    let max_wr = max_wr(state.profile);
    let srq = state.srqs.get_mut(&id).ok_or(Errno::NOENT)?;
    if driver_len < size_of::<rxe_modify_srq_cmd>() {
        return Err(Errno::INVAL);
    }
    let resize = request.attr_mask & MAX_WR_BIT != 0;
    let arm = request.attr_mask & LIMIT_BIT != 0;
    if resize
        && (request.max_wr == 0
            || request.max_wr > max_wr
            || (srq.limit != 0 && request.max_wr < srq.limit))
    {
        return Err(Errno::INVAL);
    }
    if arm && (request.srq_limit > max_wr || request.srq_limit > srq.ring.capacity()) {
        return Err(Errno::INVAL);
    }
    if resize {
        srq.ring.replace(ring(request.max_wr, srq.max_sge)?)?;
    }
    if arm {
        srq.limit = request.srq_limit;
    }
    let memory = srq.ring.memory.clone();
    Ok(resize.then(|| state.announce(file, &memory)))
}

/// `query_srq`: returns work requests, scatter/gather entries per request, and limit.
pub(super) fn query(state: &State, file: FileId, handle: u32) -> Result<(u32, u32, u32), Errno> {
    let id = state.lookup(file, Kind::Srq, handle)?;
    let srq = state.srqs.get(&id).ok_or(Errno::NOENT)?;
    Ok((srq.ring.capacity(), srq.max_sge, srq.limit))
}
