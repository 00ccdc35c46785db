//! Protection domains.

use crate::files::FileId;
use crate::state::{Kind, State};
use uverbs_core::error::Errno;

/// `alloc_pd`: the handle.
pub(super) fn alloc(state: &mut State, file: FileId) -> Result<u32, Errno> {
    state.context(file)?;
    let id = state.fresh_id(Kind::Pd)?;
    state.pds.insert(id);
    Ok(state.new_handle(file, Kind::Pd, id))
}
