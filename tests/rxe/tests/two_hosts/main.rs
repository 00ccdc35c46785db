//! Two hosts with a wire between them: everything that crosses it.
//!
//! That packets really cross it is checked by a test of the testbed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of tests are small"
)]

mod bad_wire;

use uverbs::address::{GlobalRoute, Grh};
use uverbs::attr::SrqModify;
use uverbs::completion::WcOpcode;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry};
use uverbs::{AddressVector, Operation, Payload, QpType, SendRequest, WcStatus};
use verbs_tests::{DEADLINE, Pair, Registered, gid_entry, next, open_named, queue_event, raw};

fn pair(kind: QpType) -> Pair {
    let (a, b) = (open_named("rxe_a"), open_named("rxe_b"));
    Pair::between(&a, &b, kind, |mut builder| {
        builder = builder
            .retry_count(RetryCount::new(7).unwrap())
            .rnr_retry(RnrRetry::new(7).unwrap());
        if kind == QpType::Ud {
            builder = builder.qkey(77);
        }
        builder
    })
}

#[test]
fn messages_of_all_sizes_reach_the_other_host() {
    let mut pair = pair(QpType::Rc);
    let length = (1 << 20) + 7;
    let from = Registered::local(&pair.a.pd, length as usize);
    let to = Registered::remote_all(&pair.b.pd, length as usize);
    from.fill(|at| (at % 253) as u8);
    for length in [0, 1, 1023, 1024, 1025, 100_000, length] {
        raw::recv(&mut pair.b.qp, 1, &[to.sge(0, length)]).unwrap();
        let sges = [from.sge(0, length)];
        raw::send(&mut pair.a.qp, &[SendRequest::send(&sges).signaled()]).unwrap();
        assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
        let got = next(&mut pair.b.cq);
        assert_eq!((got.status, got.byte_len), (WcStatus::Success, length));
        assert!(to.get(0, length as usize) == from.get(0, length as usize));
    }
}

#[test]
fn remote_memory_is_written_read_and_counted() {
    let mut pair = pair(QpType::Rc);
    let here = Registered::local(&pair.a.pd, 200_000);
    let there = Registered::remote_all(&pair.b.pd, 200_000);
    here.fill(|at| (at * 7 % 251) as u8);
    let sges = [here.sge(0, 200_000)];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::write(&sges, there.remote(0)).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).opcode, WcOpcode::RdmaWrite);
    assert!(there.all() == here.all());
    let back = Registered::local(&pair.a.pd, 200_000);
    let sges = [back.sge(0, 200_000)];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::read(&sges, there.remote(0)).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).opcode, WcOpcode::RdmaRead);
    assert!(back.all() == here.all());
    let remote = there.remote(8 - there.mr().address() % 8);
    let at = (remote.address - there.mr().address()) as usize;
    let before = there.word(at);
    let sges = [back.sge(0, 8)];
    let add = Operation::FetchAdd { remote, add: 5 };
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::new(add, Payload::Gather(&sges)).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    assert_eq!(there.word(at), before.wrapping_add(5));
    assert_eq!(back.word(0), before);
}

