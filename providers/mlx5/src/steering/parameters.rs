//! The parameters by which the device matches packets (`fte_match_param` of `mlx5_ifc.h`).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::prm::{Field, field, word};

/// Bytes of all groups.
const LEN: usize = 512;
/// Bytes of a group.
const GROUP: usize = 64;

/// The headers of a packet to match: its own, or those inside its tunnel.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MatchHeaders {
    /// The packet's own.
    Outer,
    /// Those inside a tunnel.
    Inner,
}

impl MatchHeaders {
    const fn base(self) -> usize {
        match self {
            Self::Outer => 0,
            Self::Inner => 2 * GROUP,
        }
    }
}

/// `mlx5dv_flow_match_parameters`—values of the fields that the device matches, or a mask of the
/// bits to compare.
///
/// The fields are in groups of 64 bytes: outer headers, other parameters, inner headers, and
/// further parameters. Fields without a method here are accessible by [`set`](Self::set).
///
/// ```
/// use uverbs_mlx5::steering::{MatchHeaders, MatchParameters};
///
/// let mask = MatchParameters::new().destination_mac(MatchHeaders::Outer, [0xff; 6]);
/// assert_eq!(mask.as_bytes()[8..14], [0xff; 6]);
/// ```
#[doc(alias = "mlx5dv_flow_match_parameters")]
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct MatchParameters([u8; LEN]);

impl MatchParameters {
    /// All zero: a mask that every packet matches.
    pub const fn new() -> Self {
        Self([0; LEN])
    }

    /// Sets a field, by its offset from the start of the first group. Bits of `value` beyond its
    /// width are dropped, and so is a field beyond the last group.
    #[must_use]
    pub fn set(mut self, field: Field, value: u32) -> Self {
        field.set(&mut self.0, value);
        self
    }

    /// A field.
    pub fn get(&self, field: Field) -> u32 {
        field.get(&self.0)
    }

    /// The destination address of a frame.
    #[must_use]
    pub fn destination_mac(self, of: MatchHeaders, mac: [u8; 6]) -> Self {
        self.bytes(of, 0x08, &mac)
    }

    /// The source address of a frame.
    #[must_use]
    pub fn source_mac(self, of: MatchHeaders, mac: [u8; 6]) -> Self {
        self.bytes(of, 0x00, &mac)
    }

    /// The EtherType of a frame.
    #[must_use]
    pub fn ether_type(self, of: MatchHeaders, ether_type: u16) -> Self {
        self.bytes(of, 0x06, &ether_type.to_be_bytes())
    }

    /// ID and priority of the first VLAN tag (12 and 3 bits), and that the frame has such a tag.
    #[must_use]
    pub fn vlan(self, of: MatchHeaders, number: u16, priority: u8) -> Self {
        let at = of.base();
        self.set(field(0x0c, 11, 0).at(at), number.into())
            .set(field(0x0c, 15, 13).at(at), priority.into())
            .set(field(0x10, 15, 15).at(at), 1)
    }

    /// The version of the Internet Protocol: 4 or 6, four bits as a mask.
    #[must_use]
    pub fn ip_version(self, of: MatchHeaders, version: u8) -> Self {
        self.set(field(0x10, 12, 9).at(of.base()), version.into())
    }

    /// The protocol of an IP packet's payload.
    #[must_use]
    pub fn ip_protocol(self, of: MatchHeaders, protocol: u8) -> Self {
        self.bytes(of, 0x10, &[protocol])
    }

    /// The source address of an IPv4 packet.
    #[must_use]
    pub fn source_ipv4(self, of: MatchHeaders, address: Ipv4Addr) -> Self {
        self.bytes(of, 0x2c, &address.octets())
    }

    /// The destination address of an IPv4 packet.
    #[must_use]
    pub fn destination_ipv4(self, of: MatchHeaders, address: Ipv4Addr) -> Self {
        self.bytes(of, 0x3c, &address.octets())
    }

