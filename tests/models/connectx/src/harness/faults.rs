//! Faults on request: each occurs as often as requested, and is observed.

use super::host::{Completions, FREE, Host, Pair, connected, fabric, remote_bytes, segment_bytes};
use crate::engine::Fabric;
use crate::layout::be32;
use crate::layout::command::op;
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::status::{Rule, Status};
use crate::{Options, Spoil};

const SEND: u8 = 0x0a;
const FETCH_ADD: u8 = 0x12;
const LATER: u64 = 1_000_000_000;

fn setup(service: Service) -> (Fabric, Vec<Host>, Pair, Pair, [u32; 2]) {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, service);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    (fabric, hosts, a, b, keys)
}

fn count(host: &Host, queue: &mut Completions) -> usize {
    std::iter::from_fn(|| host.poll(queue)).count()
}

/// Sends eight bytes from one host to the other; returns the number of completions on each side.
fn send_once(service: Service, fault: impl Fn(&mut Fabric)) -> (usize, usize) {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(service);
    for _ in 0..2 {
        hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    }
    fault(&mut fabric);
    let data = segment_bytes(&[(8, keys[0], FREE)]);
    let body = if service == Service::Ud {
        let mut body = vec![0; 48];
        body[2..4].copy_from_slice(&[0x12, 0x34]);
        body[8..12].copy_from_slice(&(1 << 31 | b.qpn).to_be_bytes());
        body[15] = 2;
        body.extend(data);
        body
    } else {
        data
    };
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    for step in 1..8 {
        fabric.advance(step * LATER);
    }
    assert!(fabric.reports().is_empty(), "{:?}", fabric.reports());
    (count(&hosts[0], &mut a.cq), count(&hosts[1], &mut b.cq))
}

#[test]
fn a_duplicate_is_dropped_by_a_reliable_connection_and_delivered_by_the_others() {
    for (service, received) in [(Service::Rc, 1), (Service::Uc, 2), (Service::Ud, 2)] {
        assert_eq!(
            send_once(service, |fabric| fabric.duplicate_messages(0, 1)),
            (1, received),
            "{service:?}"
        );
    }
}

#[test]
fn a_lost_acknowledgement_makes_only_a_reliable_sender_retry() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        assert_eq!(
            send_once(service, |fabric| fabric.lose_acknowledges(0, 1)),
            (1, 1),
            "{service:?}"
        );
    }
}

#[test]
fn an_atomic_that_comes_again_is_answered_and_not_done_again() {
    let (mut fabric, hosts, mut a, _, keys) = setup(Service::Rc);
    hosts[1].ram.write(FREE, &40u64.to_ne_bytes()).unwrap();
    fabric.duplicate_messages(0, 1);
    fabric.lose_acknowledges(0, 2);
    let mut body = remote_bytes(FREE, keys[1]);
    body.extend(2u64.to_be_bytes());
    body.extend([0; 8]);
    body.extend(segment_bytes(&[(8, keys[0], FREE + 64)]));
    hosts[0].post_send(&mut fabric, &mut a, FETCH_ADD, 0, &body);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    for step in 1..8 {
        fabric.advance(step * LATER);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
    assert_eq!(hosts[0].bytes(FREE + 64, 8), 40u64.to_ne_bytes());
    assert_eq!(hosts[1].bytes(FREE, 8), 42u64.to_ne_bytes());
}

#[test]
fn sequence_numbers_that_do_not_agree_end_a_connection() {
    use crate::layout::qp;
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let key = hosts[0].all_rights(&mut fabric);
    let (mut a, b) = (
        hosts[0].create_qp(&mut fabric, 0),
        hosts[1].create_qp(&mut fabric, 0),
    );
    hosts[0].connect(&mut fabric, &a, 2, b.qpn);
    hosts[1].connect(&mut fabric, &b, 1, a.qpn);
    hosts[1].modify(&mut fabric, op::TO_RST_QP, b.qpn, &[]);
    hosts[1].modify(&mut fabric, op::RST2INIT_QP, b.qpn, &[]);
    let path = (qp::path::LID.at(qp::PRIMARY), 1);
    hosts[1].modify(
        &mut fabric,
        op::INIT2RTR_QP,
        b.qpn,
        // The sender begins at 0, far ahead of this.
        &[(qp::REMOTE_QPN, a.qpn), path, (qp::RECV_PSN, 0xff_0000)],
    );
    let body = segment_bytes(&[(8, key, FREE)]);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    for step in 1..8 {
        fabric.advance(step * LATER);
    }
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().syndrome, 0x15);
}

