//! Protection domains (`UVERBS_OBJECT_PD`).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_PD_HANDLE, UVERBS_METHOD_PD_DESTROY, UVERBS_OBJECT_PD,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_alloc_pd,
    ib_uverbs_alloc_pd_resp,
};

use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::Uhw;

/// `ibv_alloc_pd`—allocates a protection domain and returns its handle.
///
/// One system call. The kernel has only the legacy command.
///
/// # Errors
/// ENOMEM, EAGAIN (rdma cgroup), and the driver's own.
#[doc(alias = "ibv_alloc_pd")]
pub fn alloc(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::AllocProtectionDomain;
    let unanswered = ib_uverbs_alloc_pd_resp {
        pd_handle: NO_HANDLE,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_ALLOC_PD)
        .call(file, &ib_uverbs_alloc_pd::default(), unanswered, uhw)
        .map_err(explain_create)?;
    new_handle(op, reply.pd_handle)
}

/// Protection domains, which `ibv_dealloc_pd` frees.
///
/// One system call; `PD/DESTROY` since 5.0, else `DEALLOC_PD`.
///
/// # Errors
/// EBUSY while objects of the domain exist.
#[doc(alias = "ibv_dealloc_pd")]
pub static KIND: kind::Kind = kind::Kind {
    name: "ProtectionDomain",
    op: Op::DeallocProtectionDomain,
    object: UVERBS_OBJECT_PD,
    method: UVERBS_METHOD_PD_DESTROY,
    attr: UVERBS_ATTR_DESTROY_PD_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DEALLOC_PD),
};
