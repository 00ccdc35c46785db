//! Work requests copied through a doorbell page.

use super::host::{FREE, Host, Pair, connected, fabric_from, segment_bytes};
use crate::engine::Fabric;
use crate::layout::caps::general;
use crate::layout::command::{self, op};
use crate::layout::{part, word};
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::{Doorbells, FunctionConfig, FunctionKind, Options};

const NOP: u8 = 0x00;
const SEND: u8 = 0x0a;
/// Longer than the model waits for the rest of a copy.
const LATER: u64 = 60_000_000;

fn setup(blueflame: bool) -> (Fabric, Vec<Host>, Pair, Pair, [u32; 2]) {
    let configs = (0..2).map(|index| FunctionConfig {
        blueflame,
        ..FunctionConfig::numbered(FunctionKind::InfiniBand, index)
    });
    let (mut fabric, mut hosts) = fabric_from(configs, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    (fabric, hosts, a, b, keys)
}

/// The inline data of a send.
fn inline(text: &[u8]) -> Vec<u8> {
    let mut body = (1 << 31 | text.len() as u32).to_be_bytes().to_vec();
    body.extend(text);
    body
}

/// Copies a work request as a processor without write combining does: eight bytes at a time.
fn copy(fabric: &mut Fabric, host: &Host, buffer: u64, wqe: &[u8]) {
    for (i, chunk) in wqe.chunks(8).enumerate() {
        fabric.mmio_write(host.function, host.page() + buffer + i as u64 * 8, chunk);
    }
}

#[test]
fn the_capability_is_there_when_requested() {
    for blueflame in [false, true] {
        let (mut fabric, hosts, ..) = setup(blueflame);
        let mut input = hosts[0].input(op::QUERY_HCA_CAP);
        command::OP_MOD.set(&mut input, 1);
        let page = part(&hosts[0].ok(&mut fabric, &input, 0x1010), 0x10, 0x1000);
        assert_eq!(general::BLUEFLAME.get(&page), u32::from(blueflame));
        assert_eq!(general::LOG_BF_REG_SIZE.get(&page), 9);
    }
}

#[test]
fn copies_through_alternating_buffers_are_carried_out_in_order() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(true);
    for round in 0..6u8 {
        hosts[1].post_recv(&mut b, &[(128, keys[1], FREE)]);
        // One block, then two.
        let text = vec![round; if round % 2 == 0 { 20 } else { 90 }];
        let wqe = hosts[0].put_send(&mut a, SEND, 0, &inline(&text));
        let buffer = 0xa00 + u64::from(round % 2) * 0x100;
        copy(&mut fabric, &hosts[0], buffer, &wqe);
        // The page is not known to receive copies before the second chunk of the first one.
        assert_eq!(hosts[1].bytes(FREE, text.len()), text);
        assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    }
    let Doorbells {
        plain,
        copies,
        partial,
    } = fabric.doorbells();
    assert_eq!((plain, copies, partial), (1, 5, 0));
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
}

#[test]
fn one_wide_write_is_a_copy_and_is_used_instead_of_the_ring() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(true);
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    let mut wqe = hosts[0].put_send(&mut a, SEND, 0, &inline(b"ring"));
    wqe[20..24].copy_from_slice(b"copy");
    fabric.mmio_write(0, hosts[0].page() + 0x900, &wqe);
    assert_eq!(hosts[1].bytes(FREE, 4), b"copy");
    assert_eq!(fabric.reports().get("BlueFlame copy"), Some(&1));
}

#[test]
fn a_doorbell_without_a_copy_is_not_held_up_for_long() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(true);
    let body = segment_bytes(&[(8, keys[0], FREE)]);
    let wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
    fabric.mmio_write(0, hosts[0].page() + 0x800, &wqe);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    // The page is known to receive copies now.
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    let deadline = fabric.next_deadline().unwrap();
    assert!(deadline < LATER / 10);
    fabric.advance(deadline);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(fabric.next_deadline(), None);

    // Half a copy: the ring has the rest.
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    let wqe = hosts[0].put_send(&mut a, SEND, 0, &inline(b"partly copied"));
    copy(&mut fabric, &hosts[0], 0x800, &wqe[..40]);
    fabric.advance(LATER);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(hosts[1].bytes(FREE, 13), b"partly copied");

    // The next doorbell also ends the wait.
    for _ in 0..2 {
        hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
        hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(fabric.doorbells().partial, 1);
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
}

