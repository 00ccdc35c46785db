//! What sockets for datagrams tell each other.
//!
//! Over UDP, until a peer's queue pair is known: the number of the sender's queue pair, and
//! possibly data. In front of each datagram between queue pairs: where it is from, because those
//! tell less than that. All numbers are in network order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Begins each message over UDP.
const TAG: [u8; 4] = [0x55; 4];
/// What a message over UDP is for.
const DATA: u8 = 0;
const CONTROL: u8 = 7;
/// Bytes in front of an address, of either kind.
const ANNOUNCEMENT: usize = 12;
const ORIGIN: usize = 4;
/// IPv6 addresses come after a flow label there.
const LABEL: usize = 4;

/// A message over UDP, without the data behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Announcement {
    /// Data follow, which are for the program; otherwise it is an answer to such.
    pub(super) has_data: bool,
    /// The sender's queue pair: 24 bits.
    pub(super) qp_num: u32,
}

impl Announcement {
    /// For a sender with this address.
    pub(super) fn to_bytes(self, source: IpAddr) -> Vec<u8> {
        let address = octets(source);
        let length = length(ANNOUNCEMENT + address.len());
        let op = if self.has_data { DATA } else { CONTROL };
        let head = [version(source), op, length, 0];
        let number = self.qp_num.to_be_bytes();
        [&TAG[..], &head, &number, &address].concat()
    }

    /// What a datagram over UDP from this address says, and the data. `None`: it is of another
    /// protocol, or incomplete.
    pub(super) fn from_bytes(bytes: &[u8], source: IpAddr) -> Option<(Self, &[u8])> {
        let [t0, t1, t2, t3, of, op, told, _, n0, n1, n2, n3] = *bytes.first_chunk()?;
        let whole = ANNOUNCEMENT + octets(source).len();
        if [t0, t1, t2, t3] != TAG || of != version(source) || usize::from(told) != whole {
            return None;
        }
        let has_data = match op {
            DATA => true,
            CONTROL => false,
            _ => return None,
        };
        let qp_num = u32::from_be_bytes([n0, n1, n2, n3]) & 0xff_ffff;
        let data = bytes.get(whole..)?;
        Some((Self { has_data, qp_num }, data))
    }
}

/// What is in front of each datagram from an address.
pub(super) fn origin(source: SocketAddr) -> Vec<u8> {
    let length = length(origin_len(source.is_ipv4()));
    let mut bytes = vec![version(source.ip()), length];
    bytes.extend(source.port().to_be_bytes());
    if let SocketAddr::V6(source) = source {
        bytes.extend(source.flowinfo().to_ne_bytes());
    }
    bytes.extend(octets(source.ip()));
    bytes
}

/// Bytes of that.
pub(super) fn origin_len(is_ipv4: bool) -> usize {
    if is_ipv4 {
        ORIGIN + 4
    } else {
        ORIGIN + LABEL + 16
    }
}

/// Where a datagram is from, as it says itself. `None`: it does not say so, or is of another
/// family.
pub(super) fn parse_origin(bytes: &[u8], is_ipv4: bool) -> Option<SocketAddr> {
    let whole = origin_len(is_ipv4);
    let bytes = bytes.get(..whole)?;
    let [of, told, p0, p1] = *bytes.first_chunk()?;
    if of != if is_ipv4 { 4 } else { 6 } || usize::from(told) != whole {
        return None;
    }
    let port = u16::from_be_bytes([p0, p1]);
    let rest = bytes.get(ORIGIN..)?;
    Some(if is_ipv4 {
        let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
        SocketAddr::new(address.into(), port)
    } else {
        let label = u32::from_ne_bytes(*rest.first_chunk()?);
        let address = Ipv6Addr::from(*rest.get(LABEL..)?.first_chunk::<16>()?);
        SocketAddrV6::new(address, port, label, 0).into()
    })
}

fn version(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn length(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: &str = "192.0.2.1:7174";
    const SIX: &str = "[2001:db8::7]:7174";

    fn ip(text: &str) -> IpAddr {
        text.parse::<SocketAddr>().unwrap().ip()
    }

    #[test]
    fn announcements_have_their_bytes() {
        let data = Announcement {
            has_data: true,
            qp_num: 0x12_3456,
        };
        let bytes = data.to_bytes(ip(FOUR));
        let expected = [
            0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0x12, 0x34, 0x56, 192, 0, 2, 1,
        ];
        assert_eq!(bytes, expected);
        let answer = Announcement {
            has_data: false,
            ..data
        };
        let bytes = answer.to_bytes(ip(SIX));
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[4..8], [6, 7, 28, 0]);
        let read = Announcement::from_bytes(&bytes, ip(SIX));
        assert_eq!(read, Some((answer, &[][..])));
    }

    #[test]
    fn other_announcements_are_none() {
        let data = Announcement {
            has_data: true,
            qp_num: 9,
        };
        let mut bytes = data.to_bytes(ip(FOUR));
        bytes.extend(b"hello");
        let read = |bytes: &[u8], from| Announcement::from_bytes(bytes, ip(from)).is_some();
        assert_eq!(
            Announcement::from_bytes(&bytes, ip(FOUR)),
            Some((data, &b"hello"[..]))
        );
        assert!(!read(&bytes, SIX));
        for short in 0..16 {
            assert!(!read(&bytes[..short], FOUR));
        }
        for at in [0, 3, 4, 5, 6] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(!read(&other, FOUR), "byte {at}");
        }
        // It says that it is longer than it is.
        let whole = data.to_bytes(ip(SIX));
        assert!(read(&whole, SIX) && !read(&whole[..27], SIX));
    }

    #[test]
    fn origins_are_read_as_they_were_written() {
        for text in [FOUR, SIX] {
            let source: SocketAddr = text.parse().unwrap();
            let is_ipv4 = source.is_ipv4();
            let bytes = origin(source);
            assert_eq!(bytes.len(), if is_ipv4 { 8 } else { 24 });
            assert_eq!(bytes[2..4], [0x1c, 0x06]);
            assert_eq!(parse_origin(&bytes, is_ipv4), Some(source));
            assert_eq!(parse_origin(&bytes, !is_ipv4), None);
            for short in 0..bytes.len() {
                assert_eq!(parse_origin(&bytes[..short], is_ipv4), None);
            }
            let mut other = bytes.clone();
            other[1] += 1;
            assert_eq!(parse_origin(&other, is_ipv4), None);
        }
    }
}
