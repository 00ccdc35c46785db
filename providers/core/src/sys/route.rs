//! Where packets to a peer come from, and packets that make the kernel look for one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use crate::error::Errno;

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

/// The port of the service that ignores what it gets (RFC 863).
const DISCARD: u16 = 9;

/// Sends one byte from `source` to a peer on network device `netdev`: the kernel looks for the
/// Ethernet address that the packet goes to. Four system calls.
///
/// # Errors
/// EADDRNOTAVAIL: `source` is not an address of this host. ENETUNREACH, EHOSTUNREACH: no route.
/// EACCES: a broadcast address.
pub(crate) fn send_byte(source: IpAddr, peer: IpAddr, netdev: u32) -> Result<(), Errno> {
    let scoped = |address, port| match address {
        IpAddr::V4(address) => SocketAddr::from((address, port)),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, netdev).into(),
    };
    let sent = UdpSocket::bind(scoped(source, 0))
        .and_then(|socket| socket.send_to(b"H", scoped(peer, DISCARD)));
    match sent {
        Ok(_) => Ok(()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_to_this_host_come_from_it() {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(source_towards(loopback, 4791), Some(loopback));
    }

    #[test]
    fn a_broadcast_address_has_no_source() {
        // The kernel refuses a broadcast address to a socket that did not ask for it.
        let broadcast = IpAddr::from(Ipv4Addr::BROADCAST);
        assert_eq!(source_towards(broadcast, 4791), None);
    }
}
