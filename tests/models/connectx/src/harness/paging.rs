//! Absent pages, and the events and commands by which they are provided.

use super::events::shared_queue;
use super::host::{Events, FREE, Host, Pair, connected, fabric_from, remote_bytes, segment_bytes};
use crate::engine::Fabric;
use crate::layout::command::{self, CTX, PAS, op};
use crate::layout::queue::mkey;
use crate::layout::{Field, be16, be32, be64, bit, field, qp, word};
use crate::memory::GuestMemory;
use crate::memory_key::NULL_KEY;
use crate::objects::Service;
use crate::{FunctionConfig, FunctionKind, Options};

const SEND: u8 = 0x0a;
const WRITE: u8 = 0x08;
const READ: u8 = 0x10;
const UMR: u8 = 0x25;
const PAGE_FAULT: u8 = 0x0c;
const LIST: u64 = FREE + 0x8000;
const START: u64 = 0x7000_0000;
/// Three pages of memory.
const PAGES: [u64; 3] = [FREE + 0x1_0000, FREE + 0x1_3000, FREE + 0x1_1000];

struct Paged {
    fabric: Fabric,
    hosts: Vec<Host>,
    a: Pair,
    b: Pair,
    umr: [Pair; 2],
    events: Vec<Events>,
    /// Keys of all memory.
    keys: [u32; 2],
    now: u64,
}

