//! Scheduling elements through the command interface, and the effect of a bandwidth cap.

use super::host::{FREE, connected, fabric, segment_bytes};
use crate::Options;
use crate::layout::command::{self, PAS, op};
use crate::layout::transport::sched;
use crate::layout::{field, qp, word};
use crate::objects::Service;
use crate::status::Rule;

fn create(host: &super::host::Host, kind: u32, parent: u32, cap: u32) -> Vec<u8> {
    let mut input = host.input(op::CREATE_SCHEDULING_ELEMENT);
    input.resize(0x80, 0);
    field(0x08, 31, 24).set(&mut input, 3);
    sched::TYPE.at(0x20).set(&mut input, kind);
    sched::PARENT.at(0x20).set(&mut input, parent);
    sched::SHARE.at(0x20).set(&mut input, 1);
    sched::MAX_BANDWIDTH.at(0x20).set(&mut input, cap);
    input
}

/// Attaches a queue pair to a leaf.
fn attach(fabric: &mut crate::Fabric, host: &super::host::Host, qpn: u32, leaf: u32) {
    let mut attach = host.input(op::RTS2RTS_QP);
    attach.resize(PAS + qp::ext::LEN, 0);
    command::qp::EXT.set(&mut attach, 1);
    command::NUMBER.set(&mut attach, qpn);
    command::qp::EXT_MASK_LOW.set(&mut attach, qp::ext::MASK_QUEUE_GROUP);
    qp::ext::GROUP_REQUESTER
        .at(command::qp::EXT_CTX)
        .set(&mut attach, leaf);
    host.ok(fabric, &attach, 16);
}

#[test]
fn shares_of_seven_and_three_divide_the_port_within_a_twentieth() {
    let options = Options {
        shaper: true,
        ..Options::default()
    };
    let (mut fabric, mut hosts) = fabric(2, options);
    let mut pairs = [(); 2].map(|()| connected(&mut fabric, &mut hosts, Service::Rc));
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let id = |reply: &[u8]| word(0x10).get(reply);
    let root = id(&hosts[0].ok(&mut fabric, &create(&hosts[0], 0, 0, 0), 0x40));
    for ((a, _), share) in pairs.iter().zip([7, 3]) {
        let mut leaf = create(&hosts[0], 4, root, 0);
        sched::SHARE.at(0x20).set(&mut leaf, share);
        let leaf = id(&hosts[0].ok(&mut fabric, &leaf, 0x40));
        attach(&mut fabric, &hosts[0], a.qpn, leaf);
    }
    let size = 64 << 10;
    let (mut done, mut posted) = ([0u32; 2], [0u32; 2]);
    let mut now = 1;
    while done[0] + done[1] < 400 {
        for (i, (a, b)) in pairs.iter_mut().enumerate() {
            while hosts[0].poll(&mut a.cq).is_some() {
                done[i] += 1;
            }
            while hosts[1].poll(&mut b.cq).is_some() {}
            // Both always have work waiting, and the receivers have room for it.
            while posted[i] < done[i] + 8 {
                posted[i] += 1;
                hosts[1].post_recv(b, &[(size, keys[1], FREE)]);
                hosts[0].post_send(
                    &mut fabric,
                    a,
                    0x0a,
                    0,
                    &segment_bytes(&[(size, keys[0], FREE)]),
                );
            }
        }
        now = fabric.next_deadline().unwrap_or(now).max(now + 1);
        fabric.advance(now);
        assert!(now < 1_000_000_000, "only {done:?} after a second");
    }
    let ratio = f64::from(done[0]) / f64::from(done[1]);
    assert!(
        (ratio / (7.0 / 3.0) - 1.0).abs() < 0.05,
        "{done:?}: {ratio}"
    );
    let gigabits = f64::from(size) * f64::from(done[0] + done[1]) * 8.0 / f64::from(now as u32);
    assert!((gigabits - 10.0).abs() < 0.5, "{gigabits} Gb/s");
}

#[test]
fn a_cap_holds_within_a_twentieth() {
    let options = Options {
        shaper: true,
        ..Options::default()
    };
    let (mut fabric, mut hosts) = fabric(2, options);
    let (mut a, mut b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let id = |reply: &[u8]| word(0x10).get(reply);
    let root = id(&hosts[0].ok(&mut fabric, &create(&hosts[0], 0, 0, 0), 0x40));
    let leaf = id(&hosts[0].ok(&mut fabric, &create(&hosts[0], 4, root, 4000), 0x40));
    attach(&mut fabric, &hosts[0], a.qpn, leaf);
    let mut destroy = hosts[0].input(op::DESTROY_SCHEDULING_ELEMENT);
    word(0x0c).set(&mut destroy, leaf);
    assert_eq!(
        hosts[0].refused(&mut fabric, &destroy).1,
        Rule::InUse as u32
    );

    let (size, count) = (64 << 10, 40);
    for _ in 0..count {
        hosts[0].post_send(
            &mut fabric,
            &mut a,
            0x0a,
            0,
            &segment_bytes(&[(size, keys[0], FREE)]),
        );
    }
    let mut done = 0;
    let mut now = 1;
    while done < count {
        hosts[1].post_recv(&mut b, &[(size, keys[1], FREE)]);
        now = fabric.next_deadline().unwrap_or(now).max(now);
        fabric.advance(now);
        while hosts[0].poll(&mut a.cq).is_some() {
            done += 1;
        }
        while hosts[1].poll(&mut b.cq).is_some() {}
        assert!(now < 1_000_000_000, "only {done} of {count} after a second");
    }
    let gigabits = f64::from(size) * f64::from(count - 1) * 8.0 / f64::from(now as u32);
    assert!((gigabits - 4.0).abs() < 0.2, "{gigabits} Gb/s");
}
