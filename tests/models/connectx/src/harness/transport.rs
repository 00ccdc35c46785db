//! Data between queue pairs: what arrives, and how each failure is reported.

use super::host::{FREE, Host, Pair, connected, fabric, remote_bytes, segment_bytes};
use crate::Options;
use crate::engine::Fabric;
use crate::layout::command::op;
use crate::layout::queue::mkey;
use crate::layout::{be32, qp, word};
use crate::memory::GuestMemory;
use crate::objects::Service;

const SEND: u8 = 0x0a;
const SEND_IMMEDIATE: u8 = 0x0b;
const WRITE: u8 = 0x08;
const READ: u8 = 0x10;
const COMPARE_SWAP: u8 = 0x11;
const FETCH_ADD: u8 = 0x12;

/// Two hosts, a connected pair on each and a key for all test memory.
fn setup(service: Service) -> (Fabric, Vec<Host>, Pair, Pair, [u32; 2]) {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, service);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    (fabric, hosts, a, b, keys)
}

#[test]
fn a_send_arrives_scattered_with_its_immediate() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    let text: Vec<u8> = (0..100).collect();
    hosts[0].ram.write(FREE, &text).unwrap();
    hosts[1].post_recv(
        &mut b,
        &[(30, keys[1], FREE + 0x1000), (100, keys[1], FREE + 0x3000)],
    );
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND_IMMEDIATE,
        0xfeed,
        &segment_bytes(&[(100, keys[0], FREE)]),
    );
    let sent = hosts[0].poll(&mut a.cq).unwrap();
    assert_eq!(
        (sent.opcode, be32(&sent.entry, 0x38) & 0xff_ffff),
        (0, a.qpn)
    );
    let got = hosts[1].poll(&mut b.cq).unwrap();
    assert_eq!(
        (got.opcode, got.bytes, be32(&got.entry, 0x24)),
        (3, 100, 0xfeed)
    );
    assert_eq!(be32(&got.entry, 0x20), 0x77, "the user's index");
    assert_eq!(hosts[1].bytes(FREE + 0x1000, 30), text[..30]);
    assert_eq!(hosts[1].bytes(FREE + 0x3000, 70), text[30..]);
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
}

#[test]
fn small_messages_go_into_completions_where_the_receiver_wants_that() {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let mut a = hosts[0].create_qp(&mut fabric, 0);
    let mut b = hosts[1].create_qp_with(&mut fabric, 0, &[(qp::SCATTER_RECEIVED, 1)]);
    hosts[0].connect(&mut fabric, &a, 2, b.qpn);
    hosts[1].connect(&mut fabric, &b, 1, a.qpn);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let text: Vec<u8> = (1..=33).collect();
    hosts[0].ram.write(FREE, &text).unwrap();
    for length in [0, 1, 32, 33] {
        hosts[1].ram.write(FREE, &[0xee; 64]).unwrap();
        hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
        let segments = segment_bytes(&[(length, keys[0], FREE)]);
        let segments = if length == 0 { &[][..] } else { &segments };
        hosts[0].post_send(&mut fabric, &mut a, SEND, 0, segments);
        hosts[0].poll(&mut a.cq).unwrap();
        let got = hosts[1].poll(&mut b.cq).unwrap();
        let (inside, count) = ((1..=32).contains(&length), length as usize);
        assert_eq!((got.opcode, got.bytes), (2, length));
        assert_eq!(got.entry[63] >> 2 & 3, u8::from(inside), "{length}");
        let mut memory = [0xee; 64];
        if inside {
            assert_eq!(got.entry[..count], text[..count]);
        } else {
            memory[..count].copy_from_slice(&text[..count]);
        }
        assert_eq!(hosts[1].bytes(FREE, 64), memory, "{length}");
    }
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
}

