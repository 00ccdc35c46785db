//! Keys: which memory a request may access.

use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_LOCAL_WRITE, IB_UVERBS_ACCESS_MW_BIND, IB_UVERBS_ACCESS_REMOTE_ATOMIC,
    IB_UVERBS_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_WRITE,
};
use uverbs_uapi::rdma_user_rxe::rxe_sge;

use super::memory::Range;
use crate::mr::Mr;
use crate::state::State;

/// Rights by which peers access memory, or can be granted access to it.
const PEERS: u32 = IB_UVERBS_ACCESS_REMOTE_READ
    | IB_UVERBS_ACCESS_REMOTE_WRITE
    | IB_UVERBS_ACCESS_REMOTE_ATOMIC
    | IB_UVERBS_ACCESS_MW_BIND;

fn range(mr: &Mr, address: u64, length: u64) -> Option<Range> {
    let offset = address.checked_sub(mr.iova)?;
    if offset.checked_add(length)? > mr.length {
        return None;
    }
    if mr.access & PEERS == 0 {
        return Some(Range {
            start: mr.start.checked_add(offset)?,
            whole: length,
            offset: 0,
            length,
        });
    }
    Some(Range {
        start: mr.start,
        whole: mr.length,
        offset,
        length,
    })
}

/// Local memory by its lkey, for queue pairs of `pd`.
fn local(state: &State, pd: u32, sge: &rxe_sge, write: bool) -> Option<Range> {
    let mr = state.mrs.get(&(sge.lkey >> 8))?;
    let allowed = mr.key == sge.lkey
        && mr.pd == pd
        && (!write || mr.access & IB_UVERBS_ACCESS_LOCAL_WRITE != 0);
    if !allowed {
        return None;
    }
    range(mr, sge.addr, u64::from(sge.length))
}

/// Memory that queue pair `qp` of `pd` exposes by an rkey, of a region or of a window.
pub(super) fn remote(
    state: &State,
    qp: u32,
    rkey: u32,
    address: u64,
    length: u64,
    access: u32,
) -> Option<Range> {
    let owner = state.qps.get(&qp)?;
    if owner.attr.qp_access_flags & access != access {
        return None;
    }
    let index = rkey >> 8;
    if let Some(mw) = state.mws.get(&index) {
        let mr = state.mrs.get(&mw.mr?)?;
        let mine = mw.rkey == rkey && mw.pd == owner.pd && (!mw.type_2 || mw.qp == Some(qp));
        let inside = address >= mw.address
            && address.checked_add(length)? <= mw.address.checked_add(mw.length)?;
        if !mine || !inside || mw.access & access != access {
            return None;
        }
        return range(mr, address, length);
    }
    let mr = state.mrs.get(&index)?;
    if mr.key != rkey || mr.pd != owner.pd || mr.access & access != access {
        return None;
    }
    range(mr, address, length)
}

/// The bytes that a request sends, from its scatter/gather entries. `None` if a key does not allow
/// it.
pub(super) fn gather(state: &State, pd: u32, sges: &[rxe_sge]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        bytes.extend(local(state, pd, sge, false)?.read());
    }
    Some(bytes)
}

/// Writes `bytes` to scatter/gather entries. `None` if a key does not allow it; the entries are
/// checked before anything is written. The caller has checked that they are long enough.
pub(super) fn scatter(state: &State, pd: u32, sges: &[rxe_sge], bytes: &[u8]) -> Option<()> {
    let mut ranges = Vec::new();
    let mut rest = bytes;
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at(rest.len().min(sge.length as usize));
        ranges.push((local(state, pd, sge, true)?, now));
        rest = later;
    }
    for (range, bytes) in ranges {
        range.write(bytes);
    }
    Some(())
}
