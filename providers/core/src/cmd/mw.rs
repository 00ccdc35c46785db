//! Memory windows (`UVERBS_OBJECT_MW`).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_MW_HANDLE, UVERBS_METHOD_MW_DESTROY, UVERBS_OBJECT_MW,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_ALLOC_MW, IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_alloc_mw,
    ib_uverbs_alloc_mw_resp,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::Uhw;
use crate::types::{MwType, RemoteKey};

/// A memory window that is not bound yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AllocatedMw {
    /// Its handle.
    pub handle: u32,
    /// Its first key.
    pub rkey: RemoteKey,
}

/// `ibv_alloc_mw`—allocates a memory window in protection domain `pd`.
///
/// One system call. The kernel has only the legacy command.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a type without a name.
/// EOPNOTSUPP: the driver has no windows. EINVAL: not of this type. ENOMEM, EAGAIN (rdma cgroup).
#[doc(alias = "ibv_alloc_mw")]
pub fn alloc(file: &UverbsFile, pd: u32, mw_type: MwType, uhw: &Uhw<'_>) -> Result<AllocatedMw> {
    let op = Op::AllocMemoryWindow;
    let request = ib_uverbs_alloc_mw {
        pd_handle: pd,
        mw_type: mw_type.checked(op, "mw_type")?,
        ..ib_uverbs_alloc_mw::default()
    };
    let unanswered = ib_uverbs_alloc_mw_resp {
        mw_handle: NO_HANDLE,
        ..ib_uverbs_alloc_mw_resp::default()
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_ALLOC_MW)
        .call(file, &request, unanswered, uhw)
        .map_err(|error| explain_create(error).fact("type", mw_type.to_string()))?;
    Ok(AllocatedMw {
        handle: new_handle(op, reply.mw_handle)?,
        rkey: RemoteKey::from_raw(reply.rkey),
    })
}

/// Memory windows, which `ibv_dealloc_mw` frees; this revokes the peers' access through them.
///
/// One system call; `MW/DESTROY` since 5.0, else `DEALLOC_MW`.
///
/// # Errors
/// The driver's.
#[doc(alias = "ibv_dealloc_mw")]
pub static KIND: kind::Kind = kind::Kind {
    name: "MemoryWindow",
    op: Op::DeallocMemoryWindow,
    object: UVERBS_OBJECT_MW,
    method: UVERBS_METHOD_MW_DESTROY,
    attr: UVERBS_ATTR_DESTROY_MW_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DEALLOC_MW),
};
