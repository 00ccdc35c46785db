//! Shared receive queues: created, queried, resized with requests inside, shared by queue pairs.

use uverbs::attr::SrqModify;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    CompletionQueue, Context, ErrorKind, PostError, ProtectionDomain, QpType, QueuePair,
    SendRequest, SharedReceiveQueue, WcStatus,
};
use verbs_tests::{Driver, Registered, drain, driver, nothing, open, raw};

/// Queue pairs that are connected to themselves and receive from one queue.
struct Shared {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    qps: Vec<QueuePair>,
}

fn shared(max_wr: u32, qps: usize) -> Shared {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(1024).unwrap();
    let srq = pd.create_srq(max_wr, 2).unwrap();
    let connect = || {
        let builder = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .srq(&srq)
            .max_inline_data(64)
            .max_send_wr(64)
            .timeout(AckTimeout::code(14).unwrap())
            .min_rnr_timer(RnrTimer::code(1).unwrap())
            .rnr_retry(RnrRetry::new(7).unwrap())
            .retry_count(RetryCount::new(7).unwrap());
        let prepared = builder.build().unwrap();
        let own = prepared.endpoint();
        prepared.handshake(own).unwrap()
    };
    let qps = (0..qps).map(|_| connect()).collect();
    Shared {
        context,
        pd,
        cq,
        srq,
        qps,
    }
}

impl Shared {
    /// Posts receives until the queue is full; returns how many.
    fn fill(&mut self, from: u64, to: &Registered) -> u64 {
        let mut posted = 0;
        loop {
            match raw::recv_shared(&mut self.srq, from + posted, &[to.sge(0, 64)]) {
                Ok(()) => posted += 1,
                Err(failed) => {
                    assert_eq!(failed.error, PostError::QueueFull);
                    return posted;
                }
            }
        }
    }

    /// Sends a message on a queue pair and returns the request that received it.
    fn message(&mut self, qp: usize) -> u64 {
        let bytes: [&[u8]; 1] = [b"shared"];
        raw::send(&mut self.qps[qp], &[SendRequest::send_inline(&bytes)]).unwrap();
        let got = verbs_tests::next(&mut self.cq);
        assert_eq!((got.status, got.byte_len), (WcStatus::Success, 6));
        assert_eq!(got.qp_num, self.qps[qp].qp_num());
        got.wr_id
    }
}

#[test]
fn sizes_are_granted_at_least_and_a_query_says_so() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    for (max_wr, max_sge) in [(1, 1), (10, 3), (1000, 27)] {
        let srq = pd.create_srq(max_wr, max_sge).unwrap();
        let attr = srq.query().unwrap();
        assert!(attr.max_wr >= max_wr && attr.max_sge >= max_sge, "{attr:?}");
        assert_eq!(attr, srq.size());
        assert_eq!(attr.limit, 0);
        assert_ne!(srq.number(), 0);
        let counts = srq.destroy().unwrap();
        assert_eq!((counts.completions, counts.asynchronous), (0, 0));
    }
}

