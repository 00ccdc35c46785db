//! Names and services to addresses, by the C library's `getaddrinfo`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The lists that C gets consist of memory
//! of the C library, because programs put such memory into them; each pointer in them is NULL, or
//! of that kind.
#![allow(unsafe_code, reason = "exports names; makes lists for C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use uverbs_core::cm::{CmAddress, IbAddress};
use uverbs_core::types::Gid;

use crate::abi::{port_space, qp_type, rdma_addrinfo};
use crate::answer::{Answer, minus_one, or};
use crate::errno::Code;
use crate::pointer::{Handle, In, Out, items};
use crate::{device, id};

/// `RAI_PASSIVE`, `RAI_NUMERICHOST`, `RAI_FAMILY`, `RAI_SA`.
pub(crate) const PASSIVE: c_int = 1;
const NUMERIC: c_int = 2;
const FAMILY: c_int = 8;
const SERVICE_RECORD: c_int = 0x10;

/// `AF_IB` of the kernel.
const AF_IB: c_int = 27;
/// The partition key that all ports have.
const DEFAULT_PKEY: u16 = 0xffff;
/// Bits of a service's number that are the port space, and the port.
const SPACE_BITS: u64 = 0xffff_ffff_ffff_0000;
const PORT_BITS: u64 = 0xffff;

/// Nothing wanted, or nothing found.
const NONE: rdma_addrinfo = rdma_addrinfo {
    ai_flags: 0,
    ai_family: 0,
    ai_qp_type: 0,
    ai_port_space: 0,
    ai_src_len: 0,
    ai_dst_len: 0,
    ai_src_addr: std::ptr::null_mut(),
    ai_dst_addr: std::ptr::null_mut(),
    ai_src_canonname: std::ptr::null_mut(),
    ai_dst_canonname: std::ptr::null_mut(),
    ai_route_len: 0,
    ai_route: std::ptr::null_mut(),
    ai_connect_len: 0,
    ai_connect: std::ptr::null_mut(),
    ai_next: std::ptr::null_mut(),
};

/// A copy in memory of the C library.
fn copy(bytes: &[u8]) -> Answer<*mut c_void> {
    // SAFETY: zeroed memory of this size, or NULL.
    let memory = unsafe { libc::calloc(1, bytes.len().max(1)) };
    if memory.is_null() {
        return Err(Code::NO_ROOM);
    }
    for (at, byte) in bytes.iter().enumerate() {
        Out::of(memory.cast::<u8>()).after(at).put(*byte)?;
    }
    Ok(memory)
}

/// A copy of an address that C gave, and its length.
fn copy_of(address: *const c_void, length: u32) -> Answer<(*mut c_void, u32)> {
    let length_here = usize::try_from(length).map_err(|_| Code::INVALID)?;
    Ok((copy(items(address.cast::<u8>(), length_here)?)?, length))
}

/// What `getaddrinfo` is asked for: flags, family, kind of socket, protocol.
fn wanted(hints: &rdma_addrinfo) -> [c_int; 4] {
    let flag = |bit, means| if hints.ai_flags & bit != 0 { means } else { 0 };
    let flags = flag(PASSIVE, libc::AI_PASSIVE) | flag(NUMERIC, libc::AI_NUMERICHOST);
    let family = if hints.ai_family == AF_IB {
        0
    } else {
        hints.ai_family
    };
    let kind = match u32::try_from(hints.ai_qp_type) {
        Ok(qp_type::RC | qp_type::UC | qp_type::XRC_SEND | qp_type::XRC_RECV) => libc::SOCK_STREAM,
        Ok(qp_type::UD) => libc::SOCK_DGRAM,
        _ => 0,
    };
    let protocol = match (u32::try_from(hints.ai_port_space), kind) {
        (Ok(port_space::TCP), _) | (Ok(port_space::IB), libc::SOCK_STREAM) => libc::IPPROTO_TCP,
        (Ok(port_space::UDP | port_space::IPOIB), _) | (Ok(port_space::IB), libc::SOCK_DGRAM) => {
            libc::IPPROTO_UDP
        }
        _ => 0,
    };
    [flags, family, kind, protocol]
}

/// Type of queue pairs and port space: those that are wanted, or that go with what was found.
fn kinds(hints: &rdma_addrinfo, kind: c_int, protocol: c_int) -> [c_int; 2] {
    let or = |wanted: c_int, found: u32| match wanted {
        0 => found.cast_signed(),
        wanted => wanted,
    };
    let qp = match kind {
        libc::SOCK_STREAM => qp_type::RC,
        libc::SOCK_DGRAM => qp_type::UD,
        _ => 0,
    };
    let space = match protocol {
        libc::IPPROTO_TCP => port_space::TCP,
        libc::IPPROTO_UDP => port_space::UDP,
        _ => 0,
    };
    [or(hints.ai_qp_type, qp), or(hints.ai_port_space, space)]
}

