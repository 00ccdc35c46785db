//! Memory windows: binding and invalidation.

use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_LOCAL_WRITE, IB_UVERBS_ACCESS_MW_BIND, IB_UVERBS_ACCESS_REMOTE_ATOMIC,
    IB_UVERBS_ACCESS_REMOTE_WRITE,
};

use super::complete::Status;
use super::request::Request;
use crate::state::State;

/// Invalidates a type 2 window. The key of a region cannot be invalidated this way, except for
/// fast-registered ones.
pub(super) fn invalidate(state: &mut State, rkey: u32, failure: Status) -> Status {
    match state.mws.get_mut(&(rkey >> 8)) {
        Some(mw) if mw.rkey == rkey && mw.type_2 && mw.mr.is_some() => {
            (mw.mr, mw.qp, mw.address, mw.length, mw.access) = (None, None, 0, 0, 0);
            Status::Success
        }
        _ => failure,
    }
}

/// `rxe_bind_mw`.
pub(super) fn bind(state: &mut State, request: &Request) -> Option<Status> {
    let bind = request.wqe.wr.wr.mw();
    let writes = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
    let mr_id = bind.mr_lkey >> 8;
    let target = state
        .mrs
        .get(&mr_id)
        .filter(|mr| mr.key == bind.mr_lkey)
        .copied();
    let mw = state
        .mws
        .get_mut(&(bind.mw_rkey >> 8))
        .filter(|mw| mw.rkey == bind.mw_rkey)?;
    if mw.type_2 && (mw.mr.is_some() || mw.pd != request.pd || bind.length == 0) {
        return None;
    }
    if bind.length != 0 {
        let mr = target?;
        let writable = bind.access & writes == 0 || mr.access & IB_UVERBS_ACCESS_LOCAL_WRITE != 0;
        let inside = bind.addr >= mr.iova
            && bind.addr.checked_add(bind.length)? <= mr.iova.checked_add(mr.length)?;
        if mr.access & IB_UVERBS_ACCESS_MW_BIND == 0 || !writable || !inside {
            return None;
        }
    }
    mw.rkey = (mw.rkey & !0xff) | (bind.rkey & 0xff);
    (mw.address, mw.length, mw.access) = (bind.addr, bind.length, bind.access);
    mw.mr = (bind.length != 0).then_some(mr_id);
    mw.qp = mw.type_2.then_some(request.sender);
    Some(Status::Success)
}
