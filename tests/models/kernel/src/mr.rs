//! Memory regions.

use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_FLUSH_GLOBAL, IB_UVERBS_ACCESS_FLUSH_PERSISTENT, IB_UVERBS_ACCESS_HUGETLB,
    IB_UVERBS_ACCESS_LOCAL_WRITE, IB_UVERBS_ACCESS_MW_BIND, IB_UVERBS_ACCESS_ON_DEMAND,
    IB_UVERBS_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_WRITE,
    IB_UVERBS_ACCESS_ZERO_BASED,
};
use uverbs_uapi::ib_user_verbs::ib_uverbs_rereg_mr;

use crate::feature::Feature;
use crate::files::FileId;
use crate::state::{Kind, State};
use uverbs_core::error::Errno;

/// Changes of `rereg_mr` (`IB_MR_REREG_*`).
const REREG_TRANSLATION: u32 = 1;
const REREG_PD: u32 = 2;
const REREG_ACCESS: u32 = 4;

/// Access bits that a kernel may ignore.
const OPTIONAL: u32 = 0x3ff0_0000;

const PAGE: u64 = super::ring::PAGE as u64;
/// The end of user space on the modelled machine.
const USER_SPACE: u64 = 1 << 47;

/// A registered range of the process's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mr {
    pub(super) pd: u32,
    pub(super) key: u32,
    pub(super) start: u64,
    pub(super) iova: u64,
    pub(super) length: u64,
    pub(super) access: u32,
}

/// A range to register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) iova: u64,
}

/// An lkey or rkey: the index, and 8 bits that make stale keys invalid.
pub(super) const fn key(index: u32) -> u32 {
    index << 8 | (index.wrapping_mul(37) & 0xff)
}

/// `reg_mr`: handle and key.
pub(super) fn register(
    state: &mut State,
    file: FileId,
    pd: u32,
    range: Range,
    access: u32,
) -> Result<(u32, u32), Errno> {
    state.context(file)?;
    if range.start % PAGE != range.iova % PAGE {
        return Err(Errno::INVAL);
    }
    check_access(state, access)?;
    let pd = state.lookup(file, Kind::Pd, pd)?;
    check_range(range)?;
    let id = state.fresh_id(Kind::Mr)?;
    let mr = Mr {
        pd,
        key: key(id),
        start: range.start,
        iova: range.iova,
        length: range.length,
        access,
    };
    state.mrs.insert(id, mr);
    Ok((state.new_handle(file, Kind::Mr, id), mr.key))
}

fn check_access(state: &State, access: u32) -> Result<(), Errno> {
    let writes = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
    let known = writes
        | IB_UVERBS_ACCESS_LOCAL_WRITE
        | IB_UVERBS_ACCESS_REMOTE_READ
        | IB_UVERBS_ACCESS_MW_BIND
        | IB_UVERBS_ACCESS_ZERO_BASED
        | IB_UVERBS_ACCESS_ON_DEMAND
        | IB_UVERBS_ACCESS_HUGETLB;
    let flush = IB_UVERBS_ACCESS_FLUSH_GLOBAL | IB_UVERBS_ACCESS_FLUSH_PERSISTENT;
    if access & writes != 0 && access & IB_UVERBS_ACCESS_LOCAL_WRITE == 0 {
        return Err(Errno::INVAL);
    }
    let newer = [(Feature::ContextMethods, OPTIONAL), (Feature::Flush, flush)];
    let newer = newer.iter();
    let known = newer
        .filter(|(feature, _)| state.profile.has(*feature))
        .fold(known, |known, (_, bits)| known | bits);
    if access & !known != 0 {
        return Err(Errno::INVAL);
    }
    if access & (IB_UVERBS_ACCESS_ON_DEMAND | IB_UVERBS_ACCESS_HUGETLB) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

fn check_range(range: Range) -> Result<(), Errno> {
    let end = range.start.checked_add(range.length).ok_or(Errno::INVAL)?;
    if end.checked_next_multiple_of(PAGE).is_none() || range.start % PAGE + range.length == 0 {
        return Err(Errno::INVAL);
    }
    if range.start < PAGE || end > USER_SPACE {
        return Err(Errno::FAULT);
    }
    Ok(())
}

/// `rereg_mr`: returns the key, which does not change.
pub(super) fn reregister(
    state: &mut State,
    file: FileId,
    request: &ib_uverbs_rereg_mr,
) -> Result<u32, Errno> {
    state.context(file)?;
    if !state.profile.has(Feature::Reregister) {
        return Err(Errno::OPNOTSUPP);
    }
    if request.flags == 0 {
        return Err(Errno::INVAL);
    }
    // rxe supports changing the domain and the rights, not the translation.
    if request.flags & !(REREG_TRANSLATION | REREG_PD | REREG_ACCESS) != 0
        || request.flags & REREG_TRANSLATION != 0
    {
        return Err(Errno::OPNOTSUPP);
    }
    let id = state.lookup(file, Kind::Mr, request.mr_handle)?;
    if request.flags & REREG_ACCESS != 0 {
        check_access(state, request.access_flags)?;
    }
    let pd = match request.flags & REREG_PD {
        0 => None,
        _ => Some(state.lookup(file, Kind::Pd, request.pd_handle)?),
    };
    let mr = state.mrs.get_mut(&id).ok_or(Errno::NOENT)?;
    mr.pd = pd.unwrap_or(mr.pd);
    if request.flags & REREG_ACCESS != 0 {
        mr.access = request.access_flags;
    }
    Ok(mr.key)
}
