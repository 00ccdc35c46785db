//! Memory windows (`drivers/infiniband/sw/rxe/rxe_mw.c`).

use crate::feature::Feature;
use crate::files::FileId;
use crate::mr::key;
use crate::state::{Kind, State};
use uverbs_core::error::Errno;

/// A memory window.
#[derive(Debug)]
pub(super) struct Mw {
    pub(super) pd: u32,
    pub(super) type_2: bool,
    pub(super) rkey: u32,
    /// The region that it is bound to; type 2 windows are also bound to a queue pair.
    pub(super) mr: Option<u32>,
    pub(super) qp: Option<u32>,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) access: u32,
}

/// `alloc_mw`: handle and rkey.
pub(super) fn alloc(
    state: &mut State,
    file: FileId,
    pd: u32,
    kind: u8,
) -> Result<(u32, u32), Errno> {
    state.context(file)?;
    if !state.profile.has(Feature::MemoryWindows) {
        return Err(Errno::OPNOTSUPP);
    }
    let pd = state.lookup(file, Kind::Pd, pd)?;
    if !matches!(kind, 1 | 2) {
        return Err(Errno::INVAL);
    }
    let id = state.fresh_id(Kind::Mw)?;
    let mw = Mw {
        pd,
        type_2: kind == 2,
        rkey: key(id),
        mr: None,
        qp: None,
        address: 0,
        length: 0,
        access: 0,
    };
    let rkey = mw.rkey;
    state.mws.insert(id, mw);
    Ok((state.new_handle(file, Kind::Mw, id), rkey))
}
