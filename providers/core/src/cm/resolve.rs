//! From a peer's address to a device and a path.

use std::time::Duration;

use uverbs_uapi::linux_socket::{__kernel_sockaddr_storage, sockaddr_in6};
use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_RESOLVE_ADDR, RDMA_USER_CM_CMD_RESOLVE_IP, RDMA_USER_CM_CMD_RESOLVE_ROUTE,
    rdma_ucm_resolve_addr, rdma_ucm_resolve_ip, rdma_ucm_resolve_route,
};

use super::CmAddress;
use super::issue::{Cm, milliseconds};
use crate::error::{Errno, Error, Op, Result};
use crate::file::CmFile;

/// `rdma_resolve_addr`—finds the device, and the peer's link address; the event
/// [`AddressResolved`](super::EventKind::AddressResolved) or
/// [`AddressError`](super::EventKind::AddressError) says how it ended.
///
/// An id without an address is bound to `source`, or to the address that routes to `destination`.
/// After an `AddressError` it may be repeated. One system call, which does not wait; `timeout`
/// (rounded up to milliseconds) is until the event.
///
/// # Errors
/// ENETUNREACH, EHOSTUNREACH: no route. EINVAL: the id's state, or families that do not match.
/// ENODEV: `source` belongs to no RDMA device. ENOENT: no such id.
#[doc(alias = "rdma_resolve_addr")]
pub fn resolve_address(
    file: &CmFile,
    id: u32,
    source: Option<CmAddress>,
    destination: CmAddress,
    timeout: Duration,
) -> Result<()> {
    let (dst_addr, dst_size) = destination.to_storage();
    let (src_addr, src_size) = source.map_or_else(
        || (__kernel_sockaddr_storage::default(), 0),
        CmAddress::to_storage,
    );
    let request = rdma_ucm_resolve_addr {
        id,
        timeout_ms: milliseconds(timeout),
        src_size,
        dst_size,
        reserved: 0,
        src_addr,
        dst_addr,
    };
    Cm::new(Op::CmResolveAddress, RDMA_USER_CM_CMD_RESOLVE_ADDR)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, destination))
}

/// [`resolve_address`] by the older command, which takes IP addresses only. Kernels have both.
///
/// # Errors
/// As [`resolve_address`]; [`Unsupported`](crate::ErrorKind::Unsupported) for another family,
/// before the system call.
pub fn resolve_ip(
    file: &CmFile,
    id: u32,
    source: Option<CmAddress>,
    destination: CmAddress,
    timeout: Duration,
) -> Result<()> {
    let op = Op::CmResolveAddress;
    let request = rdma_ucm_resolve_ip {
        src_addr: source.map_or_else(|| Ok(sockaddr_in6::default()), |source| source.to_in6(op))?,
        dst_addr: destination.to_in6(op)?,
        id,
        timeout_ms: milliseconds(timeout),
    };
    Cm::new(op, RDMA_USER_CM_CMD_RESOLVE_IP)
        .call_without_reply(file, &request)
        .map_err(|error| explain(error, id, destination))
}

/// `rdma_resolve_route`—finds the path; the event
/// [`RouteResolved`](super::EventKind::RouteResolved) or
/// [`RouteError`](super::EventKind::RouteError) says how it ended.
///
/// One system call, which does not wait; `timeout` (rounded up to milliseconds) is until the event.
///
/// # Errors
/// EINVAL: the id's address is not resolved, or `timeout` is 0. ENODEV: its network interface is
/// gone. ENXIO ([`DeviceRemoved`](crate::ErrorKind::DeviceRemoved)). ENOENT: no such id.
#[doc(alias = "rdma_resolve_route")]
pub fn resolve_route(file: &CmFile, id: u32, timeout: Duration) -> Result<()> {
    let request = rdma_ucm_resolve_route {
        id,
        timeout_ms: milliseconds(timeout),
    };
    Cm::new(Op::CmResolveRoute, RDMA_USER_CM_CMD_RESOLVE_ROUTE)
        .call_without_reply(file, &request)
        .map_err(|error| error.fact("id", id))
}

fn explain(error: Error, id: u32, destination: CmAddress) -> Error {
    let error = error
        .fact("id", id)
        .fact("destination", destination.to_string());
    match error.errno() {
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => {
            error.hint("the network namespace of the thread that created the id has no route")
        }
        _ => error,
    }
}
