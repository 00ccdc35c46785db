//! What a correct driver would not do: each is reported by its kind, and a strict server ends
//! because of it.

use super::host::{FREE, Host, Pair, connected, fabric, remote_bytes, segment_bytes};
use crate::Options;
use crate::engine::Fabric;
use crate::layout::command::{self, op};
use crate::layout::queue::mkey;
use crate::layout::word;
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::serve::judge;
use crate::status::Rule;

const NOP: u8 = 0x00;
const SEND: u8 = 0x0a;
const WRITE: u8 = 0x08;

fn setup() -> (Fabric, Vec<Host>, Pair, Pair, [u32; 2]) {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    assert!(judge(&fabric).is_ok());
    (fabric, hosts, a, b, keys)
}

fn assert_reported(fabric: &Fabric, kind: &str) {
    let reports = fabric.reports();
    assert_eq!(reports.get(kind), Some(&1), "{kind}: {reports:?}");
    let end = judge(fabric).map_err(|error| error.to_string());
    assert!(end.is_err_and(|seen| seen.contains(kind)), "{kind}");
}

#[test]
fn only_expected_reports_are_tolerated() {
    const KIND: &str = "send doorbell before its record";
    let provoke = |fabric: &mut Fabric, hosts: &[Host], a: &mut Pair| {
        let wqe = hosts[0].put_send(a, NOP, 0, &[]);
        hosts[0].ram.write(a.record + 4, &[0; 4]).unwrap();
        fabric.mmio_write(0, hosts[0].page() + 0x800, &wqe[..8]);
    };
    let (mut fabric, hosts, mut a, ..) = setup();
    fabric.expect_reports("foreign page");
    fabric.expect_reports("before its record");
    provoke(&mut fabric, &hosts, &mut a);
    assert_eq!(fabric.reports().get(KIND), Some(&1));
    assert!(judge(&fabric).is_ok());
    // What was permitted stays permitted; what comes later is not.
    fabric.expect_reports("");
    assert!(judge(&fabric).is_ok());
    provoke(&mut fabric, &hosts, &mut a);
    let end = judge(&fabric).map_err(|error| error.to_string());
    assert!(end.is_err_and(|seen| seen.contains(KIND)));
}

#[test]
fn doorbells_through_foreign_pages() {
    let (mut fabric, hosts, mut a, ..) = setup();
    let foreign = hosts[0].page() + 0x1000;
    let wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
    fabric.mmio_write(0, foreign + 0x800, &wqe[..8]);
    assert!(hosts[0].poll(&mut a.cq).is_none(), "it is ignored");
    assert_reported(&fabric, "send doorbell through a foreign page");

    let (mut fabric, hosts, a, ..) = setup();
    let mut arm = 0u32.to_be_bytes().to_vec();
    arm.extend(a.cq.cqn.to_be_bytes());
    fabric.mmio_write(0, foreign + 0x20, &arm);
    assert_reported(&fabric, "CQ doorbell through a foreign page");

    let (mut fabric, ..) = setup();
    let value = (hosts[0].eqn << 24).to_be_bytes();
    fabric.mmio_write(0, foreign + 0x40, &value);
    assert_reported(&fabric, "EQ doorbell through a foreign page");
}

#[test]
fn a_doorbell_before_its_record() {
    let (mut fabric, hosts, mut a, ..) = setup();
    let wqe = hosts[0].put_send(&mut a, NOP, 0, &[]);
    hosts[0].ram.write(a.record + 4, &[0; 4]).unwrap();
    fabric.mmio_write(0, hosts[0].page() + 0x800, &wqe[..8]);
    assert!(hosts[0].poll(&mut a.cq).is_none(), "it is not there yet");
    assert_reported(&fabric, "send doorbell before its record");
}

/// Posts a request with one byte changed.
fn send_changed(at: usize, change: impl Fn(u8) -> u8) -> Fabric {
    let (mut fabric, hosts, mut a, _, keys) = setup();
    let mut body = remote_bytes(FREE, keys[1]);
    body.extend(segment_bytes(&[(8, keys[0], FREE)]));
    let place = a.buffer + 1024 + at as u64;
    let wqe = hosts[0].put_send(&mut a, WRITE, 0, &body);
    hosts[0].ram.write(place, &[change(wqe[at])]).unwrap();
    fabric.mmio_write(0, hosts[0].page() + 0x800, &wqe[..8]);
    fabric
}

