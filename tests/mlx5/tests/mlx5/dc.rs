//! Dynamic connections: one initiator, many targets.

use mlx5_tests::{Model, raw as mlx5};
use uverbs::mlx5::Streams;
use uverbs::owned::{self, Work};
use uverbs::time::AckTimeout;
use uverbs::{
    AccessFlags, AddressHandle, CompletionQueue, Context, ErrorKind, Operation, Payload, PostError,
    ProtectionDomain, QpState, QpType, QueuePair, SendRequest, SharedReceiveQueue,
};
use verbs_tests::{
    Registered, device_name, next, nothing, open, open_named, peer_name, raw, until,
};

const KEY: u64 = 0x0123_4567_89ab_cdef;

struct Receiver {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    target: QueuePair,
}

fn receiver(context: &Context, key: u64) -> Receiver {
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let srq = pd.create_srq(16, 1).unwrap();
    let builder = pd
        .dc_target(&srq, &cq, key)
        .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ);
    let target = builder.build().unwrap().activate().unwrap().untyped();
    Receiver {
        pd,
        cq,
        srq,
        target,
    }
}

struct Sender {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair,
    /// The address handle for one receiver's port.
    way: AddressHandle,
}

fn sender(context: &Context, to: &Receiver) -> Sender {
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let builder = pd
        .dc_initiator(&cq)
        .max_inline_data(64)
        .max_rd_atomic(4)
        .timeout(AckTimeout::code(14).unwrap());
    let prepared = builder.build().unwrap();
    let path = prepared.path_to(&to.target.endpoint()).unwrap();
    let way = pd.create_ah(&path).unwrap();
    let qp = prepared.activate().unwrap().untyped();
    Sender { pd, cq, qp, way }
}

#[test]
fn owned_requests_name_their_targets() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let receivers = [KEY, KEY + 1].map(|key| receiver(&other, key));
    let s = sender(&one, &receivers[0]);
    let (way, mut cq) = (s.way, s.cq);
    let mut qp = owned::QueuePair::new(s.qp);
    let [room] = receivers[1].pd.buffers::<1>(64).unwrap();
    let exposed = receivers[0]
        .pd
        .expose(64, AccessFlags::REMOTE_WRITE)
        .unwrap();
    let [mut text] = s.pd.buffers::<1>(64).unwrap();
    text[..5].copy_from_slice(b"write");
    let first = way.to_dc_target(receivers[0].target.qp_num(), KEY);
    let work = Work::write(exposed.remote()).memory((text, 5)).user_data(1);
    qp.post_to_target(work, &first).unwrap();

    let [mut one_of, mut other_of] = receivers;
    let mut srq = owned::SharedReceiveQueue::new(other_of.srq);
    srq.recv(room, 7).unwrap();
    let second = way.to_dc_target(other_of.target.qp_num(), KEY + 1);
    let work = Work::send().user_data(2);
    qp.post_inline_to_target(work, &[b"message"], &second)
        .unwrap();
    for expected in [1, 2] {
        let done = until("a request", || {
            let done = cq.poll().unwrap()?;
            Some(qp.complete(done).expect("a request of this queue"))
        });
        assert!(
            done.status().is_success() && done.user_data() == expected,
            "{done:?}"
        );
    }
    let mut found = [0; 5];
    assert!(exposed.read(0, &mut found));
    assert_eq!(&found, b"write");
    let done = until("a message", || {
        let done = other_of.cq.poll().unwrap()?;
        Some(srq.complete(done).expect("a receive of this queue"))
    });
    assert_eq!((done.bytes(), done.user_data()), (Some(&b"message"[..]), 7));
    nothing(&mut one_of.cq);
    // An untyped queue pair of another transport says so.
    let other_kind = one_of.pd.queue_pair(QpType::Rc, &one_of.cq, &one_of.cq);
    let prepared = other_kind.build().unwrap();
    let endpoint = prepared.endpoint();
    let mut rc = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let refused = rc.post_to_target(Work::send(), &first).unwrap_err();
    assert_eq!(refused.error, PostError::UnsupportedOperation);
    assert_eq!(rc.sends_posted(), 0);
}

#[test]
fn one_initiator_reaches_many_targets() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let mut receivers = [receiver(&other, KEY), receiver(&other, KEY + 1)];
    let mut s = sender(&one, &receivers[0]);
    assert_eq!(s.qp.state(), QpState::ReadyToSend);
    assert_eq!(receivers[0].target.state(), QpState::ReadyToReceive);
    let number = receivers[0].target.qp_num();
    assert!(number != 0 && number == receivers[0].target.endpoint().qp_num);
    assert_ne!(number, receivers[1].target.qp_num());
    let from = Registered::local(&s.pd, 4096);
    from.fill(|at| u8::try_from(at % 233).unwrap());
    for round in 0..24_u64 {
        let at = usize::try_from(round % 2).unwrap();
        let to = Registered::remote_all(&receivers[at].pd, 4096);
        raw::recv_shared(&mut receivers[at].srq, 500 + round, &[to.sge(0, 4096)]).unwrap();
        let target = &receivers[at].target;
        let destination = s.way.to_dc_target(target.qp_num(), KEY + round % 2);
        let sges = [from.sge(0, 4096)];
        let request = SendRequest::send(&sges).wr_id(round).signaled();
        mlx5::send_dc(&mut s.qp, &request, &destination).unwrap();
        let done = next(&mut s.cq);
        assert!(done.is_success() && done.wr_id == round, "{done:?}");
        let done = next(&mut receivers[at].cq);
        assert!(
            done.is_success() && done.wr_id == 500 + round && done.byte_len == 4096,
            "{done:?}"
        );
        assert_eq!(done.qp_num, receivers[at].target.qp_num());
        assert_eq!(to.all(), from.all());
        nothing(&mut receivers[1 - at].cq);
    }
}

