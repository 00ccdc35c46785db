//! The limit of a shared receive queue: armed, reached, reported in the right place, armed again.

use std::time::Duration;

use uverbs::attr::SrqModify;
use uverbs::event::{AsyncEvent, AsyncEventType, EventSource};
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionQueue, Context, ProtectionDomain, QpType, QueuePair, SendRequest, SharedReceiveQueue,
};
use verbs_tests::{DEADLINE, next, open, queue_event, raw};

const SHORT: Option<Duration> = Some(Duration::from_millis(50));

struct Limited {
    context: Context,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    qp: QueuePair,
    pd: ProtectionDomain,
}

fn queue(pd: &ProtectionDomain, limit: u32, number: u64) -> SharedReceiveQueue {
    let builder = pd.shared_receive_queue(31).limit(limit);
    builder.user_data(number).build().unwrap()
}

fn connect(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue) -> QueuePair {
    // Where nothing is signaled, a ConnectX frees no place in the send queue.
    let builder = pd
        .queue_pair(QpType::Rc, cq, cq)
        .srq(srq)
        .max_send_wr(256)
        .timeout(AckTimeout::code(14).unwrap());
    let prepared = builder.build().unwrap();
    let own = prepared.endpoint();
    prepared.handshake(own).unwrap()
}

fn limited(limit: u32) -> Limited {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(256).unwrap();
    let srq = queue(&pd, limit, 0x5152);
    let qp = connect(&pd, &cq, &srq);
    Limited {
        context,
        cq,
        srq,
        qp,
        pd,
    }
}

fn post(srq: &mut SharedReceiveQueue, count: u64) {
    for wr_id in 0..count {
        raw::recv_shared(srq, wr_id, &[]).unwrap();
    }
}

/// Receives `count` messages.
fn receive(qp: &mut QueuePair, cq: &mut CompletionQueue, count: u64) {
    for _ in 0..count {
        raw::send(qp, &[SendRequest::send(&[])]).unwrap();
        assert!(next(cq).is_success());
    }
}

fn is_reached(event: Option<AsyncEvent>, user_data: u64) -> bool {
    event.is_some_and(|event| {
        event.event == AsyncEventType::SrqLimitReached
            && event.source == EventSource::SharedReceiveQueue { user_data }
    })
}

#[test]
fn one_event_when_fewer_are_left_than_the_limit() {
    let mut q = limited(0);
    post(&mut q.srq, 10);
    q.srq.modify(&SrqModify::new().limit(4)).unwrap();
    assert_eq!(q.srq.query().unwrap().limit, 4);
    receive(&mut q.qp, &mut q.cq, 6);
    // Four are left, which is not fewer than four.
    assert_eq!(queue_event(&q.context, SHORT), None);
    assert_eq!(q.srq.query().unwrap().limit, 4);
    receive(&mut q.qp, &mut q.cq, 1);
    let event = queue_event(&q.context, Some(DEADLINE));
    assert!(is_reached(event, 0x5152), "{event:?}");
    assert_eq!(q.srq.query().unwrap().limit, 0, "it is disarmed");
    receive(&mut q.qp, &mut q.cq, 2);
    assert_eq!(queue_event(&q.context, SHORT), None, "one event alone");
}

#[test]
fn a_limit_is_armed_repeatedly() {
    let mut q = limited(0);
    post(&mut q.srq, 2);
    for _ in 0..5 {
        post(&mut q.srq, 4);
        q.srq.modify(&SrqModify::new().limit(3)).unwrap();
        receive(&mut q.qp, &mut q.cq, 3);
        assert_eq!(queue_event(&q.context, SHORT), None);
        receive(&mut q.qp, &mut q.cq, 1);
        let event = queue_event(&q.context, Some(DEADLINE));
        assert!(is_reached(event, 0x5152), "{event:?}");
    }
    drop(q.qp);
    assert_eq!(q.srq.destroy().unwrap().asynchronous, 5);
}

#[test]
fn a_disarmed_limit_raises_no_event() {
    let mut q = limited(0);
    post(&mut q.srq, 5);
    q.srq.modify(&SrqModify::new().limit(4)).unwrap();
    q.srq.modify(&SrqModify::new().limit(0)).unwrap();
    assert_eq!(q.srq.query().unwrap().limit, 0);
    receive(&mut q.qp, &mut q.cq, 5);
    assert_eq!(queue_event(&q.context, SHORT), None);
    drop(q.qp);
    assert_eq!(q.srq.destroy().unwrap().asynchronous, 0);
}

#[test]
fn rxe_armed_when_it_is_created() {
    let mut q = limited(2);
    assert_eq!(q.srq.query().unwrap().limit, 2);
    post(&mut q.srq, 3);
    receive(&mut q.qp, &mut q.cq, 1);
    assert_eq!(queue_event(&q.context, SHORT), None);
    receive(&mut q.qp, &mut q.cq, 1);
    let event = queue_event(&q.context, Some(DEADLINE));
    assert!(is_reached(event, 0x5152), "{event:?}");
}

#[test]
fn mlx5_armed_when_it_is_created_it_is_below_its_limit_at_once() {
    let q = limited(2);
    let event = queue_event(&q.context, Some(DEADLINE));
    assert!(is_reached(event, 0x5152), "{event:?}");
    assert_eq!(q.srq.query().unwrap().limit, 0, "an event disarms it");
}

#[test]
fn rxe_the_limit_survives_a_resize() {
    let mut q = limited(0);
    post(&mut q.srq, 10);
    q.srq.modify(&SrqModify::new().limit(5)).unwrap();
    q.srq.modify(&SrqModify::new().max_wr(200)).unwrap();
    assert_eq!(q.srq.query().unwrap().limit, 5);
    receive(&mut q.qp, &mut q.cq, 5);
    assert_eq!(queue_event(&q.context, SHORT), None);
    receive(&mut q.qp, &mut q.cq, 1);
    let event = queue_event(&q.context, Some(DEADLINE));
    assert!(is_reached(event, 0x5152), "{event:?}");
}

#[test]
fn each_queue_has_its_own_events() {
    let mut q = limited(0);
    let mut others: Vec<_> = (1..=4_u64)
        .map(|number| {
            let srq = queue(&q.pd, 0, number);
            let qp = connect(&q.pd, &q.cq, &srq);
            (srq, qp, number)
        })
        .collect();
    for (srq, _, _) in &mut others {
        post(srq, 2);
        srq.modify(&SrqModify::new().limit(2)).unwrap();
    }
    others.swap(0, 2);
    for (_, qp, number) in &mut others {
        receive(qp, &mut q.cq, 1);
        let event = queue_event(&q.context, Some(DEADLINE));
        assert!(is_reached(event, *number), "{number}: {event:?}");
    }
}

#[test]
fn f09_an_unread_event_blocks_no_destroy() {
    let mut q = limited(1);
    post(&mut q.srq, 1);
    receive(&mut q.qp, &mut q.cq, 1);
    drop(q.qp);
    // The kernel discards unread events, and counts the others.
    assert_eq!(q.srq.destroy().unwrap().asynchronous, 0);
    assert_eq!(queue_event(&q.context, SHORT), None);
    assert_eq!(q.context.leaked(), 0);
}
