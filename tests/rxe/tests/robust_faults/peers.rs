//! A peer that does not exist, or disappears.

use uverbs::owned::{Finished, QueuePair, Work};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{CompletionQueue, ProtectionDomain, QpType, WcStatus};
use verbs_tests::until;

use crate::support::kernel_log::{FAILED_REQUEST, excuse};
use crate::support::objects::Objects;

/// Two ends on one device.
struct Ends {
    a: QueuePair,
    b: QueuePair,
    cq: CompletionQueue,
    b_cq: CompletionQueue,
    pd: ProtectionDomain,
}

fn ends() -> Ends {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let (cq, b_cq) = (
        context.create_cq(64).expect("a queue"),
        context.create_cq(64).expect("a queue"),
    );
    let build = |cq| {
        // 4 ms until it is retransmitted, once.
        let builder = pd
            .queue_pair(QpType::Rc, cq, cq)
            .timeout(AckTimeout::code(10).expect("legal"))
            .retry_count(RetryCount::new(1).expect("legal"))
            .max_send_wr(32)
            .max_recv_wr(32);
        builder.build().expect("a queue pair")
    };
    let (a, b) = (build(&cq), build(&b_cq));
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let a = QueuePair::new(a.handshake(to_b).expect("connected"));
    let b = QueuePair::new(b.handshake(to_a).expect("connected"));
    Ends { a, b, cq, b_cq, pd }
}

fn finish(qp: &mut QueuePair, cq: &mut CompletionQueue, count: usize) -> Vec<Finished> {
    let mut next = || {
        until("a completion", || {
            let done = cq.poll().expect("polled")?;
            Some(qp.complete(done).expect("a request of this queue pair"))
        })
    };
    (0..count).map(|_| next()).collect()
}

/// The first request exhausts its retries; all requests behind it are flushed, in order.
#[test]
fn f28_an_unreachable_peer() {
    excuse(FAILED_REQUEST);
    let before = Objects::now();
    let Ends {
        mut a,
        b,
        mut cq,
        b_cq,
        pd,
    } = ends();
    b.destroy().expect("destroyed");
    for (context, buffer) in (100..).zip(pd.buffer_list(12, 64).expect("buffers")) {
        a.post(Work::send().memory(buffer).user_data(context))
            .expect("posted");
    }
    for (context, buffer) in (200..).zip(pd.buffer_list(3, 64).expect("buffers")) {
        a.recv(buffer, context).expect("posted");
    }
    let done = finish(&mut a, &mut cq, 15);
    let sends: Vec<_> = done.iter().filter(|done| done.user_data() < 200).collect();
    let receives: Vec<_> = done
        .iter()
        .filter(|done| done.user_data() >= 200)
        .map(Finished::user_data)
        .collect();
    assert_eq!(sends[0].status(), WcStatus::RetryExceeded);
    assert!(
        sends[1..]
            .iter()
            .all(|done| done.status() == WcStatus::Flushed)
    );
    let order: Vec<_> = sends.iter().map(|done| done.user_data()).collect();
    assert_eq!(order, (100..112).collect::<Vec<_>>());
    assert_eq!(receives, [200, 201, 202]);
    assert_eq!((a.sends_posted(), a.receives_posted()), (0, 0));
    drop((done, a, cq, b_cq, pd));
    before.return_in_time();
}

/// The peer is destroyed while messages are under way: what was posted finishes in one way or the
/// other.
#[test]
fn f25_a_peer_that_is_destroyed_during_traffic() {
    excuse(FAILED_REQUEST);
    let before = Objects::now();
    for round in 0..10 {
        let Ends {
            mut a,
            mut b,
            mut cq,
            b_cq,
            pd,
        } = ends();
        for buffer in pd.buffer_list(16, 4096).expect("buffers") {
            b.recv(buffer, 0).expect("posted");
        }
        let mut posted = 0;
        for (context, buffer) in (0..).zip(pd.buffer_list(16, 4096).expect("buffers")) {
            a.post(Work::send().memory(buffer).user_data(context))
                .expect("posted");
            posted += 1;
            if context == round {
                let received = b.receives_posted();
                let returned = std::mem::replace(&mut b, unconnected(&pd, &b_cq))
                    .destroy()
                    .expect("destroyed");
                assert_eq!(returned.len(), received, "the peer's buffers come back");
            }
        }
        let done = finish(&mut a, &mut cq, posted);
        let order: Vec<_> = done.iter().map(Finished::user_data).collect();
        assert_eq!(order, (0..16).collect::<Vec<_>>(), "in their order");
        let first_failed = done.iter().position(|done| !done.status().is_success());
        let failed = &done[first_failed.expect("the last one had no receiver")..];
        assert_eq!(failed[0].status(), WcStatus::RetryExceeded, "round {round}");
        assert!(
            failed[1..]
                .iter()
                .all(|done| done.status() == WcStatus::Flushed)
        );
        println!(
            "round {round}: {} sent, {} not",
            16 - failed.len(),
            failed.len()
        );
    }
    before.return_in_time();
}

/// A queue pair that does nothing.
fn unconnected(pd: &ProtectionDomain, cq: &CompletionQueue) -> QueuePair {
    QueuePair::new(
        pd.queue_pair(QpType::Rc, cq, cq)
            .build()
            .expect("a queue pair")
            .into_raw(),
    )
}

/// The receiver permanently has no buffer: the sender gives up after the given number of retries.
#[test]
fn f28_a_peer_that_never_receives() {
    excuse(FAILED_REQUEST);
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let mut cq = context.create_cq(64).expect("a queue");
    let builder = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .rnr_retry(RnrRetry::new(2).expect("legal"))
        .min_rnr_timer(RnrTimer::code(1).expect("legal"));
    let prepared = builder.build().expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    for context in 0..4 {
        qp.post(Work::send().user_data(context)).expect("posted");
    }
    let done = finish(&mut qp, &mut cq, 4);
    assert_eq!(done[0].status(), WcStatus::RnrRetryExceeded);
    assert!(
        done[1..]
            .iter()
            .all(|done| done.status() == WcStatus::Flushed)
    );
}
