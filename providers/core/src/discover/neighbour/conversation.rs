//! Questions to the kernel about its network, and its answers.

use std::net::IpAddr;

use netlink_packet_core::{
    ErrorBuffer, NLM_F_DUMP, NLM_F_MULTIPART, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
};

use crate::discover::netlink::{Attributes, Malformed};
use crate::error::Errno;
use crate::sys::netlink::{NETLINK_DATAGRAM_MAX, NetlinkTransport};

/// Numbers of `linux/rtnetlink.h`, `linux/neighbour.h` and `linux/if_link.h`.
pub(super) mod number {
    pub(crate) const AF_UNSPEC: u8 = 0;
    pub(crate) const AF_INET: u8 = 2;
    pub(crate) const AF_INET6: u8 = 10;
    pub(crate) const RTM_GETLINK: u16 = 18;
    pub(crate) const RTM_GETROUTE: u16 = 26;
    pub(crate) const RTM_GETNEIGH: u16 = 30;
    pub(crate) const RTA_DST: u16 = 1;
    pub(crate) const RTA_OIF: u16 = 4;
    pub(crate) const RTA_GATEWAY: u16 = 5;
    pub(crate) const RTN_LOCAL: u8 = 2;
    pub(crate) const RTN_BLACKHOLE: u8 = 6;
    pub(crate) const RTN_THROW: u8 = 9;
    pub(crate) const NDA_DST: u16 = 1;
    pub(crate) const NDA_LLADDR: u16 = 2;
    pub(crate) const NUD_INCOMPLETE: u16 = 0x01;
    pub(crate) const NUD_FAILED: u16 = 0x20;
    pub(crate) const IFLA_ADDRESS: u16 = 1;
    pub(crate) const IFLA_LINKINFO: u16 = 18;
    pub(crate) const IFLA_INFO_KIND: u16 = 1;
    pub(crate) const IFLA_INFO_DATA: u16 = 2;
    pub(crate) const IFLA_VLAN_ID: u16 = 1;
}
use number::{
    AF_INET, AF_INET6, AF_UNSPEC, IFLA_ADDRESS, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO,
    IFLA_VLAN_ID, NDA_DST, NDA_LLADDR, NUD_FAILED, NUD_INCOMPLETE, RTA_DST, RTA_GATEWAY, RTA_OIF,
    RTM_GETLINK, RTM_GETNEIGH, RTM_GETROUTE, RTN_BLACKHOLE, RTN_LOCAL, RTN_THROW,
};

/// Sizes of `nlmsghdr`, and of what precedes the attributes: `rtmsg` and `ndmsg`, `ifinfomsg`.
pub(super) const HEADER: usize = 16;
pub(super) const ROUTE: usize = 12;
pub(super) const LINK: usize = 16;

/// What a route does with packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// They are for this host.
    Own,
    /// They are dropped or refused.
    Refuses,
    /// They leave.
    Leads,
}

/// A route to a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Route {
    pub(super) kind: Kind,
    pub(super) gateway: Option<IpAddr>,
}

/// A network device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Link {
    pub(super) address: Option<[u8; 6]>,
    pub(super) vlan: Option<u16>,
}

