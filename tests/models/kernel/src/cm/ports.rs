//! Binding and listening.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use uverbs_core::error::Errno;
use uverbs_uapi::linux_socket::{AF_INET, AF_INET6};
use uverbs_uapi::rdma_user_cm::{rdma_ucm_bind, rdma_ucm_bind_ip, rdma_ucm_listen};
use zerocopy::IntoBytes;

use super::{Id, Phase};
use crate::device::GIDS;
use crate::files::FileId;
use crate::state::State;

/// `net.rdma_ucm.max_backlog`.
const MAX_BACKLOG: u32 = 1024;

/// The first port that is assigned to ids that ask for any.
const FIRST_FREE: u16 = 32768;

/// An address in the kernel's struct, and how many of its bytes count.
///
/// # Errors
/// EINVAL: another family, or not the length of its family (if one is given).
pub(super) fn parse(bytes: &[u8], len: Option<u16>) -> Result<SocketAddr, Errno> {
    let field = |from: usize, to: usize| bytes.get(from..to).ok_or(Errno::INVAL);
    let word = |from| Ok::<_, Errno>(field(from, from + 2)?.try_into().unwrap_or([0; 2]));
    let long = |from| Ok::<_, Errno>(field(from, from + 4)?.try_into().unwrap_or([0; 4]));
    let port = u16::from_be_bytes(word(2)?);
    let (address, its_len): (SocketAddr, u16) = match u16::from_ne_bytes(word(0)?) {
        AF_INET => (SocketAddrV4::new(Ipv4Addr::from(long(4)?), port).into(), 16),
        AF_INET6 => {
            let ip: [u8; 16] = field(8, 24)?.try_into().unwrap_or([0; 16]);
            let (flow, scope) = (u32::from_be_bytes(long(4)?), u32::from_ne_bytes(long(24)?));
            (SocketAddrV6::new(ip.into(), port, flow, scope).into(), 28)
        }
        _ => return Err(Errno::INVAL),
    };
    match len {
        Some(len) if len != its_len => Err(Errno::INVAL),
        _ => Ok(address),
    }
}

/// The kernel's struct of an address, padded with zeros.
pub(super) fn store(address: Option<SocketAddr>, room: &mut [u8]) -> u16 {
    let mut bytes = Vec::new();
    match address {
        Some(SocketAddr::V4(address)) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.resize(16, 0);
        }
        Some(SocketAddr::V6(address)) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.flowinfo().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
        None => {}
    }
    for (to, from) in room.iter_mut().zip(&bytes) {
        *to = *from;
    }
    u16::try_from(bytes.len()).unwrap_or(0)
}

/// Whether an address is one of the device's: those of its GIDs.
pub(super) fn is_ours(ip: IpAddr) -> bool {
    let gid = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    GIDS.contains(&gid)
}

pub(super) fn bind_ip(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_bind_ip,
) -> Result<(), Errno> {
    let address = parse(request.addr.as_bytes(), None)?;
    state.cm.id(file, request.id)?;
    bind_to(state, request.id, address)
}

pub(super) fn bind(state: &mut State, file: FileId, request: &rdma_ucm_bind) -> Result<(), Errno> {
    if request.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let address = parse(request.addr.as_bytes(), Some(request.addr_size))?;
    state.cm.id(file, request.id)?;
    bind_to(state, request.id, address)
}

/// # Errors
/// EINVAL: not idle; ENODEV: an address of no RDMA device; those of [`take_port`].
pub(super) fn bind_to(state: &mut State, id: u32, address: SocketAddr) -> Result<(), Errno> {
    let is_removed = state.removed.is_some();
    let found = state.cm.ids.get(&id).ok_or(Errno::NOENT)?;
    if found.phase != Phase::Idle {
        return Err(Errno::INVAL);
    }
    let is_specific = !address.ip().is_unspecified();
    if is_specific && (is_removed || !is_ours(address.ip())) {
        return Err(Errno::NODEV);
    }
    let address = take_port(state, id, address)?;
    let found = state.cm.ids.get_mut(&id).ok_or(Errno::NOENT)?;
    found.source = Some(address);
    found.has_device |= is_specific;
    found.phase = Phase::Bound;
    Ok(())
}

/// # Errors
/// EADDRINUSE: another id has the port at this address; EADDRNOTAVAIL: one of them has a wildcard.
fn take_port(state: &mut State, id: u32, mut address: SocketAddr) -> Result<SocketAddr, Errno> {
    let found = state.cm.ids.get(&id).ok_or(Errno::NOENT)?;
    let (space, reuse) = (found.space, found.reuse);
    let others = || {
        let others = state.cm.ids.iter().filter(move |(other, _)| **other != id);
        others.map(|(_, other)| other).filter(move |other| {
            other.space == space && other.phase != Phase::Idle && !is_passive(other)
        })
    };
    if address.port() == 0 {
        let taken = |port: u16| others().any(|other| other.source.map(|a| a.port()) == Some(port));
        let start = FIRST_FREE.max(state.cm.next_port);
        let port = (start..=u16::MAX)
            .chain(FIRST_FREE..start)
            .find(|port| !taken(*port))
            .ok_or(Errno::ADDRNOTAVAIL)?;
        address.set_port(port);
        state.cm.next_port = port.wrapping_add(1);
        return Ok(address);
    }
    for other in others() {
        let Some(its) = other.source.filter(|its| its.port() == address.port()) else {
            continue;
        };
        if reuse && other.reuse && other.phase != Phase::Listen {
            continue;
        }
        if its.ip().is_unspecified() || address.ip().is_unspecified() {
            return Err(Errno::ADDRNOTAVAIL);
        }
        if its.ip() == address.ip() {
            return Err(Errno::ADDRINUSE);
        }
    }
    Ok(address)
}

/// Whether it is a request's id, which shares the port of its listener.
fn is_passive(id: &Id) -> bool {
    id.phase == Phase::Connect && id.backlog == u32::MAX
}

/// The backlog by which [`is_passive`] knows ids of requests.
pub(super) const PASSIVE: u32 = u32::MAX;

pub(super) fn listen(
    state: &mut State,
    file: FileId,
    request: rdma_ucm_listen,
) -> Result<(), Errno> {
    if state.cm.id(file, request.id)?.phase == Phase::Idle {
        bind_to(state, request.id, (Ipv4Addr::UNSPECIFIED, 0).into())?;
    }
    let found = state.cm.id(file, request.id)?;
    if found.phase != Phase::Bound {
        return Err(Errno::INVAL);
    }
    let (space, source) = (found.space, found.source);
    let is_shared = state.cm.ids.iter().any(|(other, its)| {
        *other != request.id
            && its.space == space
            && its.phase == Phase::Listen
            && its.source == source
    });
    if is_shared {
        return Err(Errno::ADDRINUSE);
    }
    let found = state.cm.id(file, request.id)?;
    found.backlog = match request.backlog {
        backlog @ 1..=MAX_BACKLOG => backlog,
        _ => MAX_BACKLOG,
    };
    found.phase = Phase::Listen;
    Ok(())
}