#[test]
fn sizes_that_are_impossible() {
    let context = open();
    let attr = context.device_attr();
    let pd = context.alloc_pd().unwrap();
    let kind = |max_wr, max_sge| pd.create_srq(max_wr, max_sge).unwrap_err().kind();
    assert_eq!(kind(0, 1), ErrorKind::InvalidInput);
    // A ConnectX has room for at least one entry.
    if driver() == Driver::Rxe {
        assert_eq!(kind(1, 0), ErrorKind::InvalidInput);
    }
    assert_eq!(kind(attr.max_srq_wr + 1, 1), ErrorKind::LimitExceeded);
    assert_eq!(kind(1, attr.max_srq_sge + 1), ErrorKind::LimitExceeded);
    let error = pd.shared_receive_queue(8).limit(100).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn many_queue_pairs_receive_from_one_queue_in_its_order() {
    let mut shared = shared(64, 8);
    let to = Registered::local(&shared.pd, 64);
    for wr_id in 0..40 {
        raw::recv_shared(&mut shared.srq, wr_id, &[to.sge(0, 64)]).unwrap();
    }
    for wr_id in 0..40_u64 {
        let qp = (wr_id * 5 % 8) as usize;
        assert_eq!(shared.message(qp), wr_id);
        assert_eq!(to.get(0, 6), b"shared");
    }
    nothing(&mut shared.cq);
}

#[test]
fn a_queue_pair_with_a_shared_queue_has_none_of_its_own() {
    let mut shared = shared(8, 1);
    let failed = raw::recv(&mut shared.qps[0], 1, &[]).unwrap_err();
    assert_eq!(failed.error, PostError::UnsupportedOperation);
    let caps = shared.qps[0].query().unwrap().caps;
    assert_eq!(caps.max_recv_wr, 0);
}

#[test]
fn a_full_queue_takes_no_more_until_something_is_received() {
    let mut shared = shared(8, 1);
    let to = Registered::local(&shared.pd, 64);
    let posted = shared.fill(0, &to);
    assert_eq!(posted, u64::from(shared.srq.size().max_wr));
    assert_eq!(shared.message(0), 0);
    let many = vec![to.sge(0, 1); shared.srq.size().max_sge as usize + 1];
    let failed = raw::recv_shared(&mut shared.srq, 0, &many).unwrap_err();
    assert!(matches!(failed.error, PostError::TooManySges { .. }));
    raw::recv_shared(&mut shared.srq, 99, &[to.sge(0, 64)]).unwrap();
    let failed = raw::recv_shared(&mut shared.srq, 99, &[to.sge(0, 64)]).unwrap_err();
    assert_eq!(failed.error, PostError::QueueFull);
}

#[test]
fn rxe_a_queue_grows_with_requests_inside() {
    let mut shared = shared(8, 2);
    let to = Registered::local(&shared.pd, 64);
    // Somewhere in the middle of the ring, so that the moved requests have wrapped.
    for wr_id in 0..5 {
        raw::recv_shared(&mut shared.srq, wr_id, &[to.sge(0, 64)]).unwrap();
        assert_eq!(shared.message(0), wr_id);
    }
    let full = shared.fill(100, &to);
    shared.srq.modify(&SrqModify::new().max_wr(100)).unwrap();
    let attr = shared.srq.query().unwrap();
    assert!(attr.max_wr >= 100);
    assert_eq!(attr, shared.srq.size());
    let more = shared.fill(100 + full, &to);
    assert_eq!(full + more, u64::from(attr.max_wr));
    for wr_id in 100..100 + full + more {
        assert_eq!(shared.message((wr_id % 2) as usize), wr_id);
    }
    nothing(&mut shared.cq);
}

#[test]
fn rxe_a_queue_shrinks_with_requests_inside_and_not_below_them() {
    let mut shared = shared(100, 1);
    let to = Registered::local(&shared.pd, 64);
    for wr_id in 0..20 {
        raw::recv_shared(&mut shared.srq, wr_id, &[to.sge(0, 64)]).unwrap();
    }
    let before = shared.srq.query().unwrap();
    let error = shared.srq.modify(&SrqModify::new().max_wr(10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(shared.srq.query().unwrap(), before);
    assert_eq!(shared.message(0), 0, "the queue works as before");
    shared.srq.modify(&SrqModify::new().max_wr(25)).unwrap();
    let after = shared.srq.query().unwrap();
    assert!(
        after.max_wr >= 25 && after.max_wr < before.max_wr,
        "{after:?}"
    );
    let free = shared.fill(20, &to);
    assert_eq!(free + 19, u64::from(after.max_wr));
    for wr_id in 1..20 + free {
        assert_eq!(shared.message(0), wr_id);
    }
}

#[test]
fn rxe_a_queue_is_resized_repeatedly_under_traffic() {
    let mut shared = shared(16, 4);
    let to = Registered::local(&shared.pd, 64);
    let (mut posted, mut received) = (0, 0);
    for round in 0..60_usize {
        for _ in 0..8 {
            raw::recv_shared(&mut shared.srq, posted, &[to.sge(0, 64)]).unwrap();
            posted += 1;
        }
        let size = [200, 20, 64, 17][round % 4];
        shared.srq.modify(&SrqModify::new().max_wr(size)).unwrap();
        for _ in 0..8 {
            assert_eq!(shared.message(round % 4), received);
            received += 1;
        }
    }
    assert_eq!(posted, received);
}

#[test]
fn rxe_if_anything_is_invalid_nothing_is_changed() {
    let mut shared = shared(15, 1);
    let to = Registered::local(&shared.pd, 64);
    shared.srq.modify(&SrqModify::new().limit(3)).unwrap();
    for wr_id in 0..10 {
        raw::recv_shared(&mut shared.srq, wr_id, &[to.sge(0, 64)]).unwrap();
    }
    let before = shared.srq.query().unwrap();
    assert_eq!((before.max_wr, before.limit), (15, 3));
    let max = shared.context.device_attr().max_srq_wr;
    let changes = [
        // A valid size with a limit above the present size.
        SrqModify::new().max_wr(100).limit(50),
        // A valid limit with a size that is impossible, or too small for the requests inside.
        SrqModify::new().max_wr(max + 1).limit(5),
        SrqModify::new().max_wr(0).limit(5),
        SrqModify::new().max_wr(7).limit(5),
        SrqModify::new().limit(u32::MAX),
    ];
    for change in changes {
        let error = shared.srq.modify(&change).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::LimitExceeded
            ),
            "{change:?}: {error}"
        );
        assert_eq!(shared.srq.query().unwrap(), before, "{change:?}");
        assert_eq!(shared.srq.size().max_wr, before.max_wr, "{change:?}");
    }
    for wr_id in 0..10 {
        assert_eq!(shared.message(0), wr_id);
    }
}

#[test]
fn mlx5_queues_keep_their_size() {
    let mut shared = shared(15, 1);
    shared.srq.modify(&SrqModify::new().limit(3)).unwrap();
    let before = shared.srq.query().unwrap();
    for change in [
        SrqModify::new().max_wr(100),
        SrqModify::new().max_wr(100).limit(10),
    ] {
        let error = shared.srq.modify(&change).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(shared.srq.query().unwrap(), before);
    }
}

#[test]
fn rxe_size_and_limit_are_changed_at_once() {
    let mut shared = shared(15, 1);
    shared
        .srq
        .modify(&SrqModify::new().max_wr(100).limit(10))
        .unwrap();
    let attr = shared.srq.query().unwrap();
    assert!(attr.max_wr >= 100);
    assert_eq!(attr.limit, 10);
    shared.srq.modify(&SrqModify::new()).unwrap();
    assert_eq!(shared.srq.query().unwrap(), attr, "nothing was requested");
}

#[test]
fn a_queue_in_use_cannot_be_destroyed_and_lives_on() {
    let mut shared = shared(8, 2);
    let to = Registered::local(&shared.pd, 64);
    raw::recv_shared(&mut shared.srq, 5, &[to.sge(0, 64)]).unwrap();
    assert_eq!(shared.srq.destroy().unwrap_err().kind(), ErrorKind::Busy);
    let bytes: [&[u8]; 1] = [b"lives"];
    raw::send(
        &mut shared.qps[1],
        &[SendRequest::send_inline(&bytes).signaled()],
    )
    .unwrap();
    let done = drain(&mut shared.cq, 2);
    assert!(done.iter().any(|done| done.wr_id == 5 && done.is_success()));
    assert_eq!(to.get(0, 5), b"lives");
    drop(shared.qps);
    assert_eq!(shared.context.leaked(), 0);
}

#[test]
fn a_queue_of_another_context_is_refused() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let foreign = open().alloc_pd().unwrap().create_srq(8, 1).unwrap();
    let error = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(&foreign)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
