//! Entries and their rings, field by field.
#![allow(clippy::unwrap_used, reason = "tests")]

use uverbs_core::hw::{Pages, Part};

use super::ring::CqRing;
use super::*;
use crate::sync::BlockRing;

/// An entry with these eight words, by what they mean to the device.
fn with_entry<T>(words: [u64; 8], see: impl FnOnce(&Entry<'_>) -> T) -> T {
    let ring = BlockRing::new(Part::from(Pages::new(64).unwrap()), 1).unwrap();
    for (unit, pair) in (0..).zip(words.as_chunks::<2>().0) {
        ring.put(unit, pair.map(u64::to_be));
    }
    see(&Entry::new(ring.block(0), Tail(words[7])))
}

/// A received message with the words from byte 16 to 47.
fn received(words: [u64; 4], kind: u32, checksums: Checksums) -> WorkCompletion {
    let [path, headers, immediate, counts] = words;
    let words = [0, 0, path, headers, immediate, counts, 0, 0];
    with_entry(words, |entry| entry.received(kind, 7, 8, checksums))
}

const PLAIN: WorkCompletion = WorkCompletion {
    wr_id: 7,
    qp_num: 8,
    opcode: WcOpcode::Recv,
    ..SENT
};

#[test]
fn a_tail_has_its_fields_side_by_side() {
    let tail = Tail(0xab12_3456_789a_bcde);
    assert_eq!((tail.qpn(), tail.counter()), (0x12_3456, 0x789a));
    assert_eq!((tail.opcode(), tail.format()), (0xd, 3));
    let receives = (0..16).filter(|kind| Tail(kind << 4).is_receive());
    assert_eq!(receives.collect::<Vec<_>>(), [1, 2, 3, 4, 14]);
}

#[test]
fn an_entry_names_the_number_that_its_queue_was_created_with() {
    let words = [0, 0, 0, 0, 0xab12_3456 << 32, 0, 0, 0];
    with_entry(words, |entry| {
        assert_eq!(entry.user_index(), 0x12_3456);
        assert_eq!(u32::from_be(entry.raw_index()), 0x12_3456);
        assert_ne!(entry.raw_index(), NO_INDEX);
    });
}

#[test]
fn requests_bring_as_many_bytes_as_their_kind() {
    let counts = 0x0102_0304_0000_0009_u64.to_be();
    for (kind, bytes) in [
        (WcOpcode::Send, 0),
        (WcOpcode::RdmaWrite, 0),
        (WcOpcode::RdmaRead, 9),
        (WcOpcode::CompareSwap, 8),
        (WcOpcode::FetchAdd, 8),
        (WcOpcode::Tso, 0),
    ] {
        assert_eq!(sent_bytes(kind, counts), bytes, "{kind:?}");
    }
    assert_eq!(byte_count(counts), 9);
    with_entry([0, 0, 0, 0, 0, 0xff_0000_0007, 0, 0], |entry| {
        assert_eq!((entry.byte_count(), entry.message().byte_count()), (7, 7));
    });
}

#[test]
fn each_field_of_a_message_is_read_from_its_place() {
    let none = Checksums::MEANINGLESS;
    let kind = opcode::RECEIVE;
    for (words, expected) in [
        ([0; 4], PLAIN),
        (
            [0xffff, 0, 0, 0],
            WorkCompletion {
                slid: 0xffff,
                ..PLAIN
            },
        ),
        (
            [0x00ff << 48, 0, 0, 0],
            WorkCompletion {
                dlid_path_bits: 0x7f,
                ..PLAIN
            },
        ),
        ([0xff00_ffff_ffff_0000, 0, 0, 0], PLAIN),
        (
            [0, 0x00ff_ffff << 32, 0, 0],
            WorkCompletion {
                src_qp: 0xff_ffff,
                ..PLAIN
            },
        ),
        (
            [0, 0x0f00_0000 << 32, 0, 0],
            WorkCompletion { sl: 0xf, ..PLAIN },
        ),
        (
            [0, 0x1000_0000 << 32, 0, 0],
            WorkCompletion {
                flags: WcFlags::GRH,
                ..PLAIN
            },
        ),
        (
            [0, 0x2000_0000 << 32, 0, 0],
            WorkCompletion {
                flags: WcFlags::GRH,
                ..PLAIN
            },
        ),
        ([0, 0xc000_0000 << 32, 0, 0], PLAIN),
        (
            [0, 0, 0xffff_ffff_0001_ffff, 0],
            WorkCompletion {
                pkey_index: 0xffff,
                ..PLAIN
            },
        ),
        (
            [0, 0, 0, 0xffff_ffff_0102_0304],
            WorkCompletion {
                byte_len: 0x0102_0304,
                ..PLAIN
            },
        ),
    ] {
        assert_eq!(received(words, kind, none), expected, "{words:x?}");
    }
}

#[test]
fn a_messages_value_is_what_its_opcode_says() {
    let words = [0, 0, 0x8765_4321, 0];
    let of = |kind| received(words, kind, Checksums::MEANINGLESS);
    let key = RemoteKey::from_raw(0x8765_4321);
    let invalidating = WorkCompletion {
        invalidated: Some(key),
        flags: WcFlags::WITH_INVALIDATE,
        ..PLAIN
    };
    let immediate = WorkCompletion {
        imm: Some(0x8765_4321),
        flags: WcFlags::WITH_IMM,
        ..PLAIN
    };
    let written = WorkCompletion {
        opcode: WcOpcode::RecvRdmaWithImm,
        ..immediate
    };
    assert_eq!(of(opcode::RECEIVE_INVALIDATE), invalidating);
    assert_eq!(of(opcode::RECEIVE_IMM), immediate);
    assert_eq!(of(opcode::RECEIVE_WRITE_IMM), written);
    assert_eq!(of(opcode::RECEIVE).pkey_index, 0x4321);
}

#[test]
fn checksums_are_right_if_all_of_their_bits_are() {
    let flagged = |headers: u64, checksums| {
        let done = received([0, headers, 0, 0], opcode::RECEIVE, checksums);
        done.flags.contains(WcFlags::IP_CSUM_OK)
    };
    let right = 0x06 << 24 | 2 << 18;
    assert!(flagged(right, Checksums::CHECKED));
    // Bits beside them do not matter; each of them does.
    assert!(flagged(
        right | !0x060c_0000 & 0xffff_ffff,
        Checksums::CHECKED
    ));
    for bit in [25, 26, 18, 19] {
        assert!(!flagged(right ^ 1 << bit, Checksums::CHECKED), "{bit}");
    }
    assert!(!flagged(right, Checksums::MEANINGLESS));
    assert!(!flagged(0xffff_ffff, Checksums::MEANINGLESS));
}

#[test]
fn a_message_in_place_of_its_path_has_none() {
    let words = [1, 2, 0x00ff_0000_0000_ffff, 0x3fff_ffff << 32, 0, 5, 0, 0];
    let done = with_entry(words, |entry| {
        entry.received_over_path(opcode::RECEIVE_IMM, 7, 8)
    });
    let expected = WorkCompletion {
        byte_len: 5,
        imm: Some(0),
        flags: WcFlags::WITH_IMM,
        ..PLAIN
    };
    assert_eq!(done, expected);
}

#[test]
fn a_failure_has_both_syndromes() {
    for (syndromes, status, vendor, faults) in [
        (0x9322_u64, WcStatus::RemoteAborted, 0x93, true),
        (0xffff_9322, WcStatus::RemoteAborted, 0x93, true),
        (0x9222, WcStatus::RemoteAborted, 0x92, false),
        (0x9305, WcStatus::Flushed, 0x93, false),
        (0x0001, WcStatus::LocalLength, 0, false),
    ] {
        with_entry([0, 0, 0, 0, 0, 0, syndromes, 0], |entry| {
            let failed = WorkCompletion {
                wr_id: 7,
                qp_num: 8,
                status,
                vendor_err: vendor,
                opcode: WcOpcode::RdmaRead,
                ..WorkCompletion::default()
            };
            assert_eq!(entry.failed(7, WcOpcode::RdmaRead, 8), failed);
            assert_eq!(entry.is_page_fault(), faults, "{syndromes:#x}");
        });
    }
}

/// The last word of an entry of this opcode and owner bit.
fn tail(kind: u32, owner: u64) -> u64 {
    (u64::from(kind) << 4 | owner).to_be()
}

#[test]
fn entries_are_one_or_two_blocks_apart() {
    for (size, distance, start) in [(64, 4, 0), (128, 8, 4)] {
        for ahead in [0, 3] {
            let ring = CqRing::alone(2, size, ahead).unwrap();
            assert_eq!((ring.entries(), ring.entry_size()), (4, size));
            for position in 0..9 {
                let count = position + ahead;
                assert_eq!(ring.count(position), count);
                let unit = u32::try_from(count).unwrap() * distance + start;
                assert_eq!(ring.first(position), unit);
                let owner = u32::try_from(count / 4 % 2).unwrap();
                assert_eq!(ring.owner(ring.place(position)), owner);
            }
        }
    }
}

#[test]
fn an_entry_is_there_once_its_owner_bit_and_opcode_say_so() {
    let ring = CqRing::alone(1, 64, 0).unwrap();
    let write = |position, kind, owner| {
        let at = ring.first(position) + 3;
        ring.units.put(at, [0x77_u64.to_be(), tail(kind, owner)]);
    };
    assert!(ring.look_at(0).is_none() && ring.tail(0).is_none());
    write(0, opcode::REQUEST, 0);
    let look = ring.look_at(0).unwrap();
    assert!(look.is_sent() && !look.is_received() && look.is(opcode::REQUEST));
    assert_eq!(ring.stamp(0), Some(0x77));
    assert!(ring.look_at(2).is_none(), "of the pass before");
    write(2, opcode::RECEIVE, 1);
    let look = ring.look_at(2).unwrap();
    assert!(!look.is_sent() && look.is_received() && look.is(opcode::RECEIVE));
    write(1, opcode::INVALID, 0);
    assert!(ring.look_at(1).is_none());
    for kind in [opcode::REQUEST_ERROR, opcode::RECEIVE_ERROR] {
        write(1, kind, 0);
        assert_eq!(ring.settle(1).unwrap().opcode(), kind);
        assert_eq!(ring.stamp(1), None);
    }
}

#[test]
fn a_message_is_in_its_entry_or_before_it() {
    for (size, long) in [(64, false), (128, true)] {
        let ring = CqRing::alone(1, size, 0).unwrap();
        let first = ring.first(1);
        let place = ring.place(1);
        for unit in 0..8_u32 {
            let at = first + unit - 4;
            ring.units.put(at, [u64::from(unit), 0]);
        }
        let (bytes, most) = ring.data(place, format::DATA_32).unwrap();
        let words: Vec<u64> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        assert_eq!((words, most), (vec![4, 0, 5, 0, 0, 0, 0, 0], 32));
        let before = ring.data(place, format::DATA_64);
        assert_eq!(before.is_some(), long);
        if let Some((bytes, most)) = before {
            assert_eq!((bytes[..8].to_vec(), most), (vec![0; 8], 64));
            assert_eq!(bytes[16..24], 1_u64.to_ne_bytes());
            assert_eq!(bytes[48..56], 3_u64.to_ne_bytes());
        }
        assert!(ring.data(place, format::PLAIN).is_none());
    }
}

#[test]
fn an_entry_that_is_taken_over_is_of_the_new_rings_pass() {
    for (size, units) in [(64, 4), (128, 8)] {
        let (old, new) = (
            CqRing::alone(1, size, 0).unwrap(),
            CqRing::alone(2, size, 1).unwrap(),
        );
        for position in [0, 3, 5] {
            let start = old.first(position) + 4 - units;
            for unit in 0..units {
                let words = [position + u64::from(unit), 9].map(u64::to_be);
                old.units.put(start.wrapping_add(unit), words);
            }
            let owner = position / 2 % 2;
            let last = [0x55_u64.to_be(), tail(opcode::RECEIVE, owner)];
            old.units.put(old.first(position) + 3, last);
            new.take(&old, position);
            let start = new.first(position) + 4 - units;
            for unit in 0..units - 1 {
                let words = [position + u64::from(unit), 9].map(u64::to_be);
                assert_eq!(new.units.get(start.wrapping_add(unit)), words, "{unit}");
            }
            let owner = (position + 1) / 4 % 2;
            let last = [0x55_u64.to_be(), tail(opcode::RECEIVE, owner)];
            assert_eq!(new.units.get(new.first(position) + 3), last);
            assert_eq!(new.tail(position).unwrap().opcode(), opcode::RECEIVE);
        }
    }
}