    /// The source address of an IPv6 packet.
    #[must_use]
    pub fn source_ipv6(self, of: MatchHeaders, address: Ipv6Addr) -> Self {
        self.bytes(of, 0x20, &address.octets())
    }

    /// The destination address of an IPv6 packet.
    #[must_use]
    pub fn destination_ipv6(self, of: MatchHeaders, address: Ipv6Addr) -> Self {
        self.bytes(of, 0x30, &address.octets())
    }

    /// Ports of a TCP header.
    #[must_use]
    pub fn tcp_ports(self, of: MatchHeaders, source: u16, destination: u16) -> Self {
        self.bytes(of, 0x14, &source.to_be_bytes())
            .bytes(of, 0x16, &destination.to_be_bytes())
    }

    /// Ports of a UDP header.
    #[must_use]
    pub fn udp_ports(self, of: MatchHeaders, source: u16, destination: u16) -> Self {
        self.bytes(of, 0x1c, &source.to_be_bytes())
            .bytes(of, 0x1e, &destination.to_be_bytes())
    }

    /// The network identifier (VNI) of a VXLAN header, 24 bits.
    #[must_use]
    pub fn vxlan_network(self, number: u32) -> Self {
        self.set(field(GROUP + 0x14, 31, 8), number)
    }

    /// The destination queue pair of a RoCE packet, 24 bits.
    #[must_use]
    pub fn destination_qp(self, number: u32) -> Self {
        self.set(field(GROUP + 0x28, 23, 0), number)
    }

    /// The send queue of an outgoing packet, 24 bits.
    #[must_use]
    pub fn source_sq(self, number: u32) -> Self {
        self.set(field(GROUP, 23, 0), number)
    }

    /// Register C `number` (0 to 7) of the packet's metadata, which [changes of
    /// headers](super::HeaderChange) set.
    #[must_use]
    pub fn register_c(self, number: u8, value: u32) -> Self {
        let from_the_last = 7 - usize::from(number.min(7));
        self.set(word(3 * GROUP + 0x10 + from_the_last * 4), value)
    }

    /// The parameters with these first bytes, in the device's format, and zeros behind them. `None`
    /// for more bytes than there are.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut all = Self::new();
        all.0.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(all)
    }

    /// The bytes, in the device's format.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes(mut self, of: MatchHeaders, at: usize, bytes: &[u8]) -> Self {
        let at = of.base() + at;
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self
    }

    /// The bytes up to the last group with a bit set, at least the first group: older kernels know
    /// fewer groups.
    pub(super) fn used(&self) -> &[u8] {
        let last = self
            .groups()
            .rposition(|group| group.iter().any(|byte| *byte != 0));
        let len = (last.unwrap_or(0) + 1) * GROUP;
        self.0.get(..len).unwrap_or(&self.0)
    }

    /// The groups with a bit set: those of a mask are the ones that the device compares
    /// (`match_criteria_enable`).
    pub(super) fn criteria(&self) -> u8 {
        self.groups().enumerate().fold(0, |bits, (at, group)| {
            bits | u8::from(group.iter().any(|byte| *byte != 0)) << at
        })
    }

    /// The first byte with a bit that `mask` does not have.
    pub(super) fn beyond(&self, mask: &Self) -> Option<usize> {
        self.0
            .iter()
            .zip(&mask.0)
            .position(|(value, mask)| value & !mask != 0)
    }

    fn groups(&self) -> std::slice::ChunksExact<'_, u8> {
        self.0.chunks_exact(GROUP)
    }
}

impl Default for MatchParameters {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MatchParameters {
    /// Its words that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MatchParameters")?;
        for (at, word) in self.0.chunks(4).enumerate() {
            if word.iter().any(|byte| *byte != 0) {
                write!(f, " {:#x}:", at * 4)?;
                word.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        Ok(())
    }
}
