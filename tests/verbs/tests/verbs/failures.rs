//! How requests fail: the status on both sides, what is flushed, and in which order.

use uverbs::memory::{LocalKey, RemoteKey};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, Operation, Payload, QpState, QpType, QueuePairEndpoint, SendRequest, WcStatus,
    WorkCompletion,
};
use verbs_tests::{
    Driver, Pair, Registered, Side, drain, driver, failed_here, next, open, raw, requests_fail,
};

/// b's memory, as a's failing requests refer to it.
struct Target {
    pair: Pair,
    memory: Registered,
    local: Registered,
}

fn target(access: AccessFlags) -> Target {
    requests_fail();
    let pair = Pair::new(QpType::Rc);
    Target {
        memory: Registered::new(&pair.b.pd, 4096, access),
        local: Registered::local(&pair.a.pd, 4096),
        pair,
    }
}

const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

impl Target {
    /// Posts the request and two after it, which are flushed; returns how the first one failed.
    fn fail(mut self, operation: Operation<'_>, length: u32) -> WcStatus {
        let sges = [self.local.sge(0, length)];
        let bad = SendRequest::new(operation, Payload::Gather(&sges)).wr_id(1);
        let good = SendRequest::write(&sges, self.memory.remote(0));
        // Unsignaled: the failure is reported nevertheless.
        raw::send(&mut self.pair.a.qp, &[bad, good.wr_id(2), good.wr_id(3)]).unwrap();
        let done = drain(&mut self.pair.a.cq, 3);
        let ids: Vec<_> = done.iter().map(|done| done.wr_id).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert!(
            done[1..]
                .iter()
                .all(|done| done.status == WcStatus::Flushed),
            "{done:?}"
        );
        assert!(
            done.iter()
                .all(|done| done.qp_num == self.pair.a.qp.qp_num())
        );
        assert_eq!(self.pair.a.qp.query().unwrap().state, QpState::Error);
        assert_eq!(self.pair.a.qp.state(), QpState::Error);
        assert_eq!(self.memory.all(), [0; 4096], "nothing was written");
        done[0].status
    }
}

#[test]
fn a_key_that_does_not_exist() {
    let target = target(ALL);
    let key = RemoteKey::from_raw(target.memory.mr().rkey().raw() ^ 0x80);
    let operation = Operation::Write(target.memory.remote_by(0, key));
    assert_eq!(target.fail(operation, 8), WcStatus::RemoteAccess);
}

#[test]
fn a_range_that_is_not_inside() {
    for (offset, length) in [(4089, 8), (4096, 1), (u64::MAX, 8), (1 << 40, 8)] {
        let target = target(ALL);
        let operation = Operation::Write(target.memory.remote(offset));
        let status = target.fail(operation, length);
        assert_eq!(status, WcStatus::RemoteAccess, "{length} at {offset}");
    }
}

#[test]
fn a_region_without_the_permission() {
    let only_read = target(AccessFlags::REMOTE_READ);
    let operation = Operation::Write(only_read.memory.remote(0));
    assert_eq!(only_read.fail(operation, 8), WcStatus::RemoteAccess);
    let only_write = target(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE);
    let operation = Operation::Read(only_write.memory.remote(0));
    assert_eq!(only_write.fail(operation, 8), WcStatus::RemoteAccess);
    let no_atomics = target(ALL.difference(AccessFlags::REMOTE_ATOMIC));
    let remote = no_atomics
        .memory
        .remote(8 - no_atomics.memory.mr().address() % 8);
    let operation = Operation::FetchAdd { remote, add: 1 };
    assert_eq!(no_atomics.fail(operation, 8), WcStatus::RemoteAccess);
}