#[test]
fn targets_are_written_and_read() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let mut r = receiver(&other, KEY);
    let mut s = sender(&one, &r);
    let from = Registered::local(&s.pd, 4096);
    let to = Registered::remote_all(&r.pd, 4096);
    from.fill(|at| u8::try_from(at % 229).unwrap());
    let destination = s.way.to_dc_target(r.target.qp_num(), KEY);
    let sges = [from.sge(0, 2048)];
    let write = SendRequest::write(&sges, to.remote(100)).signaled();
    mlx5::send_dc(&mut s.qp, &write, &destination).unwrap();
    assert!(next(&mut s.cq).is_success());
    assert_eq!(to.get(100, 2048), from.get(0, 2048));

    let sges = [from.sge(2048, 1024)];
    let read = SendRequest::read(&sges, to.remote(100)).signaled();
    mlx5::send_dc(&mut s.qp, &read, &destination).unwrap();
    assert!(next(&mut s.cq).is_success());
    assert_eq!(from.get(2048, 1024), from.get(0, 1024));

    raw::recv_shared(&mut r.srq, 9, &[]).unwrap();
    let bytes: [&[u8]; 1] = [b"and told"];
    let operation = Operation::WriteImm(to.remote(0), 77);
    let write = SendRequest::new(operation, Payload::Inline(&bytes)).signaled();
    mlx5::send_dc(&mut s.qp, &write, &destination).unwrap();
    assert!(next(&mut s.cq).is_success());
    let done = next(&mut r.cq);
    assert!(done.wr_id == 9 && done.imm == Some(77), "{done:?}");
    assert_eq!(to.get(0, 8), b"and told");
}

#[test]
fn a_wrong_access_key_reaches_no_target() {
    verbs_tests::requests_fail();
    let context = open();
    let mut r = receiver(&context, KEY);
    let mut s = sender(&context, &r);
    raw::recv_shared(&mut r.srq, 1, &[]).unwrap();
    let bytes: [&[u8]; 1] = [b""];
    let destination = s.way.to_dc_target(r.target.qp_num(), KEY ^ 1);
    let request = SendRequest::send_inline(&bytes).signaled().wr_id(4);
    mlx5::send_dc(&mut s.qp, &request, &destination).unwrap();
    let done = next(&mut s.cq);
    assert!(!done.is_success() && done.wr_id == 4, "{done:?}");
    nothing(&mut r.cq);
}

#[test]
fn what_initiators_and_targets_lack_is_reported() {
    let context = open();
    let mut r = receiver(&context, KEY);
    let mut s = sender(&context, &r);
    let bytes: [&[u8]; 1] = [b"where to?"];
    let request = SendRequest::send_inline(&bytes);
    let error = s.qp.send_batch().push_inline(&request).unwrap_err();
    assert_eq!(error, PostError::InvalidRequest);
    let destination = s.way.to_dc_target(r.target.qp_num(), KEY);
    let in_second = destination.in_stream(1);
    let error = mlx5::send_dc(&mut s.qp, &request, &in_second).unwrap_err();
    let (requested, streams) = (1, 1);
    assert_eq!(error, PostError::NoSuchStream { requested, streams });
    let error = mlx5::send_dc(&mut r.target, &request, &destination).unwrap_err();
    assert_eq!(error, PostError::UnsupportedOperation);
    let failed = raw::recv(&mut r.target, 0, &[]).unwrap_err();
    assert_eq!(failed.error, PostError::UnsupportedOperation);
    // The software ConnectX does not support streams.
    assert_eq!(context.mlx5().unwrap().caps().max_log_dci_streams, 0);
    let streams = Streams {
        log_concurrent: 2,
        log_errored: 1,
    };
    let builder = s.pd.dc_initiator(&s.cq);
    let error = builder.dci_streams(streams).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    // Both ends are activated, not connected.
    let prepared = s.pd.dc_initiator(&s.cq).build().unwrap().untyped();
    let own = prepared.endpoint();
    let error = prepared.handshake(own).unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Unsupported, "{error}");
    let rc = s.pd.queue_pair(QpType::Rc, &s.cq, &s.cq).build().unwrap();
    let error = rc.activate().unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn nothing_is_left_of_either_end() {
    let mut model = Model::open();
    let context = open();
    // The first leave doorbell pages with the context.
    let r = receiver(&context, KEY);
    drop(sender(&context, &r));
    drop(r);
    let census = model.ask("census 0");
    let r = receiver(&context, KEY);
    let s = sender(&context, &r);
    assert_ne!(model.ask("census 0"), census);
    drop((r, s));
    // One that never had a number.
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(4).unwrap());
    let srq = pd.create_srq(4, 1).unwrap();
    drop(pd.dc_target(&srq, &cq, KEY).build().unwrap());
    drop((srq, cq, pd));
    assert_eq!(model.ask("census 0"), census);
    assert_eq!(context.leaked(), 0);
}
