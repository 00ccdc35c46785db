//! What memory holds after completions were compressed.

use super::host::{FREE, connected, fabric, segment_bytes};
use crate::Options;
use crate::layout::command::{CTX, op};
use crate::layout::queue::cq;
use crate::layout::{be32, part};
use crate::objects::Service;

const NOP: u8 = 0x00;
const SEND: u8 = 0x0a;
/// What a queue's memory holds before anything is written.
const INVALID: u8 = 0xf0;

#[test]
fn similar_completions_are_compressed_into_a_title_and_arrays() {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let (mut a, mut b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [0, 1].map(|at: usize| hosts[at].all_rights(&mut fabric));
    for (function, cqn, sums) in [(0, a.cq.cqn, 0), (1, b.cq.cqn, 1)] {
        let queue = fabric.devices[function].cqs.get_mut(cqn).unwrap();
        cq::COMPRESSED.set(&mut queue.context, 1);
        cq::MINI_FORMAT.set(&mut queue.context, sums);
    }
    let mut last = Vec::new();
    for number in 0..10u32 {
        hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
        let body = segment_bytes(&[(number + 1, keys[0], FREE)]);
        last = hosts[0].put_send(&mut a, SEND, 0, &body);
    }
    fabric.mmio_write(0, hosts[0].page() + 0x800, &last[..8]);
    for (host, queue, opcode) in [(0usize, &a.cq, 0u8), (1, &b.cq, 2)] {
        let slots: Vec<Vec<u8>> = (0..11)
            .map(|at| hosts[host].bytes(queue.slot(at), 64))
            .collect();
        assert_eq!(
            (slots[0][63], be32(&slots[0], 0x2c)),
            (opcode << 4 | 0xc, 10)
        );
        for at in [2, 3, 4, 5, 6, 7, 9, 10] {
            assert_eq!(slots[at][63], INVALID, "slot {at}");
        }
        for number in 0..10usize {
            let array = if number < 8 { 1 } else { 8 };
            let mini = part(&slots[array], number % 8 * 8, 8);
            if opcode == 0 {
                let step = be32(&slots[0], 0x3c) >> 16;
                let counter = step + number as u32;
                assert_eq!(be32(&mini, 0), counter << 16 | u32::from(SEND) << 8);
            } else {
                assert_eq!(be32(&mini, 4), number as u32 + 1);
            }
        }
    }
    // A single completion, and a failed one, are written as always.
    hosts[0].post_send(&mut fabric, &mut a, NOP, 0, &[]);
    let single = hosts[0].bytes(a.cq.slot(10), 64);
    assert_eq!(single[63], 0);
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
}

#[test]
fn unknown_layouts_are_refused() {
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let host = &mut hosts[0];
    let (buffer, record) = (host.pages(1), host.pages(1));
    for (field, value) in [(cq::MINI_FORMAT, 3), (cq::COMPRESSION_LAYOUT, 1)] {
        let mut input = host.cq_input(4, buffer, record);
        assert_eq!(input[..2], op::CREATE_CQ.to_be_bytes());
        cq::COMPRESSED.at(CTX).set(&mut input, 1);
        host.ok(&mut fabric, &input, 16);
        field.at(CTX).set(&mut input, value);
        host.refused(&mut fabric, &input);
    }
}