#[test]
fn each_kind_of_spoilt_completion_is_wrong_in_its_own_way() {
    for (name, kind) in Spoil::ALL {
        let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
        let body = segment_bytes(&[(8, keys[0], FREE)]);
        let mut send = |fabric: &mut Fabric| {
            hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
            hosts[0].post_send(fabric, &mut a, SEND, 0, &body);
            hosts[0].poll(&mut a.cq)
        };
        let good = send(&mut fabric).unwrap().entry;
        fabric.spoil_completions(0, 1, kind);
        let bad = send(&mut fabric);
        let Some(bad) = bad else {
            assert_eq!(kind, Spoil::Owner, "only this one hides the entry");
            continue;
        };
        let bad = bad.entry;
        let differs = |at: usize| be32(&good, at) != be32(&bad, at);
        match kind {
            Spoil::Opcode => assert_eq!(bad[0x3f] >> 4, 0x9),
            Spoil::QueueNumber => assert!(differs(0x38) && !differs(0x20)),
            Spoil::UserIndex => assert!(differs(0x20) && !differs(0x38)),
            Spoil::Counter => assert_eq!(bad[0x3c..0x3e], [0xff, 0xfe]),
            Spoil::Owner => panic!("the entry was not hidden"),
            Spoil::Syndrome => assert_eq!((bad[0x3f] >> 4, bad[0x37]), (0xd, 0x7f)),
            Spoil::Length => assert_eq!(be32(&bad, 0x2c), u32::MAX),
            Spoil::Signature => {
                let sum = |entry: &[u8]| entry[..0x3f].iter().fold(0, |sum, byte| sum ^ byte);
                assert_eq!((sum(&good), sum(&bad)), (0xff, 0), "{name}");
            }
        }
        // Only one.
        let after = send(&mut fabric).unwrap().entry;
        assert_eq!((after[0x3f] >> 4, be32(&after, 0x20)), (0, 0x77), "{name}");
    }
}

#[test]
fn the_command_at_the_given_occurrence_fails_with_the_given_status() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    let input = hosts[0].input(op::ALLOC_PD);
    assert!(fabric.fail_commands(0, op::ALLOC_PD, 2, 2, Status::Limit as u8));
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let reply = hosts[0].run(&mut fabric, &input, 16);
        statuses.push(reply[0]);
        if reply[0] != 0 {
            assert_eq!(be32(&reply, 4), Rule::Injected as u32);
        }
    }
    assert_eq!(statuses, [0, 0, 8, 8, 0, 0]);
    assert!(!fabric.fail_commands(0, op::ALLOC_PD, 0, 1, 0x99));
}

#[test]
fn a_port_that_goes_down_loses_messages_until_it_is_up() {
    let (mut fabric, hosts, mut a, mut b, keys) = setup(Service::Rc);
    hosts[1].post_recv(&mut b, &[(64, keys[1], FREE)]);
    fabric.set_link(1, false);
    let body = segment_bytes(&[(8, keys[0], FREE)]);
    hosts[0].post_send(&mut fabric, &mut a, SEND, 0, &body);
    assert!(hosts[0].poll(&mut a.cq).is_none());
    fabric.set_link(1, true);
    fabric.advance(LATER);
    assert_eq!(hosts[0].poll(&mut a.cq).unwrap().opcode, 0);
}

#[test]
fn the_health_syndrome_is_read_back() {
    let (mut fabric, _) = fabric(1, Options::default());
    fabric.set_health(0, 0x10);
    let mut word = [0; 4];
    fabric.mmio_read(0, 0x23c, &mut word);
    assert_eq!(word[1], 0x10);
    fabric.mmio_read(0, 0x238, &mut word);
    assert_eq!(word[0], 1 << 7, "a reset is asked for");
}
