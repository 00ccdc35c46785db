#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use uverbs_core::Op;
use uverbs_core::hw::{BlockRing, PagePool, Pages, Part, Records};
use uverbs_core::sys::{ForkToken, Mapping};
use uverbs_core::types::{AtomicCap, LocalKey, QpCaps, QpType};

use super::*;
use crate::doorbell::Doorbell;
use crate::sq::Parts;
use crate::tracker::{QueuePairTracker, Receives};
use crate::wqe::operations::Operations;
use crate::wqe::sizes::{self, Overhead};

const HEADER: u32 = 60;

fn queue() -> SendRing {
    let limits = sizes::Limits {
        max_sq_desc: 1024,
        max_rq_desc: 512,
        max_send_blocks: 32768,
        max_recv_wr: 32768,
    };
    let caps = QpCaps {
        max_send_wr: 8,
        max_send_sge: 2,
        max_inline_data: 100,
        ..QpCaps::default()
    };
    let sizes =
        sizes::Send::new(Op::CreateQueuePair, &limits, &caps, Overhead::RAW, HEADER).unwrap();
    let part = Part::from(Pages::new(sizes.bytes() as usize).unwrap());
    let page = Arc::new(Mapping::anonymous(4096).unwrap());
    let mut ring = SendRing::new(Parts {
        ring: BlockRing::new(part, sizes.blocks).unwrap(),
        sizes,
        operations: Operations::of(QpType::RawPacket, AtomicCap::None),
        qpn: 0x12,
        signal_all: true,
        kind: QpType::RawPacket,
        fork: ForkToken::current(),
        tracker: Arc::new(QueuePairTracker::new(sizes.blocks, Receives::None)),
        record: Arc::new(Records::new(64, &PagePool::default()).take().unwrap()),
        doorbell: Doorbell::for_tests(&page, 0),
    });
    ring.set_ready(true);
    ring
}

fn bytes(ring: &SendRing, len: usize) -> Vec<u8> {
    let mut bytes = ring.bytes();
    bytes.truncate(len);
    bytes
}

const ETHERNET: Ethernet = Ethernet {
    min_inline: 0,
    checksums: true,
    max_header: 18 + 64,
    max_tso: 65536,
};

const SGE: Sge = Sge {
    address: 0x1000,
    length: 64,
    key: LocalKey::from_raw(7),
};

fn sixteen(start: u8) -> Vec<u8> {
    (start..start + 16).collect()
}