#[test]
fn a_queue_pair_without_the_permission() {
    requests_fail();
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder.access(AccessFlags::LOCAL_WRITE)
    });
    let memory = Registered::remote_all(&pair.b.pd, 64);
    let bytes: [&[u8]; 1] = [b"no"];
    let write = Operation::Write(memory.remote(0));
    let request = SendRequest::new(write, Payload::Inline(&bytes)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    let refused = match driver() {
        Driver::Rxe => WcStatus::RemoteInvalidRequest,
        Driver::Mlx5 => WcStatus::RemoteAccess,
    };
    assert_eq!(next(&mut pair.a.cq).status, refused);
    assert_eq!(memory.all(), [0; 64]);
}

#[test]
fn local_memory_that_is_not_registered() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let local = Registered::local(&pair.a.pd, 64);
    let key = LocalKey::from_raw(local.mr().lkey().raw() ^ 0x80);
    let sges = [local.raw_sge(0, 8, key)];
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    raw::send(&mut pair.a.qp, &[SendRequest::send(&sges).wr_id(9)]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(done.wr_id, 9);
    failed_here(&done, WcStatus::LocalProtection);
    assert_eq!(pair.a.qp.query().unwrap().state, QpState::Error);
}

#[test]
fn local_memory_beyond_its_region() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let local = Registered::local(&pair.a.pd, 64);
    let sges = [local.raw_sge(60, 8, local.mr().lkey())];
    raw::recv(&mut pair.b.qp, 1, &[]).unwrap();
    raw::send(&mut pair.a.qp, &[SendRequest::send(&sges)]).unwrap();
    failed_here(&next(&mut pair.a.cq), WcStatus::LocalProtection);
    assert_eq!(pair.a.qp.query().unwrap().state, QpState::Error);
}

#[test]
fn a_read_into_memory_that_may_not_be_written() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let there = Registered::remote_all(&pair.b.pd, 64);
    there.fill(|_| 9);
    let here = Registered::new(&pair.a.pd, 64, AccessFlags::empty());
    let sges = [here.sge(0, 8)];
    let request = SendRequest::read(&sges, there.remote(0)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    failed_here(&next(&mut pair.a.cq), WcStatus::LocalProtection);
    assert_eq!(here.all(), [0; 64]);
}

#[test]
fn a_message_that_is_longer_than_the_receive() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    raw::recv(&mut pair.b.qp, 3, &[to.sge(0, 4)]).unwrap();
    raw::recv(&mut pair.b.qp, 4, &[to.sge(0, 64)]).unwrap();
    let bytes: [&[u8]; 1] = [b"too long"];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send_inline(&bytes).signaled()],
    )
    .unwrap();
    // IBTA names the first; rxe treats it as a receive request that cannot be used.
    let done = next(&mut pair.a.cq);
    assert!(
        matches!(
            done.status,
            WcStatus::RemoteInvalidRequest | WcStatus::RemoteOperation
        ),
        "{done:?}"
    );
    let got = drain(&mut pair.b.cq, 2);
    assert_eq!(got[0].wr_id, 3);
    assert!(
        matches!(
            got[0].status,
            WcStatus::LocalLength | WcStatus::RemoteInvalidRequest | WcStatus::LocalQpOperation
        ),
        "{got:?}"
    );
    assert_eq!((got[1].wr_id, got[1].status), (4, WcStatus::Flushed));
    assert_eq!(to.get(4, 60), [0; 60], "nothing behind the receive");
    assert_eq!(pair.b.qp.query().unwrap().state, QpState::Error);
}

#[test]
fn a_receive_into_memory_that_is_not_registered() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    let key = LocalKey::from_raw(to.mr().lkey().raw() ^ 0x80);
    raw::recv(&mut pair.b.qp, 3, &[to.raw_sge(0, 64, key)]).unwrap();
    let bytes: [&[u8]; 1] = [b"nowhere"];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send_inline(&bytes).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::RemoteOperation);
    let got = next(&mut pair.b.cq);
    assert_eq!(got.wr_id, 3);
    assert!(
        matches!(
            got.status,
            WcStatus::LocalQpOperation | WcStatus::LocalProtection
        ),
        "{got:?}"
    );
}

