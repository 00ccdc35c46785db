//! Each parameter on its own.

use super::*;
use crate::prm::{field, word};

/// The bytes that are not zero, with their offsets.
fn bytes(parameters: &MatchParameters) -> Vec<(usize, u8)> {
    let all = parameters.as_bytes().iter().copied().enumerate();
    all.filter(|(_, byte)| *byte != 0).collect()
}

#[test]
fn each_parameter_sets_its_own_bytes() {
    let none = MatchParameters::new;
    for (of, base) in [(MatchHeaders::Outer, 0), (MatchHeaders::Inner, 128)] {
        let octets = |at: usize, bytes: &[u8]| -> Vec<(usize, u8)> {
            let places = (base + at..).zip(bytes.iter().copied());
            places.filter(|(_, byte)| *byte != 0).collect()
        };
        let mac = [1, 2, 3, 4, 5, 6];
        let v4 = Ipv4Addr::new(1, 2, 3, 4);
        let v6 = Ipv6Addr::from_bits(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        let v6_bytes: [u8; 16] = std::array::from_fn(|at| u8::try_from(at + 1).unwrap());
        for (set, expected) in [
            (none().source_mac(of, mac), octets(0, &mac)),
            (none().ether_type(of, 0x0102), octets(6, &[1, 2])),
            (none().destination_mac(of, mac), octets(8, &mac)),
            (
                none().vlan(of, 0xfff, 0),
                [octets(14, &[0x0f, 0xff]), octets(18, &[0x80])].concat(),
            ),
            (
                none().vlan(of, 0, 7),
                [octets(14, &[0xe0]), octets(18, &[0x80])].concat(),
            ),
            (none().ip_protocol(of, 0xff), octets(16, &[0xff])),
            (none().ip_version(of, 0xf), octets(18, &[0x1e])),
            (
                none().tcp_ports(of, 0x0102, 0x0304),
                octets(20, &[1, 2, 3, 4]),
            ),
            (
                none().udp_ports(of, 0x0102, 0x0304),
                octets(28, &[1, 2, 3, 4]),
            ),
            (none().source_ipv6(of, v6), octets(32, &v6_bytes)),
            (none().source_ipv4(of, v4), octets(44, &[1, 2, 3, 4])),
            (none().destination_ipv6(of, v6), octets(48, &v6_bytes)),
            (none().destination_ipv4(of, v4), octets(60, &[1, 2, 3, 4])),
        ] {
            assert_eq!(bytes(&set), expected, "{set:?}");
        }
    }
    for (set, expected) in [
        (
            none().source_sq(0xff12_3456),
            [(65, 0x12), (66, 0x34), (67, 0x56)],
        ),
        (
            none().vxlan_network(0x12_3456),
            [(84, 0x12), (85, 0x34), (86, 0x56)],
        ),
        (
            none().destination_qp(0x12_3456),
            [(105, 0x12), (106, 0x34), (107, 0x56)],
        ),
    ] {
        assert_eq!(bytes(&set), expected, "{set:?}");
    }
    for number in 0..=9_u8 {
        let at = 208 + 4 * (7 - usize::from(number.min(7))) + 3;
        assert_eq!(bytes(&none().register_c(number, 9)), [(at, 9)]);
    }
}

#[test]
fn groups_are_used_up_to_the_last_with_a_bit() {
    for group in 0..8 {
        let set = MatchParameters::new().set(word(group * 64 + 60), 1);
        assert_eq!(set.used().len(), (group + 1) * 64);
        assert_eq!(set.used()[group * 64 + 63], 1);
        assert_eq!(set.criteria(), 1 << group);
        assert_eq!(set.get(word(group * 64 + 60)), 1);
    }
    let beyond = MatchParameters::new().set(word(512), 1);
    assert_eq!(beyond, MatchParameters::default());
    assert_eq!(beyond.get(word(512)), 0);
}

#[test]
fn a_value_has_no_bits_beyond_its_mask() {
    let mask = MatchParameters::new().set(field(8, 15, 0), 0xff00);
    let value = |bits| MatchParameters::new().set(field(8, 15, 0), bits);
    assert_eq!(value(0xa500).beyond(&mask), None);
    assert_eq!(value(0xa501).beyond(&mask), Some(11));
    assert_eq!(value(0).set(word(508), 1).beyond(&mask), Some(511));
}

#[test]
fn parameters_are_taken_from_as_many_bytes_as_there_are() {
    let bytes = [7; 513];
    let some = MatchParameters::from_bytes(&bytes[..5]).unwrap();
    assert_eq!(some.as_bytes()[..6], [7, 7, 7, 7, 7, 0]);
    let all = MatchParameters::from_bytes(&bytes[..512]).unwrap();
    assert_eq!(all.as_bytes(), &bytes[..512]);
    assert_eq!(MatchParameters::from_bytes(&bytes), None);
    let shown = MatchParameters::new().set(word(4), 0x0a0b).set(word(64), 1);
    let text = "MatchParameters 0x4:00000a0b 0x40:00000001";
    assert_eq!(format!("{shown:?}"), text);
}