#[test]
fn a_frame_in_parts() {
    let mut ring = queue();
    let request = SendRequest::send(std::slice::from_ref(&SGE)).with(SendFlags::IP_CHECKSUM);
    ring.put_ethernet(&ETHERNET, &request).unwrap();
    let found = bytes(&ring, 48);
    assert_eq!(found[..12], [0, 0, 0, 0x0a, 0, 0, 0x12, 3, 0, 0, 0, 8]);
    assert_eq!(
        found[16..32],
        [0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        found[32..48],
        [0, 0, 0, 64, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x10, 0]
    );
}

#[test]
fn an_inline_frame_has_its_header_in_the_segment() {
    let mut ring = queue();
    let data: Vec<u8> = (1..=30).collect();
    let slices: [&[u8]; 3] = [&data[..5], &data[5..20], &data[20..]];
    let ethernet = Ethernet {
        min_inline: 18,
        ..ETHERNET
    };
    ring.put_ethernet(&ethernet, &SendRequest::send_inline(&slices))
        .unwrap();
    let found = bytes(&ring, 64);
    assert_eq!(found[7], 4);
    assert_eq!(found[28..32], [0, 18, 1, 2]);
    assert_eq!(found[32..48], sixteen(3));
    assert_eq!(found[48..52], [0x80, 0, 0, 12]);
    assert_eq!(found[52..64], data[18..]);
    let short: [&[u8]; 1] = [&data[..17]];
    let result = ring.put_ethernet(&ethernet, &SendRequest::send_inline(&short));
    assert_eq!(result, Err(PostError::InvalidRequest));
    let sges = SendRequest::send(std::slice::from_ref(&SGE));
    let result = ring.put_ethernet(&ethernet, &sges);
    assert_eq!(result, Err(PostError::UnsupportedOperation));
}

/// Scatter/gather entries for `data`, cut at `ends`.
fn sges_of(data: &[u8], ends: &[usize]) -> Vec<Sge> {
    let starts = std::iter::once(&0).chain(ends);
    let sges = starts.zip(ends).map(|(start, end)| Sge {
        address: data[*start..*end].as_ptr().expose_provenance() as u64,
        length: u32::try_from(end - start).unwrap(),
        key: LocalKey::from_raw(7),
    });
    sges.collect()
}

#[expect(unsafe_code, reason = "names memory of its own")]
fn put(
    ring: &mut SendRing,
    ethernet: &Ethernet,
    request: &SendRequest<'_>,
) -> Result<(), PostError> {
    // SAFETY: the entries refer to vectors that outlive the call, and nothing writes to them.
    unsafe { ring.put_packet(ethernet, request) }
}

#[test]
fn a_packet_has_its_first_bytes_in_the_segment_and_the_rest_in_sges() {
    let data: Vec<u8> = (1..=60).collect();
    let ethernet = Ethernet {
        min_inline: 18,
        ..ETHERNET
    };
    let from = |offset: usize| (data.as_ptr().expose_provenance() + offset) as u64;
    // The ends of the entries, and the entries that remain of them.
    for (ends, left) in [
        (vec![60], vec![(18, 42)]),
        (vec![18, 60], vec![(18, 42)]),
        (vec![17, 60], vec![(18, 42)]),
        (vec![19, 60], vec![(18, 1), (19, 41)]),
        (vec![0, 18], vec![]),
    ] {
        let mut ring = queue();
        let sges = sges_of(&data, &ends);
        put(&mut ring, &ethernet, &SendRequest::send(&sges)).unwrap();
        let found = bytes(&ring, 80);
        let units = 3 + u8::try_from(left.len()).unwrap();
        assert_eq!((found[3], found[7]), (0x0a, units), "{ends:?}");
        assert_eq!(found[28..30], [0, 18], "{ends:?}");
        assert_eq!(found[30..48], data[..18], "{ends:?}");
        for ((address, length), unit) in left.iter().zip(found[48..].chunks(16)) {
            let expected = [
                &u32::to_be_bytes(*length)[..],
                &[0, 0, 0, 7],
                &from(*address).to_be_bytes(),
            ];
            assert_eq!(unit, expected.concat(), "{ends:?}");
        }
    }
}

#[test]
fn a_packet_is_an_ordinary_request_where_the_device_wants_nothing() {
    let data = vec![1; 60];
    let sges = sges_of(&data, &[20, 60]);
    let mut rings = [queue(), queue()];
    put(&mut rings[0], &ETHERNET, &SendRequest::send(&sges)).unwrap();
    rings[1]
        .put_ethernet(&ETHERNET, &SendRequest::send(&sges))
        .unwrap();
    assert_eq!(bytes(&rings[0], 64), bytes(&rings[1], 64));
}

#[test]
fn impossible_packets_are_refused() {
    let ethernet = Ethernet {
        min_inline: 18,
        ..ETHERNET
    };
    let data = vec![1; 60];
    let mut ring = queue();
    let mut refused = |ends: &[usize]| {
        put(
            &mut ring,
            &ethernet,
            &SendRequest::send(&sges_of(&data, ends)),
        )
    };
    assert_eq!(refused(&[17]), Err(PostError::InvalidRequest));
    assert_eq!(refused(&[]), Err(PostError::InvalidRequest));
    assert_eq!(
        refused(&[18, 30, 60]),
        Err(PostError::TooManySges {
            requested: 3,
            max: 2
        })
    );
    let bytes: [&[u8]; 1] = [&data];
    let inline = SendRequest::send_inline(&bytes);
    assert_eq!(put(&mut ring, &ethernet, &inline), Ok(()));
}

#[test]
fn segmentation() {
    let mut ring = queue();
    let header: Vec<u8> = (1..=34).collect();
    let frame = Frame {
        wr_id: 1,
        flags: SendFlags::empty(),
        header: &header,
        rest: &[SGE, SGE],
        segment: Some(1460),
    };
    ring.put_frame(&ETHERNET, &frame).unwrap();
    let found = bytes(&ring, 96);
    assert_eq!((found[3], found[7]), (0x0e, 6));
    assert_eq!(found[22..24], 1460_u16.to_be_bytes());
    assert_eq!(found[28..32], [0, 34, 1, 2]);
    assert_eq!(
        (&found[32..48], &found[48..64]),
        (&sixteen(3)[..], &sixteen(19)[..])
    );
    assert_eq!(found[64..68], [0, 0, 0, 64]);
    assert_eq!(found[80..84], [0, 0, 0, 64]);
}

#[test]
fn impossible_frames_are_refused() {
    let mut ring = queue();
    let long = vec![0; 18 + 64 + 1];
    let frame = Frame {
        wr_id: 1,
        flags: SendFlags::empty(),
        header: &long[..14],
        rest: &[SGE],
        segment: Some(1460),
    };
    let mut refused =
        |ethernet: Ethernet, frame: Frame<'_>| ring.put_frame(&ethernet, &frame).unwrap_err();
    let too_long = Frame {
        header: &long,
        ..frame
    };
    assert!(matches!(
        refused(ETHERNET, too_long),
        PostError::InlineTooLong { max: 82, .. }
    ));
    let short = Frame {
        header: &long[..13],
        ..frame
    };
    assert_eq!(refused(ETHERNET, short), PostError::InvalidRequest);
    let nothing = Frame {
        segment: Some(0),
        ..frame
    };
    assert_eq!(refused(ETHERNET, nothing), PostError::InvalidRequest);
    let none = Ethernet {
        max_tso: 0,
        ..ETHERNET
    };
    assert_eq!(refused(none, frame), PostError::UnsupportedOperation);
    let little = Ethernet {
        max_tso: 63,
        ..ETHERNET
    };
    assert!(matches!(
        refused(little, frame),
        PostError::MessageTooLong { .. }
    ));
    let plain = Ethernet {
        checksums: false,
        ..ETHERNET
    };
    let summed = Frame {
        flags: SendFlags::IP_CHECKSUM,
        ..frame
    };
    assert_eq!(refused(plain, summed), PostError::UnsupportedOperation);
    assert!(ring.put_frame(&ETHERNET, &frame).is_ok());
    let longest = Frame {
        header: &long[..82],
        rest: &[SGE, SGE],
        ..frame
    };
    assert!(ring.put_frame(&ETHERNET, &longest).is_ok());
}
