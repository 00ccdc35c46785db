//! Options of an id.

use uverbs_uapi::ib_user_sa::ib_path_rec_data;
use uverbs_uapi::rdma_user_cm::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
    RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS,
    RDMA_USER_CM_CMD_SET_OPTION, rdma_ucm_set_option,
};
use zerocopy::IntoBytes;

use super::PathRecord;
use super::issue::Cm;
use crate::error::{Error, Op, Result};
use crate::file::CmFile;
use crate::types::AckTimeout;

/// `RDMA_OPTION_ID_TOS`—sets the type of service, or traffic class, of the connection's packets:
/// before [`resolve_route`](super::resolve_route).
///
/// The passive side has that of the request's path; on iWARP that of the listener. One system call.
///
/// # Errors
/// ENOENT: there is no such id.
#[doc(alias = "RDMA_OPTION_ID_TOS")]
#[doc(alias = "rdma_set_option")]
pub fn set_type_of_service(file: &CmFile, id: u32, tos: u8) -> Result<()> {
    set(file, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &[tos])
}

/// `RDMA_OPTION_ID_REUSEADDR`—lets several ids be bound to a port, of which one may listen. One
/// system call.
///
/// # Errors
/// EINVAL: the id listens, or it is to be reset and the id has an address. ENOENT: there is no such
/// id.
#[doc(alias = "RDMA_OPTION_ID_REUSEADDR")]
pub fn set_reuse_address(file: &CmFile, id: u32, reuse: bool) -> Result<()> {
    let value = i32::from(reuse).to_ne_bytes();
    set(file, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value)
}

/// `RDMA_OPTION_ID_AFONLY`—whether a listener at `[::]` takes IPv6 only. Default: the system's
/// (`net.ipv6.bindv6only`). One system call.
///
/// # Errors
/// EINVAL: the id listens, or is resolved. ENOENT: there is no such id.
#[doc(alias = "RDMA_OPTION_ID_AFONLY")]
pub fn set_address_family_only(file: &CmFile, id: u32, only: bool) -> Result<()> {
    let value = i32::from(only).to_ne_bytes();
    set(file, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value)
}

/// `RDMA_OPTION_ID_ACK_TIMEOUT`—sets how long the queue pair waits for an acknowledgement: before
/// [`connect`](super::connect) or [`accept`](super::accept). One system call.
///
/// # Errors
/// EINVAL: the id is for datagrams. ENOENT: there is no such id.
#[doc(alias = "RDMA_OPTION_ID_ACK_TIMEOUT")]
pub fn set_ack_timeout(file: &CmFile, id: u32, timeout: AckTimeout) -> Result<()> {
    let value = [timeout.raw()];
    set(file, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value)
}

/// `RDMA_OPTION_IB_PATH`—gives an id its path, instead of [`resolve_route`](super::resolve_route).
/// The event [`RouteResolved`](super::EventKind::RouteResolved) follows. InfiniBand only. One
/// system call.
///
/// # Errors
/// EINVAL: the id's address is not resolved, or no record is for messages in both directions
/// (`IB_PATH_GMP`, `IB_PATH_PRIMARY`, `IB_PATH_BIDIRECTIONAL`). ENOENT: there is no such id.
#[doc(alias = "RDMA_OPTION_IB_PATH")]
pub fn set_paths(file: &CmFile, id: u32, paths: &[PathRecord]) -> Result<()> {
    let raw: Vec<ib_path_rec_data> = paths.iter().map(|path| path.to_raw()).collect();
    set(
        file,
        id,
        RDMA_OPTION_IB,
        RDMA_OPTION_IB_PATH,
        raw.as_bytes(),
    )
}

fn set(file: &CmFile, id: u32, level: u32, optname: u32, value: &[u8]) -> Result<()> {
    let op = Op::CmSetOption;
    let optlen = u32::try_from(value.len()).map_err(|_| Error::invalid(op, "value"))?;
    let request = rdma_ucm_set_option {
        optval: 0,
        id,
        level,
        optname,
        optlen,
    };
    Cm::new(op, RDMA_USER_CM_CMD_SET_OPTION)
        .send(file, request.as_bytes(), &[], value)
        .map_err(|error| error.fact("id", id).fact("option", optname))
}
