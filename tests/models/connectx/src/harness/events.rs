//! Asynchronous events: which occurs when, and that it occurs once.

use super::host::{
    Events, FREE, Host, Pair, connected, fabric, remote_bytes, ring_input, segment_bytes,
};
use crate::Options;
use crate::engine::Fabric;
use crate::layout::command::{self, RING_CTX, op};
use crate::layout::queue::{ring, wq};
use crate::layout::{be32, qp, word};
use crate::memory::GuestMemory;
use crate::objects::Service;

const SEND: u8 = 0x0a;
const WRITE: u8 = 0x08;
const ESTABLISHED: u8 = 0x02;
const CQ_ERROR: u8 = 0x04;
const PORT: u8 = 0x09;
const INVALID_REQUEST: u8 = 0x10;
const ACCESS_ERROR: u8 = 0x11;
const LAST_WQE: u8 = 0x13;
const SRQ_LIMIT: u8 = 0x14;
/// All event types but completions and commands.
const ANY: u64 = 0x1f_02be;

/// The type and object number of each event that has arrived.
fn taken(host: &Host, events: &mut Events) -> Vec<(u8, u32)> {
    std::iter::from_fn(|| host.next_event(events))
        .map(|(kind, _, data)| (kind, be32(&data, 0x18)))
        .collect()
}

/// A shared receive queue of 16 entries of one segment each, in a list, of which `posted` are
/// posted: returns its number and record.
pub(super) fn shared_queue(
    fabric: &mut Fabric,
    host: &mut Host,
    segment: (u32, u32, u64),
    posted: u32,
) -> (u32, u64) {
    let (buffer, record) = (host.pages(1), host.pages(1));
    let input = ring_input(host, op::CREATE_RMP, record, buffer, 4, 5);
    let number = command::NUMBER.get(&host.ok(fabric, &input, 16));
    for slot in 0..16u64 {
        let mut entry = vec![0, 0, 0, (slot as u8 + 1) & 15];
        entry.resize(16, 0);
        entry.extend(segment_bytes(&[segment]));
        host.ram.write(buffer + slot * 32, &entry).unwrap();
    }
    host.ram.write(record, &posted.to_be_bytes()).unwrap();
    (number, record)
}

fn set_limit(fabric: &mut Fabric, host: &Host, number: u32, limit: u32) {
    let mut input = ring_input(host, op::MODIFY_RMP, 0, 0, 4, 5);
    command::NUMBER.set(&mut input, number);
    // Ready, and stays ready.
    ring::STATE.at(RING_CTX).set(&mut input, 1);
    command::CURRENT_STATE.set(&mut input, 1);
    word(0x14).set(&mut input, 1);
    wq::LIMIT.at(RING_CTX + ring::WQ).set(&mut input, limit);
    host.ok(fabric, &input, 16);
}

/// A connected pair whose far side receives from a shared queue.
struct Shared {
    fabric: Fabric,
    hosts: Vec<Host>,
    a: Pair,
    b: Pair,
    key: u32,
    queue: u32,
    events: Events,
}

fn shared(posted: u32) -> Shared {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let events = hosts[1].create_events(&mut fabric, ANY);
    let key = hosts[0].all_rights(&mut fabric);
    let far = hosts[1].all_rights(&mut fabric);
    let (queue, _) = shared_queue(&mut fabric, &mut hosts[1], (64, far, FREE), posted);
    let a = hosts[0].create_qp(&mut fabric, 0);
    let set = [(qp::RQ_TYPE, 1), (qp::SRQN, queue)];
    let b = hosts[1].create_qp_with(&mut fabric, 0, &set);
    hosts[0].connect(&mut fabric, &a, 2, b.qpn);
    hosts[1].connect(&mut fabric, &b, 1, a.qpn);
    Shared {
        fabric,
        hosts,
        a,
        b,
        key,
        queue,
        events,
    }
}

impl Shared {
    fn send(&mut self) {
        let body = segment_bytes(&[(8, self.key, FREE)]);
        self.hosts[0].post_send(&mut self.fabric, &mut self.a, SEND, 0, &body);
    }

    fn events(&mut self) -> Vec<(u8, u32)> {
        taken(&self.hosts[1], &mut self.events)
    }
}

#[test]
fn a_shared_queue_reports_once_that_it_fell_below_its_limit() {
    let mut shared = shared(4);
    set_limit(&mut shared.fabric, &shared.hosts[1], shared.queue, 3);
    shared.send();
    assert_eq!(
        shared.events(),
        [],
        "three are left, which is not below three"
    );
    shared.send();
    assert_eq!(shared.events(), [(SRQ_LIMIT, shared.queue)]);
    shared.send();
    assert_eq!(shared.events(), [], "a limit holds for one event");
    // A limit that the queue is already below.
    set_limit(&mut shared.fabric, &shared.hosts[1], shared.queue, 9);
    assert_eq!(shared.events(), [(SRQ_LIMIT, shared.queue)]);
}

