//! Global identifiers: addresses of ports, valid across subnets.

use std::{
    fmt,
    net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    str::FromStr,
};

use super::{Guid, LinkLayer};

/// `ibv_gid`—a port's 128-bit address, written like an IPv6 address.
///
/// On InfiniBand it consists of subnet prefix and GUID; on RoCE v2 it is the IP address itself,
/// with IPv4 addresses mapped (`::ffff:192.0.2.1`). `{}` prints the short form, `{:#}` all eight
/// groups as sysfs and `ibv_devinfo` do. Default: all zero, an empty table entry.
#[doc(alias = "ibv_gid")]
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Gid([u8; 16]);

impl Gid {
    /// All zero: an empty table entry.
    pub const ZERO: Self = Self([0; 16]);

    /// From bytes in network order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes in network order.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The bytes in network order, borrowed.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// From an InfiniBand subnet prefix and a port GUID.
    pub const fn from_parts(subnet_prefix: u64, interface_id: Guid) -> Self {
        let bits = (subnet_prefix as u128) << 64 | interface_id.to_u64() as u128;
        Self(bits.to_be_bytes())
    }

    /// Whether this is an empty table entry.
    pub const fn is_zero(self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }

    /// The upper half.
    pub const fn subnet_prefix(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// The lower half.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
    pub const fn interface_id(self) -> Guid {
        Guid::from_u64(u128::from_be_bytes(self.0) as u64)
    }

    /// The IPv4 address, if this is an IPv4-mapped one.
    pub const fn ipv4_mapped(self) -> Option<Ipv4Addr> {
        self.to_ipv6().to_ipv4_mapped()
    }

    /// The same 128 bits as an IPv6 address.
    pub const fn to_ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from_be_bytes(self.0))
    }

    /// The IP address in RoCE v2 packets: IPv4 if mapped, else IPv6.
    pub const fn to_ip(self) -> IpAddr {
        match self.ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(self.to_ipv6()),
        }
    }

    /// Whether it is a multicast address: `ff00::/8`, or a mapped address in 224.0.0.0/4.
    pub const fn is_multicast(self) -> bool {
        match self.ipv4_mapped() {
            Some(v4) => v4.is_multicast(),
            None => self.0[0] == 0xff,
        }
    }

    /// Whether it is link-local, `fe80::/10`.
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// The destination MAC address of frames to this multicast group (RFC 1112, RFC 2464), or
    /// `None` for a unicast GID.
    pub const fn multicast_mac(self) -> Option<[u8; 6]> {
        let b = &self.0;
        if !self.is_multicast() {
            None
        } else if self.ipv4_mapped().is_some() {
            Some([0x01, 0x00, 0x5e, b[13] & 0x7f, b[14], b[15]])
        } else {
            Some([0x33, 0x33, b[12], b[13], b[14], b[15]])
        }
    }
}

impl From<[u8; 16]> for Gid {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl From<Gid> for [u8; 16] {
    fn from(gid: Gid) -> Self {
        gid.0
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.octets())
    }
}

impl From<Ipv4Addr> for Gid {
    /// The IPv4-mapped form.
    fn from(address: Ipv4Addr) -> Self {
        Self(address.to_ipv6_mapped().octets())
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl From<Gid> for Ipv6Addr {
    fn from(gid: Gid) -> Self {
        gid.to_ipv6()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.to_ipv6();
        if !f.alternate() {
            return fmt::Display::fmt(&address, f);
        }
        for (i, group) in address.segments().iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{group:04x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({})", self.to_ipv6())
    }
}

/// The text is not a GID.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a GID (expected the form of an IPv6 address)")]
pub struct ParseGidError(#[from] AddrParseError);

impl FromStr for Gid {
    type Err = ParseGidError;

    /// Parses any form of an IPv6 address, including the eight groups of sysfs.
    fn from_str(text: &str) -> Result<Self, ParseGidError> {
        Ok(text.parse::<Ipv6Addr>()?.into())
    }
}

open_enum! {
    /// `ibv_gid_type`—how packets sent from a GID are framed (`enum ib_uverbs_gid_type`).
    #[doc(alias = "ibv_gid_type")]
    pub enum GidType: u32 {
        /// InfiniBand link.
        Ib = 0, "IBV_GID_TYPE_IB", "InfiniBand";
        /// RoCE v1: InfiniBand network header in an Ethernet frame, within one subnet.
        RoceV1 = 1, "IBV_GID_TYPE_ROCE_V1", "RoCE v1";
        /// RoCE v2: UDP port 4791 over IP.
        RoceV2 = 2, "IBV_GID_TYPE_ROCE_V2", "RoCE v2";
    }
}

impl GidType {
    /// The destination UDP port of RoCE v2 packets.
    pub const ROCE_V2_UDP_PORT: u16 = 4791;

    /// Parses sysfs `ports/P/gid_attrs/types/I`, which has one text for the first two types; the
    /// link layer distinguishes them.
    pub fn from_sysfs(text: &str, link: LinkLayer) -> Option<Self> {
        match text.trim_end() {
            "IB/RoCE v1" if link == LinkLayer::Ethernet => Some(Self::RoceV1),
            "IB/RoCE v1" => Some(Self::Ib),
            "RoCE v2" => Some(Self::RoceV2),
            _ => None,
        }
    }
}

/// `ibv_gid_entry`—one entry of a port's GID table.
#[doc(alias = "ibv_gid_entry")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GidEntry {
    /// The address.
    pub gid: Gid,
    /// Its index in the table: the `sgid_index` of address vectors.
    pub index: u32,
    /// The port, from 1.
    pub port: u32,
    /// How packets from it are framed.
    pub gid_type: GidType,
    /// Interface index of the network device it belongs to; `None` on InfiniBand.
    pub netdev: Option<NonZeroU32>,
}
