//! Address handles (`UVERBS_OBJECT_AH`).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_AH_HANDLE, UVERBS_METHOD_AH_DESTROY, UVERBS_OBJECT_AH,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_AH, IB_USER_VERBS_CMD_DESTROY_AH, ib_uverbs_create_ah,
    ib_uverbs_create_ah_resp,
};

use super::address::ah_attr;
use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Errno, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::Uhw;
use crate::types::AddressVector;

/// `ibv_create_ah`—creates an address handle in protection domain `pd` and returns its handle.
///
/// One system call, the legacy command. On RoCE the kernel resolves the peer's Ethernet address,
/// which can take as long as ARP or neighbour discovery.
///
/// # Errors
/// Those of [`AddressVector::check`]. EINVAL: no such port or GID slot, or no global route on
/// Ethernet. ETIMEDOUT, EHOSTUNREACH, ENETUNREACH: the peer has no Ethernet address. EOPNOTSUPP:
/// the driver leaves address handles to user space. ENOMEM, EAGAIN (rdma cgroup).
#[doc(alias = "ibv_create_ah")]
pub fn create(
    file: &UverbsFile,
    pd: u32,
    av: &AddressVector,
    user_handle: u64,
    uhw: &Uhw<'_>,
) -> Result<u32> {
    let op = Op::CreateAddressHandle;
    let command = ib_uverbs_create_ah {
        user_handle,
        pd_handle: pd,
        attr: ah_attr(op, av)?,
        ..ib_uverbs_create_ah::default()
    };
    let unanswered = ib_uverbs_create_ah_resp {
        ah_handle: NO_HANDLE,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_AH)
        .call(file, &command, unanswered, uhw)
        .map_err(|error| {
            let error = explain_create(error).fact("port", av.port);
            match av.grh {
                Some(route) => unreachable_peer(error.fact("dgid", route.dgid.to_string()))
                    .fact("sgid_index", route.sgid_index),
                None => error.fact("dlid", av.dlid),
            }
        })?;
    new_handle(op, reply.ah_handle)
}

fn unreachable_peer(error: crate::Error) -> crate::Error {
    match error.errno() {
        Some(Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH) => error
            .hint("the network device of the GID has no route or neighbour for the peer's address"),
        _ => error,
    }
}

/// Address handles, which `ibv_destroy_ah` destroys.
///
/// One system call; `AH/DESTROY` since 5.0, else `DESTROY_AH`.
///
/// # Errors
/// The driver's.
#[doc(alias = "ibv_destroy_ah")]
pub static KIND: kind::Kind = kind::Kind {
    name: "AddressHandle",
    op: Op::DestroyAddressHandle,
    object: UVERBS_OBJECT_AH,
    method: UVERBS_METHOD_AH_DESTROY,
    attr: UVERBS_ATTR_DESTROY_AH_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DESTROY_AH),
};