/// A socket on which questions are numbered.
#[derive(Debug)]
pub(super) struct Conversation<T> {
    transport: T,
    sequence: u32,
    buffer: Vec<u8>,
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// Appends an attribute, with the zeros after it.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Bytes that the kernel does not send.
fn malformed(_: Malformed) -> Errno {
    Errno::BADMSG
}

impl<T: NetlinkTransport> Conversation<T> {
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            sequence: 0,
            buffer: vec![0; NETLINK_DATAGRAM_MAX],
        }
    }

    /// Asks, and passes each message of the answer on: what precedes its attributes, and these.
    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        before: usize,
        mut each: impl FnMut(&[u8], Attributes<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        let length = u32::try_from(HEADER + body.len()).map_err(|_| Errno::INVAL)?;
        request.extend(length.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend(body);
        self.transport.send(&request)?;
        loop {
            let mut lengths = [0];
            self.transport.receive(&mut self.buffer, &mut lengths)?;
            let [length] = lengths;
            let mut rest = self.buffer.get(..length).ok_or(Errno::NOBUFS)?;
            while !rest.is_empty() {
                let message = NetlinkBuffer::new_checked(rest).map_err(|_| Errno::BADMSG)?;
                let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                if message.sequence_number() != self.sequence {
                    continue;
                }
                let payload: &[u8] = message.payload();
                match message.message_type() {
                    NLMSG_ERROR => {
                        let error = ErrorBuffer::new_checked(payload);
                        let code = error.map_err(|_| Errno::BADMSG)?.code();
                        let code = code.map_or(0, |code| code.get().saturating_neg());
                        return Err(Errno::from_raw_os_error(code.clamp(1, 4095)));
                    }
                    NLMSG_DONE => return Ok(()),
                    _ => {
                        let (fixed, attributes) =
                            payload.split_at_checked(before).ok_or(Errno::BADMSG)?;
                        each(fixed, Attributes::new(attributes))?;
                        if message.flags() & NLM_F_MULTIPART == 0 {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// The route of packets to `peer` that leave by `netdev`.
    pub(super) fn route(&mut self, peer: IpAddr, netdev: u32) -> Result<Route, Errno> {
        let address = octets(peer);
        let bits = u8::try_from(address.len() * 8).unwrap_or(u8::MAX);
        let mut body = vec![0; ROUTE];
        (body[0], body[1]) = (family(peer), bits);
        attribute(&mut body, RTA_DST, &address);
        attribute(&mut body, RTA_OIF, &netdev.to_ne_bytes());
        let mut found = None;
        self.ask(RTM_GETROUTE, 0, &body, ROUTE, |fixed, attributes| {
            let kind = match fixed[7] {
                RTN_LOCAL => Kind::Own,
                RTN_BLACKHOLE..=RTN_THROW => Kind::Refuses,
                _ => Kind::Leads,
            };
            let mut gateway = None;
            for value in attributes.all(RTA_GATEWAY) {
                gateway = ip(value.map_err(malformed)?.bytes());
            }
            found = Some(Route { kind, gateway });
            Ok(())
        })?;
        found.ok_or(Errno::BADMSG)
    }

    /// The Ethernet address of a neighbour, if it is known.
    pub(super) fn neighbour(
        &mut self,
        peer: IpAddr,
        netdev: u32,
    ) -> Result<Option<[u8; 6]>, Errno> {
        let mut body = vec![0; ROUTE];
        body[0] = family(peer);
        let mut found = None;
        self.ask(
            RTM_GETNEIGH,
            NLM_F_DUMP,
            &body,
            ROUTE,
            |fixed, attributes| {
                let (mut is_peer, mut address) = (false, None);
                for attribute in attributes.iter() {
                    let (kind, value) = attribute.map_err(malformed)?;
                    match kind {
                        NDA_DST => is_peer = ip(value.bytes()) == Some(peer),
                        NDA_LLADDR => address = <[u8; 6]>::try_from(value.bytes()).ok(),
                        _ => {}
                    }
                }
                let here = fixed[4..8] == netdev.to_ne_bytes();
                let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
                if is_peer && here && state & (NUD_INCOMPLETE | NUD_FAILED) == 0 {
                    found = found.or(address);
                }
                Ok(())
            },
        )?;
        Ok(found)
    }

    /// A network device.
    pub(super) fn link(&mut self, netdev: u32) -> Result<Link, Errno> {
        let mut body = vec![0; LINK];
        body[0] = AF_UNSPEC;
        body[4..8].copy_from_slice(&netdev.to_ne_bytes());
        let mut link = Link::default();
        self.ask(RTM_GETLINK, 0, &body, LINK, |_, attributes| {
            for attribute in attributes.iter() {
                let (kind, value) = attribute.map_err(malformed)?;
                match kind {
                    IFLA_ADDRESS => link.address = <[u8; 6]>::try_from(value.bytes()).ok(),
                    IFLA_LINKINFO => link.vlan = vlan(Attributes::new(value.bytes()))?,
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(link)
    }
}

/// The VLAN of a network device that is one.
fn vlan(information: Attributes<'_>) -> Result<Option<u16>, Errno> {
    let (mut is_vlan, mut number) = (false, None);
    for attribute in information.iter() {
        let (kind, value) = attribute.map_err(malformed)?;
        match kind {
            IFLA_INFO_KIND => is_vlan = value.bytes() == b"vlan\0",
            IFLA_INFO_DATA => {
                for value in Attributes::new(value.bytes()).all(IFLA_VLAN_ID) {
                    let bytes = <[u8; 2]>::try_from(value.map_err(malformed)?.bytes());
                    number = bytes.ok().map(u16::from_ne_bytes);
                }
            }
            _ => {}
        }
    }
    Ok(number.filter(|number| is_vlan && *number < 0x1000))
}