fn setup(heard: bool) -> Paged {
    let configs = (0..2).map(|index| FunctionConfig {
        umr: true,
        paging: true,
        ..FunctionConfig::numbered(FunctionKind::InfiniBand, index)
    });
    let (mut fabric, mut hosts) = fabric_from(configs, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [0, 1].map(|i| hosts[i].all_rights(&mut fabric));
    let umr = [0, 1].map(|i| hosts[i].create_qp(&mut fabric, 0xc));
    for (host, pair) in hosts.iter().zip(&umr) {
        host.connect(&mut fabric, pair, 0, 0);
    }
    let mask = if heard { 1 << PAGE_FAULT } else { 0 };
    let events = hosts
        .iter_mut()
        .map(|host| host.create_events(&mut fabric, mask))
        .collect();
    Paged {
        fabric,
        hosts,
        a,
        b,
        umr,
        events,
        keys,
        now: 1,
    }
}

impl Paged {
    /// A key at `START` for pages whose entries carry their access rights.
    fn key(&mut self, side: usize, entries: &[u64]) -> u32 {
        let host = &self.hosts[side];
        let mut input = key_input(host, 1, 12);
        bit(0x0c, 31).set(&mut input, 1);
        mkey::START.at(CTX).set(&mut input, START);
        mkey::LENGTH
            .at(CTX)
            .set(&mut input, entries.len() as u64 * 4096);
        let count = entries.len().div_ceil(2);
        command::mkey::ACTUAL_OCTOWORDS.set(&mut input, count as u32);
        mkey::OCTOWORDS
            .at(CTX)
            .set(&mut input, count.next_multiple_of(4) as u32);
        for entry in entries.iter().chain([0; 1].iter()).take(2 * count) {
            input.extend(entry.to_be_bytes());
        }
        command::NUMBER.get(&host.ok(&mut self.fabric, &input, 16)) << 8 | 0x42
    }

    /// Loads entries of a key from octoword `first` on, as the kernel does.
    fn load(&mut self, side: usize, key: u32, first: u16, list: &[u8]) {
        let host = &self.hosts[side];
        host.ram.write(LIST, list).unwrap();
        let mut body = vec![0; 48 + mkey::LEN];
        body[0] = 1 << 4 | 2 << 5;
        body[4..6].copy_from_slice(&(list.len() as u16 / 16).to_be_bytes());
        body[6..8].copy_from_slice(&first.to_be_bytes());
        body.extend(segment_bytes(&[(list.len() as u32, self.keys[side], LIST)]));
        host.post_send(&mut self.fabric, &mut self.umr[side], UMR, key, &body);
        let done = host.poll(&mut self.umr[side].cq).unwrap();
        assert_eq!(done.opcode, 0);
    }

    fn pages(&mut self, side: usize, key: u32, entries: &[u64]) {
        let list: Vec<u8> = entries.iter().flat_map(|page| page.to_be_bytes()).collect();
        self.load(side, key, 0, &list);
    }

    fn fault(&mut self, side: usize) -> Option<(u8, Vec<u8>)> {
        let (kind, subtype, data) = self.hosts[side].next_event(&mut self.events[side])?;
        assert_eq!(kind, PAGE_FAULT);
        Some((subtype, data))
    }

    fn resume(&mut self, side: usize, queue: u32, token: u32, failed: bool) {
        let mut input = self.hosts[side].input(op::PAGE_FAULT_RESUME);
        bit(0x08, 31).set(&mut input, u32::from(failed));
        field(0x08, 23, 0).set(&mut input, queue);
        word(0x0c).set(&mut input, token);
        self.hosts[side].ok(&mut self.fabric, &input, 16);
        self.now += 1_000_000;
        self.fabric.advance(self.now);
    }

    fn post(&mut self, opcode: u8, remote: Option<(u64, u32)>, segment: (u32, u32, u64)) {
        let mut body = remote.map_or(Vec::new(), |(at, key)| remote_bytes(at, key));
        body.extend(segment_bytes(&[segment]));
        self.hosts[0].post_send(&mut self.fabric, &mut self.a, opcode, 0, &body);
    }

    /// The syndrome of the next completion on the sending side.
    fn done(&mut self) -> Option<u8> {
        let done = self.hosts[0].poll(&mut self.a.cq)?;
        Some(if done.opcode == 0 { 0 } else { done.syndrome })
    }
}

fn key_input(host: &Host, mode: u32, log_page: u32) -> Vec<u8> {
    let mut input = host.input(op::CREATE_MKEY);
    input.resize(PAS, 0);
    let fields: [(Field, u32); 9] = [
        (mkey::MODE_LOW, mode),
        (mkey::QPN, 0xff_ffff),
        (mkey::KEY, 0x42),
        (mkey::PD, host.pd),
        (mkey::LOG_PAGE, log_page),
        (mkey::LOCAL_READ, 1),
        (mkey::LOCAL_WRITE, 1),
        (mkey::REMOTE_READ, 1),
        (mkey::REMOTE_WRITE, 1),
    ];
    for (field, value) in fields {
        field.at(CTX).set(&mut input, value);
    }
    input
}

#[test]
fn a_request_waits_for_the_pages_it_is_sent_from() {
    let mut p = setup(true);
    let key = p.key(0, &[PAGES[0] | 3, 0, 0]);
    p.hosts[0].ram.write(PAGES[0], &[1; 4096]).unwrap();
    p.hosts[0].ram.write(PAGES[1], &[2; 4096]).unwrap();
    // A page that is present needs no event.
    p.post(WRITE, Some((FREE, p.keys[1])), (4096, key, START));
    assert_eq!((p.done(), p.fault(0)), (Some(0), None));
    p.post(WRITE, Some((FREE, p.keys[1])), (200, key, START + 4000));
    assert_eq!(p.done(), None);
    let (subtype, data) = p.fault(0).unwrap();
    assert_eq!((subtype, be32(&data, 0)), (0, 0));
    assert_eq!(be32(&data, 4), 1, "the second request");
    assert_eq!(be32(&data, 0x18), 1 << 24 | p.a.qpn);
    let token = be32(&data, 0x0c);
    // Answered without the page, the device requests it again, once.
    p.resume(0, p.a.qpn, token, false);
    assert_eq!(p.done(), None);
    let (_, data) = p.fault(0).unwrap();
    assert_ne!(be32(&data, 0x0c), token);
    assert_eq!(p.fault(0), None);
    p.pages(0, key, &[PAGES[0] | 3, PAGES[1] | 1, 0, 0]);
    p.resume(0, p.a.qpn, be32(&data, 0x0c), false);
    assert_eq!(p.done(), Some(0));
    let got = p.hosts[1].bytes(FREE, 200);
    assert_eq!((got[95], got[96], got[199]), (1, 2, 2));
    // A read-only page counts as absent for writing.
    p.post(READ, Some((FREE, p.keys[1])), (8, key, START + 4096));
    let (_, data) = p.fault(0).unwrap();
    assert_eq!(be32(&data, 0x18), 3 << 24 | p.a.qpn);
    p.pages(0, key, &[PAGES[0] | 3, PAGES[1] | 3, 0, 0]);
    p.resume(0, p.a.qpn, be32(&data, 0x0c), false);
    assert_eq!((p.done(), p.fault(0)), (Some(0), None));
    assert_eq!(p.fabric.page_faults(0), 3);
    assert!(p.fabric.reports().is_empty(), "{:?}", p.fabric.reports());
}

#[test]
fn a_request_whose_page_cannot_come_fails_and_what_follows_is_flushed() {
    let mut p = setup(true);
    let key = p.key(0, &[0]);
    for _ in 0..2 {
        p.post(WRITE, Some((FREE, p.keys[1])), (8, key, START));
    }
    let (_, data) = p.fault(0).unwrap();
    p.resume(0, p.a.qpn, be32(&data, 0x0c), true);
    assert_eq!((p.done(), p.done()), (Some(0x04), Some(0x05)));
    assert_eq!(p.fault(0), None);
}

#[test]
fn a_peer_waits_for_pages_and_is_refused_those_that_cannot_come() {
    let mut p = setup(true);
    let key = p.key(1, &[PAGES[0] | 3, 0]);
    p.post(WRITE, Some((START + 4090, key)), (10, p.keys[0], FREE));
    p.now += 10_000_000;
    p.fabric.advance(p.now);
    assert_eq!(p.done(), None);
    let (subtype, data) = p.fault(1).unwrap();
    assert_eq!((subtype, p.fault(1)), (1, None));
    let said = (be32(&data, 4), be32(&data, 12), be64(&data, 16));
    assert_eq!(said, (key, 10, START + 4090));
    assert_eq!((be32(&data, 0x18) >> 24, be32(&data, 8)), (6, 10));
    let token = be32(&data, 0x18) & 0xff_ffff;
    // Not the page fault that was reported, and not one that anything waits for.
    p.resume(1, token + 1, token, false);
    assert_eq!(
        p.fabric.reports().into_iter().collect::<Vec<_>>(),
        [("page fault resumed for another queue", 1)]
    );
    p.resume(1, 0x7777, 0x7777, true);
    assert_eq!(p.done(), None);
    p.pages(1, key, &[PAGES[0] | 3, PAGES[1] | 3, 0, 0]);
    p.resume(1, token, token, false);
    assert_eq!(p.done(), Some(0));
    p.pages(1, key, &[0; 4]);
    p.post(READ, Some((START, key)), (10, p.keys[0], FREE));
    let (_, data) = p.fault(1).unwrap();
    assert_eq!(be32(&data, 0x18) >> 24, 4);
    let token = be32(&data, 0x18) & 0xff_ffff;
    p.resume(1, token, token, true);
    assert_eq!(p.done(), Some(0x13));
}

#[test]
fn a_receive_is_put_back_until_its_pages_are_there() {
    let mut p = setup(true);
    let key = p.key(1, &[0, PAGES[1] | 3]);
    p.hosts[1].post_recv(&mut p.b, &[(8, p.keys[1], FREE), (100, key, START)]);
    p.hosts[1].post_recv(&mut p.b, &[(100, key, START + 4096)]);
    p.hosts[0].ram.write(FREE, &[9; 64]).unwrap();
    p.post(SEND, None, (64, p.keys[0], FREE));
    let (subtype, data) = p.fault(1).unwrap();
    assert_eq!((subtype, be32(&data, 4)), (0, 0));
    assert_eq!(be32(&data, 0x18), 2 << 24 | p.b.qpn);
    assert_eq!(p.done(), None);
    p.pages(1, key, &[PAGES[0] | 3, PAGES[1] | 3, 0, 0]);
    p.resume(1, p.b.qpn, be32(&data, 0x0c), false);
    assert_eq!(p.done(), Some(0));
    let received = p.hosts[1].poll(&mut p.b.cq).unwrap();
    assert_eq!((received.opcode, received.bytes), (2, 64));
    assert_eq!(
        p.hosts[1].bytes(PAGES[0], 57),
        [&[9; 56][..], &[0]].concat()
    );
    // The second is the next one, and fails permanently.
    p.pages(1, key, &[0; 4]);
    p.post(SEND, None, (64, p.keys[0], FREE));
    let (_, data) = p.fault(1).unwrap();
    assert_eq!(be32(&data, 4), 1);
    p.resume(1, p.b.qpn, be32(&data, 0x0c), true);
    assert_eq!(p.done(), Some(0x14));
    let received = p.hosts[1].poll(&mut p.b.cq).unwrap();
    assert_eq!((received.opcode, received.syndrome), (0x0e, 0x04));
}

#[test]
fn a_shared_receive_is_used_up_and_the_message_takes_another() {
    let mut p = setup(true);
    let key = p.key(1, &[0]);
    let segment = (64, key, START);
    let (queue, record) = shared_queue(&mut p.fabric, &mut p.hosts[1], segment, 1);
    let set = [(qp::RQ_TYPE, 1), (qp::SRQN, queue)];
    p.a = p.hosts[0].create_qp(&mut p.fabric, 0);
    p.b = p.hosts[1].create_qp_with(&mut p.fabric, 0, &set);
    p.hosts[0].connect(&mut p.fabric, &p.a, 2, p.b.qpn);
    p.hosts[1].connect(&mut p.fabric, &p.b, 1, p.a.qpn);
    p.hosts[0].ram.write(FREE, &[9; 64]).unwrap();
    p.post(SEND, None, (64, p.keys[0], FREE));
    let (subtype, data) = p.fault(1).unwrap();
    assert_eq!((subtype, be32(&data, 4), be32(&data, 0x18)), (0, 0, queue));
    let fault = p.hosts[1].poll(&mut p.b.cq).unwrap();
    assert_eq!((fault.opcode, be16(&fault.entry, 0x3c)), (0x0e, 0));
    assert_eq!((fault.syndrome, fault.entry[54]), (0x22, 0x93));
    p.pages(1, key, &[PAGES[0] | 3, 0, 0, 0]);
    p.resume(1, queue, be32(&data, 0x0c), false);
    assert_eq!(p.done(), None, "the queue is empty");
    p.hosts[1].ram.write(record, &2_u32.to_be_bytes()).unwrap();
    p.now += 1 << 30;
    p.fabric.advance(p.now);
    assert_eq!(p.done(), Some(0));
    let received = p.hosts[1].poll(&mut p.b.cq).unwrap();
    assert_eq!((received.opcode, received.bytes), (2, 64));
    assert_eq!(be16(&received.entry, 0x3c), 1);
    assert_eq!(p.hosts[1].bytes(PAGES[0], 64), [9; 64]);
    assert!(p.fabric.reports().is_empty(), "{:?}", p.fabric.reports());
}

#[test]
fn a_list_of_keys_is_filled_part_by_part() {
    let mut p = setup(true);
    let mut input = key_input(&p.hosts[0], 3, 20);
    mkey::LENGTH64.at(CTX).set(&mut input, 1);
    mkey::OCTOWORDS.at(CTX).set(&mut input, 16);
    let list = command::NUMBER.get(&p.hosts[0].ok(&mut p.fabric, &input, 16)) << 8 | 0x42;
    let null = segment_bytes(&[(0, NULL_KEY, 0); 8]);
    p.load(0, list, 0, &null);
    p.load(0, list, 8, &null);
    // The child key has addresses of its own; the list's second mebibyte refers to it.
    let child = p.key(0, &[PAGES[0] | 3, PAGES[1] | 3]);
    p.hosts[0].ram.write(PAGES[1] + 4, &[7; 8]).unwrap();
    let segment = (8, list, 9 << 20 | 0x1004);
    p.post(WRITE, Some((FREE, p.keys[1])), segment);
    let (_, data) = p.fault(0).unwrap();
    p.load(
        0,
        list,
        8,
        &segment_bytes(&[
            (0, NULL_KEY, 0),
            (0, child, START),
            (0, NULL_KEY, 0),
            (0, NULL_KEY, 0),
        ]),
    );
    p.resume(0, p.a.qpn, be32(&data, 0x0c), false);
    assert_eq!(p.done(), Some(0));
    assert_eq!(p.hosts[1].bytes(FREE, 8), [7; 8]);
    // The last entry is unchanged, and nothing is beyond it.
    p.post(WRITE, Some((FREE, p.keys[1])), (8, list, 15 << 20));
    let (_, data) = p.fault(0).unwrap();
    p.resume(0, p.a.qpn, be32(&data, 0x0c), true);
    assert_eq!(p.done(), Some(0x04));
}

#[test]
fn without_a_fault_handler_work_fails_at_once() {
    let mut p = setup(false);
    let key = p.key(0, &[0]);
    p.post(WRITE, Some((FREE, p.keys[1])), (8, key, START));
    assert_eq!(p.done(), Some(0x04));
    // The null key may only be used in lists.
    let mut p = setup(true);
    p.post(WRITE, Some((FREE, p.keys[1])), (8, NULL_KEY, FREE));
    assert_eq!((p.done(), p.fault(0)), (Some(0x04), None));
}

#[test]
fn a_queue_that_is_reset_waits_no_more() {
    let mut p = setup(true);
    let key = p.key(0, &[0]);
    p.post(WRITE, Some((FREE, p.keys[1])), (8, key, START));
    let (_, data) = p.fault(0).unwrap();
    p.hosts[0].modify(&mut p.fabric, op::TO_ERR_QP, p.a.qpn, &[]);
    assert_eq!(p.done(), Some(0x05));
    p.resume(0, p.a.qpn, be32(&data, 0x0c), false);
    assert_eq!(p.done(), None);
    assert!(p.fabric.reports().is_empty());
}
