//! Address handles.

use uverbs_uapi::ib_user_verbs::ib_uverbs_ah_attr;

use crate::device;
use crate::files::FileId;
use crate::state::{Kind, State};
use uverbs_core::error::Errno;

/// An address handle. Its id is the number in work requests.
#[derive(Debug)]
pub(super) struct Ah {
    pub(super) pd: u32,
    pub(super) dgid: [u8; 16],
    pub(super) sgid_index: u8,
}

/// `create_ah`: handle and number.
pub(super) fn create(
    state: &mut State,
    file: FileId,
    pd: u32,
    attr: &ib_uverbs_ah_attr,
) -> Result<(u32, u32), Errno> {
    state.context_with_queues(file)?;
    let pd = state.lookup(file, Kind::Pd, pd)?;
    if attr.port_num != 1 || attr.is_global == 0 {
        return Err(Errno::INVAL);
    }
    device::gid(u32::from(attr.grh.sgid_index))?;
    let id = state.fresh_id(Kind::Ah)?;
    state.ahs.insert(
        id,
        Ah {
            pd,
            dgid: attr.grh.dgid,
            sgid_index: attr.grh.sgid_index,
        },
    );
    Ok((state.new_handle(file, Kind::Ah, id), id))
}