#[test]
fn a_copy_that_has_begun_is_waited_for_although_the_host_is_slow() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(true);
    let wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
    fabric.mmio_write(0, hosts[0].page() + 0x800, &wqe);
    hosts[0].poll(&mut a.cq).unwrap();
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    let wqe = hosts[0].put_send(&mut a, SEND, 0, &inline(b"slowly copied"));
    let mut now = 0;
    for (i, chunk) in wqe.chunks(8).enumerate() {
        fabric.mmio_write(0, hosts[0].page() + 0x900 + i as u64 * 8, chunk);
        now += if i == 0 { 0 } else { LATER / 10 };
        fabric.advance(now);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(hosts[1].bytes(FREE, 13), b"slowly copied");
    assert_eq!(
        (fabric.doorbells().copies, fabric.doorbells().partial),
        (2, 0)
    );
}

#[test]
fn a_probe_for_write_combining_sees_that_copies_arrive() {
    for blueflame in [false, true] {
        let (mut fabric, hosts, mut a, ..) = setup(blueflame);
        let mut seen = Vec::new();
        for round in 0..8u64 {
            // Only the copy requests a completion; in the ring only the last request does.
            let mut wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
            let ring = a.buffer + 1024 + u64::from(a.posted - 1) * 64;
            hosts[0]
                .ram
                .write(ring + 11, &[if round == 7 { 8 } else { 0 }])
                .unwrap();
            word(8).set(&mut wqe, 8);
            copy(&mut fabric, &hosts[0], 0x800 ^ (round & 1) << 8, &wqe);
            while let Some(done) = hosts[0].poll(&mut a.cq) {
                seen.push(done.entry[0x3d]);
            }
        }
        let first = if blueflame { 1 } else { 7 };
        assert_eq!(seen, (first..8).collect::<Vec<u8>>());
        assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
    }
}

#[test]
fn requests_without_a_doorbell_wait_for_their_copy() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(true);
    for _ in 0..2 {
        hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    }
    // The record runs ahead of the doorbells, as it does when doorbells are slow.
    let first = hosts[0].put_send(&mut a, SEND, 0, &inline(b"one"));
    let mut second = hosts[0].put_send(&mut a, SEND, 0, &inline(b"ring"));
    second[20..24].copy_from_slice(b"copy");
    fabric.mmio_write(0, hosts[0].page() + 0x800, &first);
    assert!(hosts[0].poll(&mut a.cq).is_some() && hosts[0].poll(&mut a.cq).is_none());
    fabric.mmio_write(0, hosts[0].page() + 0x900, &second);
    assert!(hosts[0].poll(&mut a.cq).is_some());
    assert_eq!(hosts[1].bytes(FREE, 4), b"copy");
}

#[test]
fn without_the_capability_only_the_first_eight_bytes_count() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(false);
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    let mut wqe = hosts[0].put_send(&mut a, SEND, 0, &inline(b"ring"));
    wqe[20..24].copy_from_slice(b"copy");
    copy(&mut fabric, &hosts[0], 0x800, &wqe);
    assert_eq!(hosts[1].bytes(FREE, 4), b"ring");
    assert_eq!(fabric.doorbells().copies, 0);
}

#[test]
fn a_doorbell_may_come_in_two_halves() {
    let (mut fabric, hosts, mut a, ..) = setup(false);
    let wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
    fabric.mmio_write(0, hosts[0].page() + 0x900, &wqe[..4]);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    fabric.mmio_write(0, hosts[0].page() + 0x904, &wqe[4..8]);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
}
