//! The network header in front of every message that a UD queue pair receives.

use std::net::Ipv4Addr;

use super::{FlowLabel, Gid};

/// Which network header is in the 40 bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum IpVersion {
    /// IPv4, in the last 20 bytes (RoCE v2).
    V4,
    /// IPv6, or the InfiniBand header of the same layout.
    V6,
}

/// `ibv_grh`—the first 40 bytes of a UD receive: the global routing header, or a RoCE v2 packet's
/// IP header.
///
/// This is a copy: the buffer belongs to the device again as soon as it is posted. IPv4 headers are
/// in the last 20 bytes, and the bytes before them are arbitrary, so the version is determined as
/// the kernel does it (`ib_get_rdma_header_version`).
#[doc(alias = "ibv_grh")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grh {
    bytes: [u8; Self::LEN],
    version: IpVersion,
}

impl Grh {
    /// Bytes in front of the message. They are there even if the completion says that they hold no
    /// header.
    pub const LEN: usize = 40;

    /// Parses the header in front of a message; `None` if there are fewer than 40 bytes or no IP
    /// header in them.
    pub fn parse(buffer: &[u8]) -> Option<Self> {
        let bytes = *buffer.first_chunk::<{ Self::LEN }>()?;
        let version = match (bytes[0] >> 4, bytes[20] >> 4) {
            (6, _) if !Self::is_plausible_ipv4(&bytes) => IpVersion::V6,
            (6, _) | (_, 4) => IpVersion::V4,
            _ => return None,
        };
        Some(Self { bytes, version })
    }

    /// Whether the last 20 bytes are an IPv4 header without options and with a correct checksum.
    fn is_plausible_ipv4(bytes: &[u8; Self::LEN]) -> bool {
        let header = &bytes[20..];
        let mut sum: u32 = header
            .chunks_exact(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        header[0] & 0x0f == 5 && sum == 0xffff
    }

    /// Which header it is.
    pub const fn version(&self) -> IpVersion {
        self.version
    }

    /// The 40 bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.bytes
    }

    /// Traffic class, or type of service.
    pub const fn traffic_class(&self) -> u8 {
        match self.version {
            IpVersion::V4 => self.bytes[21],
            IpVersion::V6 => self.bytes[0] << 4 | self.bytes[1] >> 4,
        }
    }

    /// Flow label; 0 for IPv4, which has none.
    pub const fn flow_label(&self) -> FlowLabel {
        let b = &self.bytes;
        match self.version {
            IpVersion::V4 => FlowLabel::from_raw(0),
            IpVersion::V6 => FlowLabel::from_raw(u32::from_be_bytes([0, b[1], b[2], b[3]])),
        }
    }

    /// Bytes after this header, transport headers included.
    pub const fn payload_len(&self) -> u16 {
        let b = &self.bytes;
        match self.version {
            IpVersion::V4 => u16::from_be_bytes([b[22], b[23]]).saturating_sub(20),
            IpVersion::V6 => u16::from_be_bytes([b[4], b[5]]),
        }
    }

    /// The protocol that follows: 0x1B InfiniBand transport, 17 UDP (RoCE v2).
    pub const fn next_header(&self) -> u8 {
        match self.version {
            IpVersion::V4 => self.bytes[29],
            IpVersion::V6 => self.bytes[6],
        }
    }

    /// Hop limit, or time to live, on arrival.
    pub const fn hop_limit(&self) -> u8 {
        match self.version {
            IpVersion::V4 => self.bytes[28],
            IpVersion::V6 => self.bytes[7],
        }
    }

    /// The sender's GID; an IPv4 address is mapped.
    pub fn sgid(&self) -> Gid {
        self.gid(32, 8)
    }

    /// The destination GID, local or of a multicast group; an IPv4 address is mapped.
    pub fn dgid(&self) -> Gid {
        self.gid(36, 24)
    }

    fn gid(&self, v4_at: usize, v6_at: usize) -> Gid {
        let b = &self.bytes;
        match self.version {
            IpVersion::V4 => {
                Ipv4Addr::new(b[v4_at], b[v4_at + 1], b[v4_at + 2], b[v4_at + 3]).into()
            }
            IpVersion::V6 => Gid::from_bytes(std::array::from_fn(|i| b[v6_at + i])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in front of an IPv4 header is undefined, and may look like an IPv6 header.
    #[test]
    fn an_ipv4_header_is_recognised_by_its_checksum() {
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0,
            199,
        ];
        let mut bytes = [0x60; Grh::LEN];
        bytes[20..].copy_from_slice(&header);
        let parsed = Grh::parse(&bytes).map(|grh| (grh.version(), grh.sgid()));
        let sender = Ipv4Addr::new(192, 168, 0, 1).into();
        assert_eq!(parsed, Some((IpVersion::V4, sender)));
        bytes[31] ^= 1;
        assert_eq!(
            Grh::parse(&bytes).map(|grh| grh.version()),
            Some(IpVersion::V6)
        );
    }
}