/// A GID that was written as an IPv6 address, and the service of its port.
fn as_gid(space: c_int, address: &[u8]) -> Answer<CmAddress> {
    let Some(CmAddress::Ip(std::net::SocketAddr::V6(ip))) = CmAddress::from_sockaddr(address)
    else {
        return Err(Code::INVALID);
    };
    let space = u64::try_from(space).unwrap_or(0);
    let port = u64::from(ip.port());
    let mask = |wanted, bits| if wanted { bits } else { 0 };
    Ok(CmAddress::Ib(IbAddress {
        pkey: DEFAULT_PKEY,
        flow_info: ip.flowinfo(),
        gid: Gid::from_bytes(ip.ip().octets()),
        service_id: (space << 16) + port,
        service_mask: mask(space != 0, SPACE_BITS) | mask(port != 0, PORT_BITS),
        scope_id: ip.scope_id().into(),
    }))
}

/// Asks the C library; `Err` is one of its `EAI_` numbers.
fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
    found: &mut rdma_addrinfo,
) -> Answer<c_int> {
    let mut asked: Option<libc::addrinfo> = None;
    if let Some(hints) = hints {
        let [ai_flags, ai_family, ai_socktype, ai_protocol] = wanted(hints);
        asked = Some(libc::addrinfo {
            ai_flags,
            ai_family,
            ai_socktype,
            ai_protocol,
            ai_addrlen: 0,
            ai_addr: std::ptr::null_mut(),
            ai_canonname: std::ptr::null_mut(),
            ai_next: std::ptr::null_mut(),
        });
    }
    let asked = asked.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut list: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: texts of C or NULL, hints or none, and a place for the list.
    let code = unsafe { libc::getaddrinfo(node, service, asked, &raw mut list) };
    if code != 0 {
        return Ok(code);
    }
    let done = In::of(list)
        .get()
        .and_then(|first| convert(first, hints.unwrap_or(&NONE), found));
    // SAFETY: the list that was just made, which is not used afterwards.
    unsafe { libc::freeaddrinfo(list) };
    done.map(|()| 0)
}

fn convert(from: &libc::addrinfo, hints: &rdma_addrinfo, found: &mut rdma_addrinfo) -> Answer<()> {
    [found.ai_qp_type, found.ai_port_space] = kinds(hints, from.ai_socktype, from.ai_protocol);
    let length = usize::try_from(from.ai_addrlen).map_err(|_| Code::INVALID)?;
    let bytes = items(from.ai_addr.cast::<u8>().cast_const(), length)?;
    let is_gid = hints.ai_flags & (FAMILY | NUMERIC) == FAMILY | NUMERIC;
    let (address, length) = if is_gid && hints.ai_family == AF_IB {
        found.ai_family = AF_IB;
        let (gid, length) = as_gid(found.ai_port_space, bytes)?.to_sockaddr();
        (copy(gid.get(..length).unwrap_or_default())?, length)
    } else {
        found.ai_family = from.ai_family;
        (copy(bytes)?, bytes.len())
    };
    let length = u32::try_from(length).map_err(|_| Code::INVALID)?;
    let mut name = std::ptr::null_mut();
    if !from.ai_canonname.is_null() {
        // SAFETY: a text of the C library.
        let text = unsafe { CStr::from_ptr(from.ai_canonname) };
        name = copy(text.to_bytes_with_nul())?.cast();
    }
    if hints.ai_flags & PASSIVE != 0 {
        found.ai_flags = PASSIVE;
        (found.ai_src_addr, found.ai_src_len) = (address, length);
        found.ai_src_canonname = name;
    } else {
        (found.ai_dst_addr, found.ai_dst_len) = (address, length);
        found.ai_dst_canonname = name;
    }
    Ok(())
}

/// What is known without asking anybody.
fn given(hints: &rdma_addrinfo, found: &mut rdma_addrinfo) -> Answer<()> {
    found.ai_flags = hints.ai_flags;
    found.ai_family = hints.ai_family;
    found.ai_qp_type = hints.ai_qp_type;
    found.ai_port_space = hints.ai_port_space;
    if hints.ai_dst_len > 0 {
        (found.ai_dst_addr, found.ai_dst_len) = copy_of(hints.ai_dst_addr, hints.ai_dst_len)?;
    }
    Ok(())
}

/// 0, or one of the numbers of `getaddrinfo`.
fn resolve(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
    found: &mut rdma_addrinfo,
) -> Answer<c_int> {
    if !node.is_null() || !service.is_null() {
        let code = look_up(node, service, hints, found)?;
        if code != 0 {
            return Ok(code);
        }
    } else {
        given(hints.ok_or(Code::INVALID)?, found)?;
    }
    if let Some(hints) = hints
        && found.ai_src_len == 0
        && hints.ai_src_len > 0
    {
        (found.ai_src_addr, found.ai_src_len) = copy_of(hints.ai_src_addr, hints.ai_src_len)?;
    }
    Ok(0)
}

