use super::message::VALUE;
use super::*;

fn hello() -> Hello {
    Hello {
        credits: 384,
        maps: 128,
        targets: Entry {
            address: 0x1122_3344_5566_7788,
            key: 0x0a0b_0c0d,
            length: TARGETS,
        },
        buffer: Entry {
            address: 0x7f00_0000_1000,
            key: 9,
            length: 65536,
        },
        order: Order::default(),
    }
}

#[test]
fn private_data_is_big_endian() {
    let bytes = hello().to_bytes();
    let flags = if cfg!(target_endian = "big") { 3 } else { 2 };
    assert_eq!(bytes[..8], [1, flags, 1, 0x80, 0, 0, 0, 128]);
    assert_eq!(bytes[8..16], 0x1122_3344_5566_7788_u64.to_be_bytes());
    assert_eq!(bytes[16..20], [0xa, 0xb, 0xc, 0xd]);
    assert_eq!(bytes[20..24], [0, 0, 0, 2]);
    assert_eq!(Hello::from_bytes(&bytes), Some(hello()));
}

#[test]
fn private_data_of_another_version_is_refused() {
    let mut bytes = hello().to_bytes();
    assert_eq!(Hello::from_bytes(&bytes[..usize::from(HELLO) - 1]), None);
    bytes[0] = 2;
    assert_eq!(Hello::from_bytes(&bytes), None);
}

#[test]
fn a_peer_without_maps_has_none() {
    let mut bytes = hello().to_bytes();
    bytes[1] &= !HAS_MAPS;
    assert_eq!(Hello::from_bytes(&bytes).unwrap().maps, 0);
}

#[test]
fn entries_for_a_host_of_the_other_order_are_swapped() {
    let mut bytes = hello().to_bytes();
    bytes[1] ^= BIG_ENDIAN;
    let order = Hello::from_bytes(&bytes).unwrap().order;
    let one = Entry {
        address: 0x0102_0304_0506_0708,
        key: 0x0a0b_0c0d,
        length: 0x1000,
    };
    let swapped = order.entry(one);
    assert_eq!(
        swapped[..8],
        0x0102_0304_0506_0708_u64.swap_bytes().to_ne_bytes()
    );
    assert_eq!(swapped[12..], 0x1000_u32.swap_bytes().to_ne_bytes());
    let same = Order::default();
    assert_eq!(entry(same.entry(one)), one);
    let mapped = Map {
        offset: 4096,
        entry: one,
    };
    assert_eq!(map(same.map(mapped)), mapped);
    assert_eq!(order.map(mapped)[8..], swapped);
}

#[test]
fn numbers_in_a_byte_are_rounded_down() {
    for exact in [0, 1, 127, 128, 256, 0x7f00] {
        assert_eq!(from_scale(to_scale(exact)), exact, "{exact}");
    }
    assert_eq!(from_scale(to_scale(1000)), 768);
}

#[test]
fn messages_are_their_kind_and_a_value() {
    for (message, raw) in [
        (Message::Data(5), 5),
        (Message::Credits(0x1ffff), 0x8001_ffff),
        (Message::Map(3), 0xc000_0003),
        (Message::Control(Control::Disconnect), 0xe000_0000),
        (Message::Control(Control::KeepAlive), 0xe000_0001),
        (Message::Control(Control::Shutdown), 0xe000_0002),
        (Message::Direct(7), 0x4000_0007),
    ] {
        assert_eq!(message.to_raw(), raw);
        assert_eq!(Message::from_raw(raw), message);
    }
    assert_eq!(Message::from_raw(0x2000_0001), Message::Unknown);
    assert_eq!(
        Message::from_raw(u32::MAX),
        Message::Control(Control::Other(VALUE))
    );
}
