//! Services of the subnet administrator.

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, RDMA_USER_CM_IB_SERVICE_FLAG_ID,
    RDMA_USER_CM_IB_SERVICE_FLAG_NAME, RDMA_USER_CM_IB_SERVICE_NAME_SIZE, rdma_ucm_ib_service,
    rdma_ucm_resolve_ib_service,
};

use super::event::newer;
use super::issue::{Cm, UNWRITTEN};
use crate::error::{Error, Op, Result};
use crate::file::CmFile;

/// `rdma_resolve_addrinfo`—finds a service by its id, its name, or both, at the subnet
/// administrator; the event [`ServiceResolved`](super::EventKind::ServiceResolved) or
/// [`ServiceError`](super::EventKind::ServiceError) says how it ended.
///
/// The id has to be bound to an InfiniBand device. One system call, which does not wait. Newer than
/// Linux 6.12. EINVAL may mean that the kernel is older, which a second system call finds out.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported): an older kernel, or RoCE (EOPNOTSUPP).
/// [`LimitExceeded`](crate::ErrorKind::LimitExceeded): a name of more than 63 bytes.
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): neither id nor name. EINVAL: the id is not
/// bound, or is resolved already. ENOENT: there is no such id.
#[doc(alias = "rdma_resolve_addrinfo")]
pub fn resolve_service(
    file: &CmFile,
    id: u32,
    service_id: Option<u64>,
    name: Option<&str>,
) -> Result<()> {
    let op = Op::CmResolveService;
    if service_id.is_none() && name.is_none() {
        return Err(Error::invalid(op, "service"));
    }
    let name_bytes = name.unwrap_or_default().as_bytes();
    // A name ends with a zero.
    Error::at_most(
        op,
        "name",
        name_bytes.len() as u64,
        RDMA_USER_CM_IB_SERVICE_NAME_SIZE as u64 - 1,
    )?;
    let mut ibs = rdma_ucm_ib_service {
        service_id: service_id.unwrap_or(0),
        ..rdma_ucm_ib_service::default()
    };
    for (to, from) in ibs.service_name.iter_mut().zip(name_bytes) {
        *to = *from;
    }
    if service_id.is_some() {
        ibs.flags |= RDMA_USER_CM_IB_SERVICE_FLAG_ID;
    }
    if name.is_some() {
        ibs.flags |= RDMA_USER_CM_IB_SERVICE_FLAG_NAME;
    }
    let cm = Cm::new(op, RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE);
    let request = |id| rdma_ucm_resolve_ib_service {
        id,
        reserved: 0,
        ibs,
    };
    cm.call_without_reply(file, &request(id)).map_err(|error| {
        newer(error, id, || {
            cm.call_without_reply(file, &request(UNWRITTEN))
        })
    })
}
