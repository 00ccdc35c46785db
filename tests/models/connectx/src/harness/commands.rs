//! The command interface: replies, refusals, ownership.

use super::host::{fabric, ring_input};
use crate::Options;
use crate::layout::caps::{general, qos};
use crate::layout::command::{self, CTX, PAS, op};
use crate::layout::queue::cq;
use crate::layout::{be32, field, part, qp, word};
use crate::status::{Rule, Status};

#[test]
fn capabilities_are_what_the_profile_says_and_what_the_driver_set() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    let host = &hosts[0];
    let query = |fabric: &mut crate::Fabric, kind: u32, current: u32| {
        let mut input = host.input(op::QUERY_HCA_CAP);
        command::OP_MOD.set(&mut input, kind << 1 | current);
        part(&host.ok(fabric, &input, 0x1010), 0x10, 0x1000)
    };
    let page = query(&mut fabric, 0, 1);
    assert_eq!(general::XRC.get(&page), 1);
    assert_eq!(general::LOG_MAX_CQ_SIZE.get(&page), 22);
    assert_eq!(general::IB_VIRT.get(&page), 1);
    assert_eq!(qos::RATE_TABLE_SIZE.get(&query(&mut fabric, 0xc, 1)), 128);
    assert!(query(&mut fabric, 0x33, 0).iter().all(|byte| *byte == 0));

    let mut set = host.input(op::SET_HCA_CAP);
    set.extend(&page);
    general::LOG_MAX_QP.at(0x10).set(&mut set, 9);
    host.ok(&mut fabric, &set, 16);
    assert_eq!(general::LOG_MAX_QP.get(&query(&mut fabric, 0, 1)), 9);
    assert_eq!(general::LOG_MAX_QP.get(&query(&mut fabric, 0, 0)), 17);
}

#[test]
fn unknown_commands_are_refused_as_bad_opcodes() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    let (status, syndrome) = hosts[0].refused(&mut fabric, &hosts[0].input(0xbad));
    assert_eq!(
        (status, syndrome),
        (Status::BadOpcode as u8, Rule::UnknownOpcode as u32)
    );
}

#[test]
fn every_object_is_gone_after_it_was_destroyed_once() {
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let host = &mut hosts[0];
    let pair = host.create_qp(&mut fabric, 0);
    let mut destroy = host.input(op::DESTROY_CQ);
    command::NUMBER.set(&mut destroy, pair.cq.cqn);
    assert_eq!(host.refused(&mut fabric, &destroy).1, Rule::InUse as u32);
    let mut destroy_qp = host.input(op::DESTROY_QP);
    command::NUMBER.set(&mut destroy_qp, pair.qpn);
    host.ok(&mut fabric, &destroy_qp, 16);
    assert_eq!(
        host.refused(&mut fabric, &destroy_qp).1,
        Rule::NoSuchObject as u32
    );
    host.ok(&mut fabric, &destroy, 16);
    let census = fabric.census(0);
    assert!(
        census.contains(&("qp", 0)) && census.contains(&("cq", 0)) && census.contains(&("eq", 1))
    );
}

#[test]
fn a_user_context_cannot_touch_the_objects_of_another() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    let host = &hosts[0];
    let uids: Vec<u32> = (0..2)
        .map(|_| host.number(&mut fabric, op::CREATE_UCTX) & 0xffff)
        .collect();
    let in_name_of = |opcode, uid| {
        let mut input = host.input(opcode);
        command::UID.set(&mut input, uid);
        input
    };
    let pd = command::NUMBER.get(&host.ok(&mut fabric, &in_name_of(op::ALLOC_PD, uids[0]), 16));
    let mut free = in_name_of(op::DEALLOC_PD, uids[1]);
    command::NUMBER.set(&mut free, pd);
    assert_eq!(
        host.refused(&mut fabric, &free),
        (Status::BadResource as u8, Rule::ForeignObject as u32)
    );
    assert_eq!(
        host.refused(&mut fabric, &in_name_of(op::ALLOC_PD, 0x3fff))
            .1,
        Rule::NoSuchObject as u32
    );
    let mut close = host.input(op::DESTROY_UCTX);
    field(0x08, 15, 0).set(&mut close, uids[0]);
    host.ok(&mut fabric, &close, 16);
    assert!(
        fabric.census(0).contains(&("pd", 1)),
        "the context's domain went with it"
    );
    assert_eq!(
        fabric.reports().get("objects left at DESTROY_UCTX"),
        Some(&1)
    );
}

#[test]
fn queue_pairs_take_only_the_transitions_they_may() {
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let pair = hosts[0].create_qp(&mut fabric, 0);
    let reply = hosts[0].try_modify(&mut fabric, op::RTR2RTS_QP, pair.qpn, &[]);
    assert_eq!(
        (reply[0], be32(&reply, 4)),
        (Status::BadQpState as u8, Rule::Transition as u32)
    );
    hosts[0].connect(&mut fabric, &pair, 1, pair.qpn);
    let mut query = hosts[0].input(op::QUERY_QP);
    command::NUMBER.set(&mut query, pair.qpn);
    let reply = hosts[0].ok(&mut fabric, &query, PAS);
    let context = part(&reply, command::qp::QPC, qp::LEN);
    assert_eq!(qp::STATE.get(&context), 3);
    assert_eq!(qp::REMOTE_QPN.get(&context), pair.qpn);
    assert_eq!(qp::RETRY_COUNT.get(&context), 2);
}