#[test]
fn write_read_and_atomics_reach_remote_memory() {
    let (mut fabric, hosts, mut a, _, keys) = setup(Service::Rc);
    hosts[0].ram.write(FREE, b"written by one side").unwrap();
    let mut body = remote_bytes(FREE + 0x800, keys[1]);
    body.extend(segment_bytes(&[(19, keys[0], FREE)]));
    hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
    assert_eq!(hosts[1].bytes(FREE + 0x800, 19), b"written by one side");
    let mut body = remote_bytes(FREE + 0x800, keys[1]);
    body.extend(segment_bytes(&[(19, keys[0], FREE + 0x400)]));
    hosts[0].post_send(&mut fabric, &mut a, READ, 0, &body);
    assert_eq!(hosts[0].bytes(FREE + 0x400, 19), b"written by one side");

    hosts[1]
        .ram
        .write(FREE + 0x2000, &5u64.to_ne_bytes())
        .unwrap();
    let mut atomic = |opcode, first: u64, second: u64| {
        let mut body = remote_bytes(FREE + 0x2000, keys[1]);
        body.extend(first.to_be_bytes());
        body.extend(second.to_be_bytes());
        body.extend(segment_bytes(&[(8, keys[0], FREE + 0x600)]));
        hosts[0].post_send(&mut fabric, &mut a, opcode, 0, &body);
        hosts[0].bytes(FREE + 0x600, 8)
    };
    assert_eq!(atomic(FETCH_ADD, 3, 0), 5u64.to_ne_bytes());
    assert_eq!(atomic(COMPARE_SWAP, 100, 8), 8u64.to_ne_bytes());
    assert_eq!(atomic(COMPARE_SWAP, 7, 8), 100u64.to_ne_bytes());
    assert_eq!(hosts[1].bytes(FREE + 0x2000, 8), 100u64.to_ne_bytes());
    for _ in 0..5 {
        assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    }
}

#[test]
fn a_wrong_local_key_fails_and_flushes() {
    let (mut fabric, hosts, mut a, _, _) = setup(Service::Rc);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, 0xdead_0000, FREE)]),
    );
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, 0xdead_0000, FREE)]),
    );
    let syndromes: Vec<_> = (0..2)
        .map(|_| hosts[0].poll(&mut a.cq).unwrap())
        .map(|c| (c.opcode, c.syndrome))
        .collect();
    assert_eq!(syndromes, [(0xd, 0x04), (0xd, 0x05)]);
}

#[test]
fn a_wrong_remote_key_fails_at_both_ends() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    hosts[1].post_recv(&mut b, &[(8, keys[1], FREE)]);
    let read_only = hosts[1].create_mkey(
        &mut fabric,
        FREE,
        64,
        &[mkey::LOCAL_READ, mkey::REMOTE_READ],
    );
    let mut body = remote_bytes(FREE, read_only);
    body.extend(segment_bytes(&[(8, keys[0], FREE)]));
    hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x13);
    let flushed = hosts[1].poll(&mut b.cq).unwrap();
    assert_eq!((flushed.opcode, flushed.syndrome), (0xe, 0x05));
}

#[test]
fn too_small_a_receive_fails_at_both_ends() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    hosts[1].post_recv(&mut b, &[(4, keys[1], FREE)]);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, keys[0], FREE)]),
    );
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x12);
    assert_eq!(hosts[1].poll(&mut b.cq).unwrap().syndrome, 0x01);
}

#[test]
fn a_receiver_without_buffers_is_waited_for_and_then_given_up() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    let body = segment_bytes(&[(8, keys[0], FREE)]);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    hosts[1].post_recv(&mut b, &[(8, keys[1], FREE)]);
    fabric.advance(1_000_000);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    for step in 2..10 {
        fabric.advance(step * 1_000_000);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x16);
}

#[test]
fn a_silent_receiver_is_given_up_after_the_retries() {
    let (mut fabric, hosts, mut a, b, keys) = setup(Service::Rc);
    hosts[1].modify(&mut fabric, op::TO_RST_QP, b.qpn, &[]);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, keys[0], FREE)]),
    );
    let deadline = fabric.next_deadline().unwrap();
    assert!(hosts[0].poll(&mut a.cq).is_none());
    for step in 0..4 {
        fabric.advance(deadline + step * 10_000);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x15);
    assert_eq!(fabric.next_deadline(), None);
}

