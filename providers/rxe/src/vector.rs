//! The path of a datagram in rxe's format, for kernels that do not number address handles.

use std::net::IpAddr;

use uverbs_core::contract::Gids;
use uverbs_core::types::{AddressVector, Gid, GidEntry};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::byte_order::__be32;
use uverbs_uapi::linux_socket::{AF_INET, AF_INET6, sockaddr_in, sockaddr_in6};
use uverbs_uapi::rdma_user_rxe::{
    RXE_NETWORK_TYPE_IPV4, RXE_NETWORK_TYPE_IPV6, rxe_av, rxe_av_addr, rxe_gid, rxe_global_route,
};
use zerocopy::transmute;

const OP: Op = Op::CreateAddressHandle;

/// The path to a peer, as in work requests (`rxe_av`). One system call; before 5.10 it reads the
/// GID table from sysfs.
///
/// # Errors
/// InvalidInput: no global route, or the source GID's entry is empty. Unsupported: the destination
/// is the local interface, whose Ethernet address is unknown. Those of the command, and of sysfs.
pub(crate) fn path(gids: &Gids<'_>, vector: &AddressVector) -> Result<[u8; 88]> {
    let mut table = Vec::new();
    gids.each(|entry| table.push(entry))?;
    address_vector(&table, vector).map(|path| transmute!(path))
}

fn address_vector(table: &[GidEntry], vector: &AddressVector) -> Result<rxe_av> {
    let grh = vector.grh.ok_or_else(|| Error::invalid(OP, "grh"))?;
    let slot = |entry: &&GidEntry| {
        entry.port == u32::from(vector.port) && entry.index == u32::from(grh.sgid_index)
    };
    let source = table.iter().find(slot).ok_or_else(|| {
        Error::invalid(OP, "sgid_index").fact("sgid_index", u32::from(grh.sgid_index))
    })?;
    let network_type = match source.gid.to_ip() {
        IpAddr::V4(_) => RXE_NETWORK_TYPE_IPV4,
        IpAddr::V6(_) => RXE_NETWORK_TYPE_IPV6,
    };
    Ok(rxe_av {
        port_num: vector.port,
        network_type: u8::try_from(network_type).unwrap_or_default(),
        dmac: destination(table, source, grh.dgid)?,
        grh: rxe_global_route {
            dgid: rxe_gid::from(grh.dgid.to_bytes()),
            flow_label: grh.flow_label.raw(),
            sgid_index: grh.sgid_index,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
            ..rxe_global_route::default()
        },
        sgid_addr: socket_address(source.gid),
        dgid_addr: socket_address(grh.dgid),
    })
}

/// The destination's Ethernet address. It matters only for the local interface: rxe loops back what
/// is sent to its own address, and lets the network stack resolve all others.
fn destination(table: &[GidEntry], source: &GidEntry, dgid: Gid) -> Result<[u8; 6]> {
    let own = |entry: &&GidEntry| entry.port == source.port && entry.netdev == source.netdev;
    if !table.iter().filter(own).any(|entry| entry.gid == dgid) {
        return Ok([0; 6]);
    }
    // The kernel derives the first entry of an interface from its Ethernet address.
    let mut entries = table.iter().filter(own);
    entries
        .find_map(|entry| ethernet(entry.gid))
        .ok_or_else(|| {
            Error::new(OP, ErrorKind::Unsupported)
                .fact("dgid", dgid.to_string())
                .hint("before 5.16 rxe reaches its own interface by Ethernet address, which no link-local GID contains here")
        })
}

/// The Ethernet address in a link-local GID that was derived from one (RFC 4291, appendix A).
fn ethernet(gid: Gid) -> Option<[u8; 6]> {
    let bytes = gid.to_bytes();
    let from_ethernet =
        bytes.starts_with(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]) && bytes[11..13] == [0xff, 0xfe];
    // The second lowest bit of the first byte is inverted.
    from_ethernet.then(|| {
        [
            bytes[8] ^ 2,
            bytes[9],
            bytes[10],
            bytes[13],
            bytes[14],
            bytes[15],
        ]
    })
}

fn socket_address(gid: Gid) -> rxe_av_addr {
    match gid.to_ip() {
        IpAddr::V4(address) => rxe_av_addr::from(sockaddr_in {
            sin_family: AF_INET,
            sin_addr: __be32::new(address.to_bits()),
            ..sockaddr_in::default()
        }),
        IpAddr::V6(address) => rxe_av_addr::from(sockaddr_in6 {
            sin6_family: AF_INET6,
            sin6_addr: address.octets(),
            ..sockaddr_in6::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::net::Ipv6Addr;
    use std::num::NonZeroU32;

    use uverbs_core::ErrorKind;
    use uverbs_core::types::{AddressVector, Gid, GidEntry, GidType, GlobalRoute};

    use super::address_vector;

    fn gid(text: &str) -> Gid {
        Gid::from_bytes(text.parse::<Ipv6Addr>().unwrap().octets())
    }

    fn entry(index: u32, text: &str, netdev: u32) -> GidEntry {
        GidEntry {
            gid: gid(text),
            index,
            port: 1,
            gid_type: GidType::RoceV2,
            netdev: NonZeroU32::new(netdev),
        }
    }

    fn table() -> [GidEntry; 4] {
        [
            entry(0, "fe80::5054:ff:fe12:3456", 3),
            entry(1, "::ffff:10.1.0.1", 3),
            entry(2, "fd00:1::1", 3),
            entry(5, "::ffff:10.9.0.1", 7),
        ]
    }

    fn to(text: &str, sgid_index: u8) -> AddressVector {
        AddressVector::global(1, GlobalRoute::new(gid(text), sgid_index))
    }

    #[test]
    fn a_peer_is_found_by_the_network() {
        let path = address_vector(&table(), &to("::ffff:10.1.0.2", 1)).unwrap();
        assert_eq!(
            (path.port_num, path.network_type, path.dmac),
            (1, 1, [0; 6])
        );
        assert_eq!(path.grh.dgid.raw(), gid("::ffff:10.1.0.2").to_bytes());
        assert_eq!((path.grh.sgid_index, path.grh.hop_limit), (1, 64));
        let (from, to) = (path.sgid_addr._sockaddr_in(), path.dgid_addr._sockaddr_in());
        assert_eq!((from.sin_family, from.sin_addr.get()), (2, 0x0a01_0001));
        assert_eq!((to.sin_family, to.sin_addr.get()), (2, 0x0a01_0002));
    }

    #[test]
    fn the_own_interface_has_its_ethernet_address() {
        let path = address_vector(&table(), &to("fd00:1::1", 2)).unwrap();
        assert_eq!(path.dmac, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!(path.network_type, 2);
        let to = path.dgid_addr._sockaddr_in6();
        assert_eq!(
            (to.sin6_family, to.sin6_addr),
            (10, gid("fd00:1::1").to_bytes())
        );
    }

    #[test]
    fn what_cannot_be_said_is_an_error() {
        let kind = |vector| address_vector(&table(), &vector).unwrap_err().kind();
        assert_eq!(kind(AddressVector::local(1, 4)), ErrorKind::InvalidInput);
        assert_eq!(
            kind(to("fd00:1::1", 4)),
            ErrorKind::InvalidInput,
            "an empty slot"
        );
        assert_eq!(kind(to("::ffff:10.9.0.1", 5)), ErrorKind::Unsupported);
    }
}