#[test]
fn unreliable_connections() {
    let mut pair = pair(QpType::Uc);
    let to = Registered::remote_all(&pair.b.pd, 10_000);
    let from = Registered::local(&pair.a.pd, 10_000);
    from.fill(|at| at as u8);
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    let sges = [from.sge(0, 10_000)];
    let operation = Operation::WriteImm(to.remote(0), 3);
    let request = SendRequest::new(operation, Payload::Gather(&sges)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(next(&mut pair.b.cq).imm, Some(3));
    assert!(to.all() == from.all());
}

#[test]
fn a_datagram_carries_its_source_and_is_answered() {
    let mut pair = pair(QpType::Ud);
    let (gid_a, gid_b) = (
        gid_entry(&pair.a.context, &pair.a.qp),
        gid_entry(&pair.b.context, &pair.b.qp),
    );
    assert_ne!(gid_a.gid, gid_b.gid);
    let route = GlobalRoute::new(gid_b.gid, gid_a.index as u8);
    let address = pair
        .a
        .pd
        .create_ah(&AddressVector::global(1, route))
        .unwrap();
    let to = Registered::local(&pair.b.pd, 128);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 128)]).unwrap();
    let bytes: [&[u8]; 1] = [b"who are you?"];
    let request = SendRequest::send_inline(&bytes).to(address.to(pair.b.qp.qp_num(), 77));
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    let got = next(&mut pair.b.cq);
    let header = Grh::parse(&to.get(0, 40)).unwrap();
    assert_eq!((header.sgid(), header.dgid()), (gid_a.gid, gid_b.gid));
    let vector = AddressVector::reply_to(1, &got, Some(&header), gid_b.index as u8);
    let back = pair.b.pd.create_ah(&vector).unwrap();
    let at_a = Registered::local(&pair.a.pd, 128);
    raw::recv(&mut pair.a.qp, 2, &[at_a.sge(0, 128)]).unwrap();
    let bytes: [&[u8]; 1] = [b"b"];
    let request = SendRequest::send_inline(&bytes).to(back.to(got.src_qp, 77));
    raw::send(&mut pair.b.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).src_qp, pair.b.qp.qp_num());
    assert_eq!(at_a.get(40, 1), b"b");
}

#[test]
fn a_shared_receive_queue_serves_senders_of_the_other_host() {
    let (a, b) = (open_named("rxe_a"), open_named("rxe_b"));
    let pd = b.alloc_pd().unwrap();
    let mut cq = b.create_cq(64).unwrap();
    let mut srq = pd.create_srq(16, 1).unwrap();
    let pd_a = a.alloc_pd().unwrap();
    let cq_a = a.create_cq(64).unwrap();
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..3 {
        let near = pd_a.queue_pair(QpType::Rc, &cq_a, &cq_a);
        let near = near
            .timeout(AckTimeout::code(14).unwrap())
            .max_inline_data(32)
            .build()
            .unwrap();
        let far = pd.queue_pair(QpType::Rc, &cq, &cq);
        let far = far
            .timeout(AckTimeout::code(14).unwrap())
            .srq(&srq)
            .build()
            .unwrap();
        let (end_near, end_far) = (near.endpoint(), far.endpoint());
        receivers.push(far.handshake(end_near).unwrap());
        senders.push(near.handshake(end_far).unwrap());
    }
    for wr_id in 0..9 {
        raw::recv_shared(&mut srq, wr_id, &[]).unwrap();
    }
    srq.modify(&SrqModify::new().limit(1)).unwrap();
    for wr_id in 0..9_usize {
        raw::send(&mut senders[wr_id % 3], &[SendRequest::send(&[])]).unwrap();
        let got = next(&mut cq);
        assert_eq!((got.wr_id, got.status), (wr_id as u64, WcStatus::Success));
        assert_eq!(got.qp_num, receivers[wr_id % 3].qp_num());
    }
    let event = queue_event(&b, Some(DEADLINE)).unwrap();
    assert_eq!(event.event, AsyncEventType::SrqLimitReached);
    assert_eq!(
        event.source,
        EventSource::SharedReceiveQueue { user_data: 0 }
    );
}

#[test]
fn f28_a_connection_that_is_gone_is_noticed() {
    verbs_tests::requests_fail();
    let (a, b) = (open_named("rxe_a"), open_named("rxe_b"));
    let mut pair = Pair::between(&a, &b, QpType::Rc, |builder| {
        builder
            .retry_count(RetryCount::new(1).unwrap())
            .timeout(AckTimeout::code(8).unwrap())
    });
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    raw::send(&mut pair.a.qp, &[SendRequest::send(&[]).signaled()]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    pair.b.qp.destroy().unwrap();
    raw::send(&mut pair.a.qp, &[SendRequest::send(&[]).wr_id(9)]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!((done.wr_id, done.status), (9, WcStatus::RetryExceeded));
}