#[test]
fn a_stopped_pair_of_a_shared_queue_takes_its_last_receive_and_says_so_once() {
    let mut shared = shared(4);
    let (qpn, queue) = (shared.b.qpn, shared.queue);
    for _ in 0..2 {
        shared.hosts[1].modify(&mut shared.fabric, op::TO_ERR_QP, qpn, &[]);
        shared.fabric.advance(1 << 30);
    }
    assert_eq!(shared.events(), [(LAST_WQE, qpn)]);
    assert_ne!(queue, 0);
}

#[test]
fn the_first_message_before_the_pair_may_send_establishes_communication() {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let mut events = hosts[1].create_events(&mut fabric, ANY);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let mut a = hosts[0].create_qp(&mut fabric, 0);
    let mut b = hosts[1].create_qp(&mut fabric, 0);
    hosts[0].connect(&mut fabric, &a, 2, b.qpn);
    hosts[1].modify(&mut fabric, op::RST2INIT_QP, b.qpn, &[]);
    let path = (qp::path::LID.at(qp::PRIMARY), 1);
    hosts[1].modify(
        &mut fabric,
        op::INIT2RTR_QP,
        b.qpn,
        &[(qp::REMOTE_QPN, a.qpn), path],
    );
    for _ in 0..2 {
        hosts[1].post_recv(&mut b, &[(8, keys[1], FREE)]);
        let body = segment_bytes(&[(8, keys[0], FREE)]);
        hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    }
    assert_eq!(taken(&hosts[1], &mut events), [(ESTABLISHED, b.qpn)]);
}

#[test]
fn the_port_reports_when_it_goes_down_and_comes_up() {
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let mut events = hosts[0].create_events(&mut fabric, ANY);
    for up in [false, false, true] {
        fabric.set_link(0, up);
    }
    let seen: Vec<_> = std::iter::from_fn(|| hosts[0].next_event(&mut events))
        .map(|(kind, subtype, data)| (kind, subtype, data[8] >> 4))
        .collect();
    assert_eq!(seen, [(PORT, 1, 1), (PORT, 4, 1)]);
}

#[test]
fn a_full_completion_queue_stops_and_its_pairs_with_it() {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let mut events = hosts[0].create_events(&mut fabric, ANY);
    let (mut a, _) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let mut body = remote_bytes(FREE, keys[1]);
    body.extend(segment_bytes(&[(8, keys[0], FREE)]));
    // 256 completions fit, and none is consumed.
    for _ in 0..256 {
        hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
    }
    assert_eq!(taken(&hosts[0], &mut events), []);
    hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
    let (kind, _, data) = hosts[0].next_event(&mut events).unwrap();
    assert_eq!((kind, be32(&data, 0), data[0x0b]), (CQ_ERROR, a.cq.cqn, 1));
    assert!(hosts[0].next_event(&mut events).is_none());
    let mut query = hosts[0].input(op::QUERY_QP);
    command::NUMBER.set(&mut query, a.qpn);
    let reply = hosts[0].ok(&mut fabric, &query, command::PAS);
    assert_eq!(qp::STATE.at(command::qp::QPC).get(&reply), 6);
    assert_eq!(fabric.reports().get("completion queue overrun"), Some(&1));
}

#[test]
fn the_responder_reports_requests_that_it_refuses() {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let mut events = hosts[1].create_events(&mut fabric, ANY);
    for (opcode, address, wanted) in [
        (WRITE, 0x10, ACCESS_ERROR),
        (0x12, FREE + 4, INVALID_REQUEST),
    ] {
        let (mut a, b) = connected(&mut fabric, &mut hosts, Service::Rc);
        let keys = [
            hosts[0].all_rights(&mut fabric),
            hosts[1].all_rights(&mut fabric),
        ];
        let mut body = remote_bytes(address, keys[1]);
        if opcode != WRITE {
            body.extend([0; 16]);
        }
        body.extend(segment_bytes(&[(8, keys[0], FREE)]));
        hosts[0].post_send(&mut fabric, &mut a, opcode, 0, &body);
        assert_eq!(taken(&hosts[1], &mut events), [(wanted, b.qpn)]);
    }
}

#[test]
fn any_event_can_be_requested() {
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let mut events = hosts[0].create_events(&mut fabric, ANY);
    let names: Vec<_> = Fabric::event_names().collect();
    for name in &names {
        assert!(fabric.request_event(0, name, 0x77));
    }
    let seen: Vec<_> = std::iter::from_fn(|| hosts[0].next_event(&mut events)).collect();
    assert_eq!(seen.len(), names.len());
    assert_eq!(seen.iter().filter(|event| event.0 == PORT).count(), 5);
    assert!(!fabric.request_event(0, "earthquake", 0));
}
