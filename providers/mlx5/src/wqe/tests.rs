#![allow(clippy::unwrap_used, reason = "tests")]

use uverbs_core::types::{LocalKey, RemoteKey};

use super::*;

fn bytes(units: &[Unit]) -> Vec<u8> {
    units
        .iter()
        .flatten()
        .flat_map(|word| word.to_ne_bytes())
        .collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn control() {
    let head = control_head(opcode::WRITE, 0x1_2345, queue_word(0x00ab_cdef), 3);
    let tail = control_tail(control::SIGNALED | control::FENCE, 0xfeed_beef);
    assert_eq!(
        bytes(&[[head, tail]]),
        hex("00 2345 08  abcdef 03  00 00 00 88  feedbeef")
    );
    let tail = control_tail(control::SOLICITED | control::SMALL_FENCE, 0);
    assert_eq!(tail.to_ne_bytes().to_vec(), hex("00000022 00000000"));
}

#[test]
fn remote_and_atomic() {
    let to = Remote {
        address: 0x1122_3344_5566_7788,
        key: RemoteKey::from_raw(0x99aa_bbcc),
    };
    assert_eq!(
        bytes(&[remote(to)]),
        hex("1122334455667788 99aabbcc 00000000")
    );
    assert_eq!(
        bytes(&[atomic(1, 0x0203)]),
        hex("0000000000000001 0000000000000203")
    );
    assert_eq!(
        bytes(&masked_compare_swap(1, 2, 3, 4)),
        hex("0000000000000001 0000000000000002 0000000000000003 0000000000000004")
    );
    assert_eq!(
        bytes(&[masked_fetch_add(5, 1 << 63)]),
        hex("0000000000000005 8000000000000000")
    );
}

#[test]
fn data_and_ends() {
    let piece = Sge {
        address: 0xdead_beef_0000_1000,
        length: 0x40,
        key: LocalKey::from_raw(0x1234),
    };
    assert_eq!(
        bytes(&[data(&piece), END]),
        hex("00000040 00001234 deadbeef00001000  00000000 00000100 0000000000000000")
    );
    assert_eq!(inline_head(32).to_ne_bytes().to_vec(), hex("80000020"));
    assert_eq!(
        bytes(&[xrc(0x12_3456)]),
        hex("00123456 000000000000000000000000")
    );
    assert_eq!(
        bytes(&[srq_next(0x1_0203)]),
        hex("0000 0203 000000000000000000000000")
    );
}

#[test]
fn a_datagram_keeps_its_path_and_gets_its_number() {
    let mut vector = [0; 88];
    for (byte, at) in vector.iter_mut().zip(0..) {
        *byte = at;
    }
    let expected = hex("11111111 00000000 80654321 0c0d0e0f
        101112131415161718191a1b1c1d1e1f 202122232425262728292a2b2c2d2e2f");
    assert_eq!(
        bytes(&datagram(&vector, ud_key(0x1111_1111), 0x65_4321)),
        expected
    );
    let dc = datagram(&vector, 0x0102_0304_0506_0708, 1);
    assert_eq!(bytes(&dc)[..8], hex("0102030405060708"));
}
