//! The Ethernet address that packets to an IP address go to, as the kernel's routes and neighbours
//! have it (`NETLINK_ROUTE`, `linux/rtnetlink.h`).

mod conversation;
mod encoded;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::error::Errno;
use crate::sys::netlink::{NetlinkTransport, RouteSocket};
use crate::sys::send_byte;

use conversation::{Conversation, Kind, Link, Route};

/// How long an address is looked for, and how often packets ask for it meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(270);

/// The longest pause between two looks at the neighbours.
const PAUSE: Duration = Duration::from_millis(20);

/// Where frames to a peer go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EthernetPeer {
    /// The Ethernet address: the peer's, or that of the router on the way to it.
    pub address: [u8; 6],
    /// The VLAN of the network device that frames leave by.
    pub vlan: Option<u16>,
}

/// Finds where frames from `source`, an address of network device `netdev`, to `peer` go.
///
/// Asks the kernel for the route, and for the neighbours; sends it packets for an address that is
/// not among them, and waits for it up to 3 s. At least eight system calls.
///
/// # Errors
/// EHOSTUNREACH: there is no route, or nobody has the address. EINVAL: the two addresses are of
/// different families. Those of netlink sockets.
#[doc(alias = "ibv_resolve_eth_l2_from_gid")]
pub fn ethernet_peer(source: IpAddr, netdev: u32, peer: IpAddr) -> Result<EthernetPeer, Errno> {
    let poke = |towards| send_byte(source, towards, netdev);
    find(RouteSocket::open()?, source, netdev, peer, poke)
}

fn find<T: NetlinkTransport>(
    transport: T,
    source: IpAddr,
    netdev: u32,
    peer: IpAddr,
    poke: impl Fn(IpAddr) -> Result<(), Errno>,
) -> Result<EthernetPeer, Errno> {
    if source.is_ipv4() != peer.is_ipv4() {
        return Err(Errno::INVAL);
    }
    let mut conversation = Conversation::new(transport);
    let Link { address, vlan } = conversation.link(netdev)?;
    let route = conversation.route(peer, netdev);
    let Route { kind, gateway } = route.map_err(|_| Errno::HOSTUNREACH)?;
    let next = gateway.unwrap_or(peer);
    let address = match kind {
        Kind::Refuses => return Err(Errno::HOSTUNREACH),
        Kind::Own => address.ok_or(Errno::HOSTUNREACH)?,
        Kind::Leads => match encoded::address(next) {
            Some(address) => address,
            None => wait_for(&mut conversation, next, netdev, poke)?,
        },
    };
    Ok(EthernetPeer { address, vlan })
}

/// Waits until the kernel knows a neighbour's address.
fn wait_for<T: NetlinkTransport>(
    conversation: &mut Conversation<T>,
    next: IpAddr,
    netdev: u32,
    poke: impl Fn(IpAddr) -> Result<(), Errno>,
) -> Result<[u8; 6], Errno> {
    let begun = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(found) = conversation.neighbour(next, netdev)? {
            return Ok(found);
        }
        if begun.elapsed() >= PATIENCE {
            return Err(Errno::HOSTUNREACH);
        }
        if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
            let first = asked.is_none();
            asked = Some(Instant::now());
            match poke(next) {
                // What was asked before may have failed: the kernel reports it to the next packet.
                Err(_) if !first => {}
                sent => sent.map_err(|_| Errno::HOSTUNREACH)?,
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
}
