//! Changes of indirect keys, and requests that were composed elsewhere.

use uverbs_core::types::{AccessFlags, RemoteKey, WcOpcode};

use super::*;
use crate::wqe::layout::{KeyChange, KeyLayout};
use crate::wqe::signature::Signing;

fn sge(at: u64) -> Sge {
    Sge {
        address: 0x7000 + at,
        length: 8,
        key: LocalKey::from_raw(0x5600),
    }
}

fn change(layout: &[Sge]) -> KeyChange<'_> {
    KeyChange {
        key: RemoteKey::from_raw(0x1200),
        access: Some(AccessFlags::LOCAL_WRITE),
        layout: Some(KeyLayout::List(layout)),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_change_is_padded_and_the_next_request_waits_for_it() {
    let mut queue = queue(QpType::Rc, 4, 0);
    let list = [sge(0), sge(64)];
    let put = queue
        .ring
        .put_key_change(7, SendFlags::SIGNALED, &change(&list));
    put.unwrap();
    let request = SendRequest {
        wr_id: 8,
        flags: SendFlags::SIGNALED,
        operation: Operation::Send,
        payload: Payload::Gather(&list[..1]),
        destination: None,
    };
    queue.put(&request).unwrap();
    queue.ring.submit().unwrap();
    let bytes = queue.bytes();
    assert_eq!(word(&bytes, 0), 0x25 << 32 | u64::from(QPN) << 8 | 0xc);
    assert_eq!(word(&bytes, 8), 8 << 32 | 0x1200);
    assert_eq!(
        bytes[9 * 16 + 8..12 * 16]
            .iter()
            .filter(|byte| **byte != 0)
            .count(),
        2
    );
    // In the fourth block: a send with a small fence.
    assert_eq!(word(&bytes, 192 + 8), (8 | 1 << 5) << 32);
    let Request::Of(sent) = queue.tracker.sent(0, 0) else {
        unreachable!("it is under way");
    };
    assert_eq!((sent.wr_id, sent.kind.any_opcode()), (7, WcOpcode::Driver1));
    assert!(queue.tracker.sent_in_order(1, 3).is_some());
}

#[test]
fn a_list_has_as_many_entries_as_a_request_has_room_for() {
    let mut queue = queue(QpType::Rc, 4, 0);
    // 192 bytes before, and 204 inline, in whole blocks: 448.
    let list = vec![sge(0); 17];
    let refused = queue
        .ring
        .put_key_change(0, SendFlags::empty(), &change(&list));
    let (requested, max) = (17, 16);
    assert_eq!(refused, Err(PostError::TooManySges { requested, max }));
    let put = queue
        .ring
        .put_key_change(0, SendFlags::empty(), &change(&list[..16]));
    put.unwrap();
    for _ in 1..queue.sizes.max_post {
        let put = queue
            .ring
            .put_key_change(0, SendFlags::empty(), &change(&list[..16]));
        put.unwrap();
    }
    let full = queue
        .ring
        .put_key_change(0, SendFlags::empty(), &change(&list));
    assert!(full.is_err());
    let full = queue
        .ring
        .put_key_change(0, SendFlags::empty(), &change(&[]));
    assert_eq!(full, Err(PostError::QueueFull));
}

#[test]
fn datagrams_change_no_keys() {
    let mut queue = queue(QpType::Ud, 4, 0);
    let refused = queue
        .ring
        .put_key_change(0, SendFlags::empty(), &change(&[]));
    assert_eq!(refused, Err(PostError::UnsupportedOperation));
}

/// A change with a byte stream format, and two PSVs behind it.
fn signing() -> Signing {
    Signing {
        errors: Some(3),
        formats: [Some([[0x11; 2]; 4]), None],
        stops: false,
        psvs: [Some((5, 0x77)), Some((6, 0x88))],
    }
}

#[test]
fn of_a_change_with_signatures_only_the_end_completes() {
    for (always, flags, signaled) in [
        (0, SendFlags::SIGNALED, [0, 0, 8]),
        (0, SendFlags::empty(), [0; 3]),
        // As of libmlx5, the first PSV is not quiet then.
        (8, SendFlags::empty(), [0, 8, 8]),
    ] {
        let mut queue = queue(QpType::Rc, 4, 0);
        queue.ring.always = always;
        queue.ring.end.flags = always;
        let list = [sge(0)];
        let put = queue
            .ring
            .put_signed_key_change(7, flags, &change(&list), &signing());
        put.unwrap();
        queue.ring.submit().unwrap();
        let bytes = queue.bytes();
        // 192 bytes, a block of the translation, the byte stream format.
        assert_eq!(word(&bytes, 0), 0x25 << 32 | u64::from(QPN) << 8 | 0x10);
        assert_eq!(word(&bytes, 16), 0x8000_0000_0004_0004);
        assert_eq!(word(&bytes, 24), 0x203c_3201);
        assert_eq!(word(&bytes, 64 + 8), 0x4400_0000);
        assert_eq!(
            bytes[192..256],
            [0x11_u64; 8].map(u64::to_ne_bytes).concat()
        );
        let mut places = [0, 256, 320].into_iter();
        for (signaled, fence) in signaled.into_iter().zip([0, 1 << 5, 1 << 5]) {
            let at = places.next().unwrap();
            assert_eq!(word(&bytes, at + 8) >> 32, fence | signaled, "at {at}");
        }
        for (at, block, number, value) in [(256, 4, 5, 0x77), (320, 5, 6, 0x88)] {
            let head = block << 40 | 0x20 << 32 | u64::from(QPN) << 8 | 2;
            assert_eq!(word(&bytes, at), head);
            assert_eq!(word(&bytes, at + 16), number << 32);
            assert_eq!(word(&bytes, at + 24), value);
        }
        for counter in [4, 5] {
            let Request::Of(sent) = queue.tracker.sent(0, counter) else {
                unreachable!("it is under way");
            };
            assert_eq!((sent.wr_id, sent.kind.any_opcode()), (7, WcOpcode::Driver1));
        }
    }
}

#[test]
fn a_change_with_signatures_takes_all_its_room_or_none() {
    let mut queue = queue(QpType::Rc, 4, 0);
    let list = vec![sge(0); 13];
    let refused =
        queue
            .ring
            .put_signed_key_change(0, SendFlags::empty(), &change(&list), &signing());
    let (requested, max) = (13, 12);
    assert_eq!(refused, Err(PostError::TooManySges { requested, max }));
    let list = &list[..12];
    let mut puts = 0;
    let full = loop {
        let put =
            queue
                .ring
                .put_signed_key_change(0, SendFlags::empty(), &change(list), &signing());
        match put {
            Ok(()) => puts += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, PostError::QueueFull);
    assert_eq!(puts, queue.sizes.max_post / 3);
    assert_eq!(queue.ring.pending.requests(), puts * 3);
}

/// A send of one entry.
fn raw(qpn: u32, units: u64) -> [[u64; 2]; 2] {
    let head = 0x1234_560a_0000_0000 | u64::from(qpn) << 8 | units;
    let head = head & !(0xff << 56);
    [
        [head.to_be(), wqe::control_tail(control::SIGNALED, 0)],
        wqe::data(&sge(0)),
    ]
}

#[test]
fn a_raw_request_gets_its_place_and_nothing_else() {
    let mut queue = queue(QpType::Uc, 4, 0);
    for block in 0..3_u64 {
        queue.ring.put_raw(block, &raw(QPN, 2)).unwrap();
        let at = (block % u64::from(queue.sizes.blocks)) as usize * 64;
        let bytes = queue.bytes();
        let head = block << 40 | 0x0a << 32 | u64::from(QPN) << 8 | 0x2;
        assert_eq!(word(&bytes, at), head);
        assert_eq!(word(&bytes, at + 8), 8 << 32);
        assert_eq!(bytes[at + 16..at + 20], [0, 0, 0, 8]);
    }
    queue.ring.submit().unwrap();
    let Request::Of(sent) = queue.tracker.sent(0, 2) else {
        unreachable!("it is under way");
    };
    assert_eq!((sent.wr_id, sent.kind.any_opcode()), (2, WcOpcode::Driver2));
}

#[test]
fn a_raw_request_of_another_queue_or_length_is_refused() {
    let mut queue = queue(QpType::Rc, 1, 0);
    for (qpn, units) in [(QPN + 1, 2), (0, 2), (QPN, 3), (QPN, 0), (QPN, 1)] {
        let refused = queue.ring.put_raw(0, &raw(qpn, units));
        assert_eq!(refused, Err(PostError::InvalidRequest), "{qpn:#x} {units}");
    }
    assert_eq!(queue.ring.put_raw(0, &[]), Err(PostError::InvalidRequest));
    let long = vec![[0; 2]; 64];
    assert!(matches!(
        queue.ring.put_raw(0, &long),
        Err(PostError::TooManySges { .. })
    ));
    queue.ring.put_raw(0, &raw(QPN, 2)).unwrap();
}