#[test]
fn ece_options_of_both_sides_are_negotiated() {
    const ALL: u32 = 0x1000_0007;
    let (mut fabric, mut hosts) = fabric(1, Options::default());
    let pair = hosts[0].create_qp(&mut fabric, 0);
    let host = &hosts[0];
    let change = |fabric: &mut crate::Fabric, opcode, asked| {
        let mut input = host.input(opcode);
        input.resize(PAS, 0);
        command::NUMBER.set(&mut input, pair.qpn);
        command::qp::ECE.set(&mut input, asked);
        let agreed = command::REPLY_ECE.get(&host.ok(fabric, &input, 16));
        let mut query = host.input(op::QUERY_QP);
        command::NUMBER.set(&mut query, pair.qpn);
        (agreed, command::qp::ECE.get(&host.ok(fabric, &query, PAS)))
    };
    // Only the version: this requests every option.
    let init = change(&mut fabric, op::RST2INIT_QP, 0x1000_0000);
    assert_eq!(init, (ALL, ALL));
    let ready = change(&mut fabric, op::INIT2RTR_QP, 0x1000_000d);
    assert_eq!(ready, (0x1000_0005, 0x1000_0005), "what the peer has");
    let silent = change(&mut fabric, op::RTR2RTS_QP, 0);
    assert_eq!(silent, (0, 0x1000_0005), "nobody asks");
    let other = change(&mut fabric, op::RTS2RTS_QP, 0x2000_0005);
    assert_eq!(other, (0, 0), "another version");
    // A function without such options refuses them.
    assert!(fabric.set_ece(0, 0) && !fabric.set_ece(1, 0));
    let mut input = host.input(op::RTS2RTS_QP);
    input.resize(PAS, 0);
    command::NUMBER.set(&mut input, pair.qpn);
    command::qp::ECE.set(&mut input, ALL);
    assert_eq!(host.refused(&mut fabric, &input).1, Rule::Reserved as u32);
}

#[test]
fn sizes_and_page_lists_are_checked() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    let host = &hosts[0];
    let mut input = host.input(op::CREATE_CQ);
    input.resize(PAS, 0);
    cq::UAR.at(CTX).set(&mut input, host.uar);
    cq::EQN.at(CTX).set(&mut input, host.eqn);
    cq::LOG_SIZE.at(CTX).set(&mut input, 23);
    assert_eq!(host.refused(&mut fabric, &input).1, Rule::BadSize as u32);
    cq::LOG_SIZE.at(CTX).set(&mut input, 10);
    assert_eq!(host.refused(&mut fabric, &input).1, Rule::PageList as u32);
    let rmp = ring_input(host, op::CREATE_RMP, 0, 0, 4, 20);
    assert_eq!(host.refused(&mut fabric, &rmp).1, Rule::BadSize as u32);
}

#[test]
fn a_command_can_be_made_to_fail_on_request() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    assert!(fabric.fail_commands(0, op::ALLOC_PD, 0, 1, 1));
    assert_eq!(
        hosts[0]
            .refused(&mut fabric, &hosts[0].input(op::ALLOC_PD))
            .1,
        Rule::Injected as u32
    );
    hosts[0].number(&mut fabric, op::ALLOC_PD);
}

#[test]
fn reset_clears_everything_but_the_identity() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    fabric.reset(0);
    assert!(fabric.census(0).iter().all(|(_, count)| *count == 0));
    let mut id = [0; 4];
    fabric.config_read(0, 0, &mut id);
    assert_eq!(id, [0xb3, 0x15, 0x17, 0x10]);
    assert_eq!(hosts[0].interrupts.raised(63), 0);
    let mut queue = [0; 4];
    fabric.mmio_read(0, 0x14, &mut queue);
    assert_eq!(word(0).get(&queue), 0x56);
}

#[test]
fn a_pulled_function_reads_as_ones_until_it_is_reset() {
    let (mut fabric, _) = fabric(1, Options::default());
    fabric.remove(0);
    let mut word = [0; 4];
    fabric.mmio_read(0, 0x1010, &mut word);
    assert_eq!(word, [0xff; 4]);
    fabric.config_read(0, 0, &mut word);
    assert_eq!(word, [0xff; 4]);
    fabric.reset(0);
    fabric.mmio_read(0, 0x04, &mut word);
    assert_eq!(word[..2], [0, 5]);
}

#[test]
fn a_slow_command_ends_when_its_time_has_come() {
    let (mut fabric, hosts) = fabric(1, Options::default());
    fabric.slow_commands(0, op::ALLOC_PD, 5_000_000);
    let owned = |host: &super::host::Host| host.bytes(0x103f, 1)[0] & 1;
    hosts[0].ring(&mut fabric, &hosts[0].input(op::ALLOC_PD), 16);
    assert_eq!(owned(&hosts[0]), 1);
    let deadline = fabric.next_deadline().unwrap();
    fabric.advance(deadline - 1);
    assert_eq!(owned(&hosts[0]), 1);
    fabric.advance(deadline);
    assert_eq!(owned(&hosts[0]), 0);
    assert!(fabric.census(0).contains(&("pd", 2)));
}
