//! IP addresses that say which Ethernet address they have.

use std::net::IpAddr;

/// That of a multicast group (RFC 1112, RFC 2464), or the one that a link-local address was made of
/// (RFC 4291).
pub(super) fn address(ip: IpAddr) -> Option<[u8; 6]> {
    match ip {
        IpAddr::V4(group) if group.is_multicast() => {
            let [_, b, c, d] = group.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V4(_) => None,
        IpAddr::V6(group) if group.is_multicast() => {
            let [.., a, b, c, d] = group.octets();
            Some([0x33, 0x33, a, b, c, d])
        }
        IpAddr::V6(local) => {
            let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, rest @ ..] = local.octets() else {
                return None;
            };
            // Two bytes in the middle, and a bit of the first one, tell it from others.
            Some([rest[0] ^ 2, rest[1], rest[2], rest[5], rest[6], rest[7]])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_made() {
        let of = |text: &str| address(text.parse().expect("an address"));
        assert_eq!(of("239.129.2.3"), Some([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(of("ff02::1:ff00:203"), Some([0x33, 0x33, 0xff, 0, 2, 3]));
        assert_eq!(
            of("fe80::5054:ff:fe12:3456"),
            Some([0x52, 0x54, 0, 0x12, 0x34, 0x56])
        );
        assert_eq!(of("10.0.0.1"), None);
        assert_eq!(of("fd00::1"), None);
        assert_eq!(of("fe81::1"), None);
    }
}