#[test]
fn a_lost_message_is_sent_again() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    hosts[1].post_recv(&mut b, &[(8, keys[1], FREE)]);
    fabric.drop_messages(0, 1);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, keys[0], FREE)]),
    );
    assert!(hosts[0].poll(&mut a.cq).is_none());
    fabric.advance(1_000_000);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(hosts[1].poll(&mut b.cq).unwrap().opcode, 2);
}

#[test]
fn an_unreliable_message_without_receiver_is_lost_in_silence() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Uc);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &segment_bytes(&[(8, keys[0], FREE)]),
    );
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert!(hosts[1].poll(&mut b.cq).is_none());
}

fn datagram(qpn: u32, lid: u32, key: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 48];
    word(0).set(&mut body, key);
    word(8).set(&mut body, 1 << 31 | qpn);
    word(12).set(&mut body, lid);
    body.extend(data);
    body
}

#[test]
fn a_datagram_needs_the_right_key_and_leaves_room_for_its_header() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Ud);
    hosts[0].ram.write(FREE, b"datagram").unwrap();
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    let data = segment_bytes(&[(8, keys[0], FREE)]);
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &datagram(b.qpn, 2, 0x9999, &data),
    );
    assert!(hosts[1].poll(&mut b.cq).is_none());
    hosts[0].post_send(
        &mut fabric,
        &mut a,
        SEND,
        0,
        &datagram(b.qpn, 2, 0x1234, &data),
    );
    let got = hosts[1].poll(&mut b.cq).unwrap();
    assert_eq!(
        (got.opcode, got.bytes, be32(&got.entry, 0x18)),
        (2, 48, a.qpn)
    );
    assert_eq!(hosts[1].bytes(FREE + 40, 8), b"datagram");
}

#[test]
fn an_armed_queue_fires_once_and_at_once_if_it_is_late() {
    let (mut fabric, mut hosts, mut a, mut b, keys) = setup(Service::Rc);
    let host = &mut hosts[0];
    let page = u64::from(host.uar) << 12;
    let arm_eq = |fabric: &mut Fabric, host: &Host, consumer: u32| {
        fabric.mmio_write(0, page + 0x40, &(host.eqn << 24 | consumer).to_be_bytes());
    };
    arm_eq(&mut fabric, host, 0);
    let mut arm = 0u32.to_be_bytes().to_vec();
    arm.extend(a.cq.cqn.to_be_bytes());
    fabric.mmio_write(0, page + 0x20, &arm);
    assert_eq!(host.interrupts.raised(0), 0);
    for _ in 0..2 {
        hosts[1].post_recv(&mut b, &[(8, keys[1], FREE)]);
        hosts[0].post_send(
            &mut fabric,
            &mut a,
            SEND,
            0,
            &segment_bytes(&[(8, keys[0], FREE)]),
        );
    }
    assert_eq!(hosts[0].interrupts.raised(0), 1);
    // Armed again without having consumed anything: that is late, so the event comes at once.
    arm_eq(&mut fabric, &hosts[0], 1);
    fabric.mmio_write(0, page + 0x20, &arm);
    assert_eq!(hosts[0].interrupts.raised(0), 2);
}

#[test]
fn a_doorbell_through_a_foreign_page_is_ignored_and_reported() {
    let (mut fabric, hosts, mut a, _, keys) = setup(Service::Rc);
    let page = u64::from(hosts[0].uar + 1) << 12;
    let good = hosts[0].uar;
    let mut wrong = [0; 8];
    word(4).set(&mut wrong, a.qpn << 8 | 2);
    hosts[0]
        .ram
        .write(a.record + 4, &1u32.to_be_bytes())
        .unwrap();
    fabric.mmio_write(0, page + 0x800, &wrong);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    assert_eq!(
        fabric.reports().get("send doorbell through a foreign page"),
        Some(&1)
    );
    assert_eq!((good, keys.len()), (hosts[0].uar, 2));
}
