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