#[test]
fn malformed_work_requests_are_reported() {
    for (at, change, kind) in [
        (7, 0x40, "reserved bits of a work request"),
        (10, 0x01, "reserved bits of a work request"),
        (11, 0x10, "reserved bits of a work request"),
        (2, 0x01, "work request index"),
        (5, 0x01, "work request queue number"),
        // Five segments where one block was posted.
        (7, 0x06, "work request size"),
        // An opcode that does not exist.
        (3, 0x37, "malformed work request"),
    ] {
        let fabric = send_changed(at, |byte| byte ^ change);
        let reports = fabric.reports();
        assert!(reports.contains_key(kind), "{kind}: {reports:?}");
        assert!(judge(&fabric).is_err());
    }
    // Sizes that leave no room for the segments that the opcode requires.
    for units in [0, 1] {
        let fabric = send_changed(7, |_| units);
        assert_reported(&fabric, "malformed work request");
    }
}

#[test]
fn keys_that_do_not_fit() {
    // A key of another protection domain, on either side.
    for side in 0..2 {
        let (mut fabric, mut hosts, mut a, _, mut keys) = setup();
        let own = hosts[side].pd;
        hosts[side].pd = hosts[side].number(&mut fabric, op::ALLOC_PD);
        keys[side] = hosts[side].all_rights(&mut fabric);
        assert_ne!(hosts[side].pd, own);
        let mut body = remote_bytes(FREE, keys[1]);
        body.extend(segment_bytes(&[(8, keys[0], FREE)]));
        hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
        let syndrome = hosts[0].poll(&mut a.cq).unwrap().syndrome;
        assert_eq!(syndrome, if side == 0 { 0x04 } else { 0x13 });
        assert_reported(&fabric, "memory key of another protection domain");
    }
    // A key without the right, a wrong low byte, an address out of range.
    for (wrong, start) in [(0, FREE), (1, FREE), (0, FREE - 64)] {
        let (mut fabric, hosts, mut a, _, keys) = setup();
        let rights = [mkey::LOCAL_READ, mkey::REMOTE_WRITE];
        let key = if wrong == 0 && start == FREE {
            hosts[1].create_mkey(&mut fabric, FREE, 64, &[mkey::LOCAL_READ])
        } else {
            hosts[1].create_mkey(&mut fabric, FREE, 64, &rights) ^ wrong
        };
        let mut body = remote_bytes(start, key);
        body.extend(segment_bytes(&[(8, keys[0], FREE)]));
        hosts[0].post_send(&mut fabric, &mut a, WRITE, 0, &body);
        assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x13);
        assert_reported(&fabric, "memory key");
    }
    // A receive with an invalid key.
    let (mut fabric, hosts, mut a, mut b, keys) = setup();
    hosts[1].post_recv(&mut b, &[(64, 0xdead_0000, FREE)]);
    let body = segment_bytes(&[(8, keys[0], FREE)]);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    assert_eq!(hosts[1].poll(&mut b.cq).unwrap().syndrome, 0x04);
    assert_reported(&fabric, "memory key");
}

#[test]
fn objects_of_another_user_context() {
    let (mut fabric, hosts, ..) = setup();
    let host = &hosts[0];
    let uids = [(); 2].map(|()| host.number(&mut fabric, op::CREATE_UCTX) & 0xffff);
    let mut alloc = host.input(op::ALLOC_PD);
    command::UID.set(&mut alloc, uids[0]);
    let pd = command::NUMBER.get(&host.ok(&mut fabric, &alloc, 16));
    let mut free = host.input(op::DEALLOC_PD);
    command::UID.set(&mut free, uids[1]);
    command::NUMBER.set(&mut free, pd);
    assert_eq!(
        host.refused(&mut fabric, &free).1,
        Rule::ForeignObject as u32
    );
    assert_reported(&fabric, "object of another user context");
}

#[test]
fn doorbells_of_unknown_queues_are_reported() {
    let (mut fabric, hosts, ..) = setup();
    let mut bell = [0; 8];
    word(4).set(&mut bell, 0xbad << 8 | 1);
    fabric.mmio_write(0, hosts[0].page() + 0x800, &bell);
    assert_reported(&fabric, "send doorbell");
}