#[test]
fn f28_rnr_retries_run_out_without_a_receive() {
    requests_fail();
    let mut pair = Pair::with(QpType::Rc, |builder| {
        builder
            .rnr_retry(RnrRetry::new(1).unwrap())
            .min_rnr_timer(RnrTimer::code(1).unwrap())
    });
    let bytes: [&[u8]; 1] = [b"anyone?"];
    raw::send(&mut pair.a.qp, &[SendRequest::send_inline(&bytes).wr_id(4)]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!((done.wr_id, done.status), (4, WcStatus::RnrRetryExceeded));
}

#[test]
fn infinite_rnr_retries_wait_for_a_receive() {
    let mut pair = Pair::with(QpType::Rc, |mut builder| {
        builder = builder
            .rnr_retry(RnrRetry::new(7).unwrap())
            .min_rnr_timer(RnrTimer::code(1).unwrap());
        // rxe's retransmission continues meanwhile and must not give up.
        builder = builder.retry_count(RetryCount::new(7).unwrap());
        builder
    });
    let to = Registered::local(&pair.b.pd, 64);
    let bytes: [&[u8]; 1] = [b"anyone?"];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send_inline(&bytes).signaled()],
    )
    .unwrap();
    verbs_tests::nothing(&mut pair.a.cq);
    raw::recv(&mut pair.b.qp, 1, &[to.sge(0, 64)]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    assert_eq!(next(&mut pair.b.cq).byte_len, 7);
}

#[test]
fn f28_a_silent_peer_gets_everything_outstanding_flushed_in_order() {
    requests_fail();
    let context = open();
    let (pd, mut cq, prepared) = Side::prepare(&context, QpType::Rc, |builder| {
        builder
            .retry_count(RetryCount::new(1).unwrap())
            .timeout(AckTimeout::code(1).unwrap())
    });
    // A number that no queue pair has.
    let absent = QueuePairEndpoint {
        qp_num: 0x00ab_cdef,
        ..prepared.endpoint()
    };
    let mut qp = prepared.handshake(absent).unwrap();
    let to = Registered::local(&pd, 64);
    raw::recv(&mut qp, 50, &[to.sge(0, 64)]).unwrap();
    raw::recv(&mut qp, 51, &[to.sge(0, 64)]).unwrap();
    let bytes: [&[u8]; 1] = [b"hello?"];
    let requests: Vec<_> = (100..112)
        .map(|wr_id| SendRequest::send_inline(&bytes).wr_id(wr_id))
        .collect();
    raw::send(&mut qp, &requests).unwrap();
    let done = drain(&mut cq, 14);
    let (receives, sends): (Vec<_>, Vec<_>) = done.iter().partition(|done| done.wr_id < 100);
    let ids = |of: &[&WorkCompletion]| of.iter().map(|done| done.wr_id).collect::<Vec<_>>();
    assert_eq!(ids(&sends), (100..112).collect::<Vec<_>>());
    assert_eq!(ids(&receives), [50, 51]);
    assert_eq!(sends[0].status, WcStatus::RetryExceeded);
    assert!(
        sends[1..]
            .iter()
            .chain(&receives)
            .all(|done| done.status == WcStatus::Flushed)
    );
    assert_eq!(qp.query().unwrap().state, QpState::Error);
    // What is posted now is flushed, too.
    raw::send(&mut qp, &[SendRequest::send_inline(&bytes).wr_id(200)]).unwrap();
    let done = next(&mut cq);
    assert_eq!((done.wr_id, done.status), (200, WcStatus::Flushed));
}

#[test]
fn rxe_an_invalidation_of_what_cannot_be_invalidated() {
    requests_fail();
    verbs_tests::kernel_may_say("wrong type");
    verbs_tests::kernel_may_say("No MR for key");
    let mut pair = Pair::new(QpType::Rc);
    let region = Registered::remote_all(&pair.a.pd, 64);
    let operation = Operation::LocalInvalidate(region.mr().rkey());
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::new(operation, Payload::NONE).wr_id(6)],
    )
    .unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(done.wr_id, 6);
    assert!(!done.is_success(), "{done:?}");
    // The region is still usable.
    region.deregister().unwrap();
}
