//! Resolving addresses, routes and services.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use uverbs_core::error::Errno;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_event_resp_param, rdma_ucm_resolve_addr, rdma_ucm_resolve_ib_service,
    rdma_ucm_resolve_ip, rdma_ucm_resolve_route,
};
use zerocopy::IntoBytes;

use super::Phase;
use super::event::{kind, raise};
use super::ports::{bind_to, is_ours, parse};
use crate::device::GIDS;
use crate::files::FileId;
use crate::state::State;

pub(super) fn resolve_ip(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_resolve_ip,
) -> Result<(), Errno> {
    let source = match request.src_addr.sin6_family {
        0 => None,
        _ => Some(parse(request.src_addr.as_bytes(), None)?),
    };
    let destination = parse(request.dst_addr.as_bytes(), None)?;
    state.cm.id(file, request.id)?;
    resolve_to(state, request.id, source, destination)
}

pub(super) fn resolve(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_resolve_addr,
) -> Result<(), Errno> {
    if request.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let source = match request.src_size {
        0 => None,
        len => Some(parse(request.src_addr.as_bytes(), Some(len))?),
    };
    let destination = parse(request.dst_addr.as_bytes(), Some(request.dst_size))?;
    state.cm.id(file, request.id)?;
    resolve_to(state, request.id, source, destination)
}

/// The device's address of a family.
fn our_address(like: IpAddr) -> IpAddr {
    let [link_local, mapped] = GIDS.map(std::net::Ipv6Addr::from);
    match like {
        IpAddr::V4(_) => mapped
            .to_ipv4_mapped()
            .unwrap_or(Ipv4Addr::LOCALHOST)
            .into(),
        IpAddr::V6(_) => link_local.into(),
    }
}

/// The other hosts of the device's IPv4 network.
fn is_neighbour(ip: IpAddr) -> bool {
    match (ip, our_address(ip)) {
        (IpAddr::V4(ip), IpAddr::V4(ours)) => ip.octets()[..3] == ours.octets()[..3],
        _ => false,
    }
}

/// # Errors
/// EINVAL: the id's state, families that do not match, a link-local address without a scope;
/// ENETUNREACH: no route; ENODEV: `source` is of no RDMA device.
fn resolve_to(
    state: &mut State,
    id: u32,
    source: Option<SocketAddr>,
    destination: SocketAddr,
) -> Result<(), Errno> {
    let found = state.cm.ids.get(&id).ok_or(Errno::NOENT)?;
    if !matches!(found.phase, Phase::Idle | Phase::Bound) {
        return Err(Errno::INVAL);
    }
    let is_scoped = match destination {
        SocketAddr::V6(address) => !address.ip().is_unicast_link_local() || address.scope_id() != 0,
        SocketAddr::V4(_) => true,
    };
    let local = found.source.or(source);
    if !is_scoped || local.is_some_and(|local| local.is_ipv4() != destination.is_ipv4()) {
        return Err(Errno::INVAL);
    }
    if found.phase == Phase::Idle {
        let any = SocketAddr::new(unspecified(destination.ip()), 0);
        bind_to(state, id, source.unwrap_or(any))?;
    }
    let ip = destination.ip();
    let is_here = ip.is_unspecified() || is_ours(ip) || ip.is_multicast();
    if !is_here && !is_neighbour(ip) {
        return Err(Errno::NETUNREACH);
    }
    let none = rdma_ucm_event_resp_param::default();
    let failure = match (state.removed, is_here) {
        (Some(_), _) => Some(Errno::NODEV),
        (None, false) => Some(Errno::TIMEDOUT),
        (None, true) => None,
    };
    if let Some(errno) = failure {
        raise(state, id, kind::ADDR_ERROR, -errno.raw_os_error(), &none);
        return Ok(());
    }
    let found = state.cm.ids.get_mut(&id).ok_or(Errno::NOENT)?;
    let port = found.source.map_or(0, |source| source.port());
    found.source = Some(SocketAddr::new(our_address(ip), port));
    found.destination = Some(if ip.is_unspecified() {
        SocketAddr::new(our_address(ip), destination.port())
    } else {
        destination
    });
    found.has_device = true;
    found.phase = Phase::AddressResolved;
    raise(state, id, kind::ADDR_RESOLVED, 0, &none);
    Ok(())
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

pub(super) fn resolve_route(
    state: &mut State,
    file: FileId,
    request: rdma_ucm_resolve_route,
) -> Result<(), Errno> {
    let found = state.cm.bound(file, request.id)?;
    if request.timeout_ms == 0 || found.phase != Phase::AddressResolved {
        return Err(Errno::INVAL);
    }
    found.phase = Phase::RouteResolved;
    let none = rdma_ucm_event_resp_param::default();
    raise(state, request.id, kind::ROUTE_RESOLVED, 0, &none);
    Ok(())
}

/// RoCE has no subnet administrator.
///
/// # Errors
/// EINVAL: the id has no device, or is resolved; EOPNOTSUPP.
pub(super) fn resolve_service(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_resolve_ib_service,
) -> Result<(), Errno> {
    match state.cm.bound(file, request.id)?.phase {
        Phase::Bound => Err(Errno::OPNOTSUPP),
        _ => Err(Errno::INVAL),
    }
}