/// 0; -1 with errno; or what `getaddrinfo` returned, a number of its own.
#[unsafe(no_mangle)]
extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: In<rdma_addrinfo>,
    into: Out<*mut rdma_addrinfo>,
) -> c_int {
    minus_one(|| {
        into.get()?;
        let hints = hints.get().ok();
        if hints.is_some_and(|hints| hints.ai_flags & SERVICE_RECORD != 0) {
            return Err(Code::UNSUPPORTED);
        }
        device::some()?;
        let mut found = NONE;
        let done = resolve(node, service, hints, &mut found);
        if done == Ok(0) {
            let place = copy(&[0; size_of::<rdma_addrinfo>()])?.cast::<rdma_addrinfo>();
            Out::of(place).put(found)?;
            into.put(place)?;
        } else {
            free_parts(&found);
        }
        done
    })
}

fn free_parts(info: &rdma_addrinfo) {
    for part in [
        info.ai_connect,
        info.ai_route,
        info.ai_src_canonname.cast(),
        info.ai_dst_canonname.cast(),
        info.ai_src_addr,
        info.ai_dst_addr,
    ] {
        // SAFETY: NULL, or memory of the C library that belongs to this entry.
        unsafe { libc::free(part) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_freeaddrinfo(list: *mut rdma_addrinfo) {
    or((), || {
        let mut at = list;
        while let Ok(info) = In::of(at.cast_const()).get() {
            let next = info.ai_next;
            free_parts(info);
            // SAFETY: an entry that was made here, and is not used afterwards.
            unsafe { libc::free(at.cast()) };
            at = next;
        }
        Ok(())
    });
}

/// Services of the subnet administrator need a kernel newer than 6.12.
#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_addrinfo(
    _id: Handle<id::Id>,
    _node: *const c_char,
    _service: *const c_char,
    _hints: In<rdma_addrinfo>,
) -> c_int {
    minus_one(|| Err(Code::UNSUPPORTED))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_query_addrinfo(_id: Handle<id::Id>, _into: Out<*mut rdma_addrinfo>) -> c_int {
    minus_one(|| Err(Code::UNSUPPORTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(flags: c_int, qp: u32, space: u32) -> rdma_addrinfo {
        rdma_addrinfo {
            ai_flags: flags,
            ai_qp_type: qp.cast_signed(),
            ai_port_space: space.cast_signed(),
            ..NONE
        }
    }

    #[test]
    fn connections_are_looked_up_as_streams_and_services_as_datagrams() {
        let stream = wanted(&hints(PASSIVE, qp_type::RC, port_space::TCP));
        let (tcp, udp) = (libc::IPPROTO_TCP, libc::IPPROTO_UDP);
        assert_eq!(stream, [libc::AI_PASSIVE, 0, libc::SOCK_STREAM, tcp]);
        let datagram = wanted(&hints(NUMERIC, qp_type::UD, port_space::IB));
        assert_eq!(datagram, [libc::AI_NUMERICHOST, 0, libc::SOCK_DGRAM, udp]);
        assert_eq!(wanted(&hints(0, 0, port_space::UDP)), [0, 0, 0, udp]);
    }

    #[test]
    fn what_was_wanted_counts_more_than_what_was_found() {
        let asked = hints(0, qp_type::UC, port_space::IB);
        let found = kinds(&asked, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        assert_eq!(
            found.map(c_int::cast_unsigned),
            [qp_type::UC, port_space::IB]
        );
        let found = kinds(&NONE, libc::SOCK_DGRAM, libc::IPPROTO_UDP);
        assert_eq!(
            found.map(c_int::cast_unsigned),
            [qp_type::UD, port_space::UDP]
        );
    }

    #[test]
    fn a_gid_is_written_as_an_address() {
        let address: std::net::SocketAddr = "[fe80::1]:7471".parse().unwrap();
        let (bytes, length) = CmAddress::from(address).to_sockaddr();
        let Ok(CmAddress::Ib(gid)) = as_gid(0x106, &bytes[..length]) else {
            panic!("refused");
        };
        assert_eq!(gid.service_id, 0x0106_1d2f);
        assert_eq!(gid.service_mask, u64::MAX);
        assert_eq!(gid.gid.to_bytes()[..2], [0xfe, 0x80]);
    }

    #[test]
    fn an_address_of_this_host_is_found_and_freed() {
        let mut found = NONE;
        let asked = hints(PASSIVE | NUMERIC, qp_type::RC, port_space::TCP);
        let code = resolve(
            c"127.0.0.1".as_ptr(),
            c"7471".as_ptr(),
            Some(&asked),
            &mut found,
        );
        assert_eq!(code, Ok(0));
        assert_eq!((found.ai_flags, found.ai_src_len), (PASSIVE, 16));
        let port = items(found.ai_src_addr.cast::<u8>().cast_const(), 16).unwrap();
        assert_eq!(port[2..8], [0x1d, 0x2f, 127, 0, 0, 1]);
        free_parts(&found);
        let mut none = NONE;
        let code = resolve(
            c"nowhere".as_ptr(),
            std::ptr::null(),
            Some(&asked),
            &mut none,
        );
        assert_eq!(code, Ok(libc::EAI_NONAME));
    }
}
