//! Frames from a raw send queue to a raw receive queue, through flow tables.

use super::host::{Completions, FREE, Host, fabric_of, ring_input, segment_bytes};
use crate::engine::Fabric;
use crate::layout::command::{self, CURRENT_STATE, RING_CTX, op};
use crate::layout::queue::ring;
use crate::layout::transport::{tir, tis};
use crate::layout::{be16, be32, field, put, word};
use crate::memory::GuestMemory;
use crate::status::Rule;
use crate::{FunctionKind, Options};

const READY: u32 = 1;

/// A raw ring in the ready state: number, buffer, record and completion queue.
fn raw_ring(fabric: &mut Fabric, host: &mut Host, send: bool) -> (u32, u64, u64, Completions) {
    let cq = host.create_cq(fabric, 6);
    let (buffer, record) = (host.pages(1), host.pages(1));
    let (create, modify) = if send {
        (op::CREATE_SQ, op::MODIFY_SQ)
    } else {
        (op::CREATE_RQ, op::MODIFY_RQ)
    };
    let mut input = ring_input(host, create, record, buffer, 4, if send { 6 } else { 5 });
    ring::CQN.at(RING_CTX).set(&mut input, cq.cqn);
    let number = command::NUMBER.get(&host.ok(fabric, &input, 16));
    let mut input = ring_input(host, modify, record, buffer, 4, 6);
    command::NUMBER.set(&mut input, number);
    ring::STATE.at(RING_CTX).set(&mut input, READY);
    host.ok(fabric, &input, 16);
    CURRENT_STATE.set(&mut input, 0);
    assert_eq!(
        host.refused(fabric, &input).1,
        Rule::RingState as u32,
        "it is ready already"
    );
    (number, buffer, record, cq)
}

/// Steers frames for `mac` to a receive queue; returns the flow table.
fn steer(fabric: &mut Fabric, host: &Host, mac: [u8; 6], rqn: u32) -> u32 {
    let domain = host.number(fabric, op::ALLOC_TRANSPORT_DOMAIN);
    let mut input = host.input(op::CREATE_TIR);
    input.resize(RING_CTX + tir::LEN, 0);
    tir::INLINE_RQN.at(RING_CTX).set(&mut input, rqn);
    tir::TD.at(RING_CTX).set(&mut input, domain);
    let tirn = command::NUMBER.get(&host.ok(fabric, &input, 16));
    let mut input = host.input(op::CREATE_FLOW_TABLE);
    input.resize(0x40, 0);
    field(0x18, 7, 0).set(&mut input, 2);
    let table = command::NUMBER.get(&host.ok(fabric, &input, 16));
    let named = |opcode, length: usize| {
        let mut input = host.input(opcode);
        input.resize(length, 0);
        field(0x14, 23, 0).set(&mut input, table);
        input
    };
    host.ok(fabric, &named(op::SET_FLOW_TABLE_ROOT, 0x40), 16);
    let mut group = named(op::CREATE_FLOW_GROUP, 0x400);
    put(&mut group, 0x40 + 0x08, &[0xff; 6]);
    let group = command::NUMBER.get(&host.ok(fabric, &group, 16));
    let mut entry = named(op::SET_FLOW_TABLE_ENTRY, 0x348);
    word(0x44).set(&mut entry, group);
    word(0x48).set(&mut entry, 0x55);
    word(0x4c).set(&mut entry, 4);
    word(0x50).set(&mut entry, 1);
    put(&mut entry, 0x80 + 0x08, &mac);
    word(0x340).set(&mut entry, 2 << 24 | tirn);
    host.ok(fabric, &entry, 16);
    word(0x20).set(&mut entry, 9);
    assert_eq!(
        host.refused(fabric, &entry).1,
        Rule::OutOfRange as u32,
        "the table has four entries"
    );
    table
}

#[test]
fn a_frame_reaches_the_queue_that_its_address_is_steered_to() {
    let (mut fabric, mut hosts) = fabric_of(FunctionKind::EthernetRaw, 2, Options::default());
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let (rqn, ring, record, mut received) = raw_ring(&mut fabric, &mut hosts[1], false);
    let mac = [2, 0, 0, 0, 0, 9];
    steer(&mut fabric, &hosts[1], mac, rqn);
    let mut entry = segment_bytes(&[(2048, keys[1], FREE), (0, 0x100, 0)]);
    entry.resize(32, 0);
    hosts[1].ram.write(ring, &entry).unwrap();
    hosts[1].ram.write(record, &1u32.to_be_bytes()).unwrap();

    let (sqn, ring, record, mut sent) = raw_ring(&mut fabric, &mut hosts[0], true);
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..20].copy_from_slice(b"frames");
    hosts[0].ram.write(FREE, &frame).unwrap();
    let mut send = |fabric: &mut Fabric, index: u32| {
        let mut wqe = vec![0; 32];
        word(0).set(&mut wqe, index << 8 | 0x0a);
        word(4).set(&mut wqe, sqn << 8 | 3);
        word(8).set(&mut wqe, 8);
        wqe.extend(segment_bytes(&[(60, keys[0], FREE)]));
        hosts[0]
            .ram
            .write(ring + u64::from(index) * 64, &wqe)
            .unwrap();
        hosts[0]
            .ram
            .write(record + 4, &(index + 1).to_be_bytes())
            .unwrap();
        fabric.mmio_write(0, (u64::from(hosts[0].uar) << 12) + 0x900, &wqe[..8]);
        hosts[0].poll(&mut sent).unwrap().opcode
    };
    assert_eq!(send(&mut fabric, 0), 0);
    let got = hosts[1].poll(&mut received).unwrap();
    assert_eq!(
        (got.opcode, got.bytes, be32(&got.entry, 0x38) & 0xff_ffff),
        (2, 60, 0x55)
    );
    assert_eq!(hosts[1].bytes(FREE, 60), frame);
    // No receive is posted any more: the next frame is lost, and the sender does not notice.
    assert_eq!(send(&mut fabric, 1), 0);
    assert!(hosts[1].poll(&mut received).is_none());
}

#[test]
fn a_send_queue_needs_what_it_names() {
    let (mut fabric, hosts) = fabric_of(FunctionKind::EthernetRaw, 1, Options::default());
    let mut input = ring_input(&hosts[0], op::CREATE_SQ, 0, 0, 4, 6);
    ring::CQN.at(RING_CTX).set(&mut input, 0x999);
    assert_eq!(
        hosts[0].refused(&mut fabric, &input).1,
        Rule::NoSuchObject as u32
    );
    let mut input = hosts[0].input(op::CREATE_TIS);
    input.resize(RING_CTX + tis::LEN, 0);
    tis::TD.at(RING_CTX).set(&mut input, 77);
    assert_eq!(
        hosts[0].refused(&mut fabric, &input).1,
        Rule::NoSuchObject as u32
    );
    assert_eq!(be16(&input, 0), op::CREATE_TIS);
}
