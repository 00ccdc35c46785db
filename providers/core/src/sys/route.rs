//! Where packets to a peer come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The address that this host's UDP packets to `port` of `peer` come from, by the kernel's routing
/// table; `None` without a route. Three system calls; nothing is sent.
pub fn source_towards(peer: IpAddr, port: u16) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((peer, port)).ok()?;
    let source = socket.local_addr().ok()?.ip();
    (!source.is_unspecified()).then_some(source)
}
