//! Which request a completion belongs to: what a safe program cannot make an owned queue believe.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use fake_tests::{Bench, Loopback};
use uverbs::owned::{self, SharedReceiveQueue};
use uverbs::request::RESERVED_WR_IDS;
use uverbs::{Context, Payload, PostError, ProtectionDomain, QpType, SendRequest, WcStatus};

/// Two queue pairs of a shared receive queue, connected to each other, and their completion queue.
fn pair(
    pd: &ProtectionDomain,
    cq: &uverbs::CompletionQueue,
    srq: &SharedReceiveQueue,
) -> (owned::QueuePair, owned::QueuePair) {
    let [near, far] = [(), ()].map(|()| {
        pd.queue_pair(QpType::Rc, cq, cq)
            .srq(srq.queue())
            .gid_index(1)
            .build()
            .unwrap()
    });
    let (near_end, far_end) = (near.endpoint(), far.endpoint());
    (
        owned::QueuePair::new(near.handshake(far_end).unwrap()),
        owned::QueuePair::new(far.handshake(near_end).unwrap()),
    )
}

fn opened() -> (Context, ProtectionDomain) {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    (context, pd)
}

#[test]
fn a_request_of_a_user_cannot_have_an_id_of_an_owned_queue() {
    let (context, pd) = opened();
    let cq = context.create_cq(32).unwrap();
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let mut qp = prepared.handshake(endpoint).unwrap();
    let mut batch = qp.send_batch();
    let bytes: [&[u8]; 1] = [b"text"];
    for (id, expected) in [
        (0, Ok(())),
        (RESERVED_WR_IDS - 1, Ok(())),
        (RESERVED_WR_IDS, Err(PostError::ReservedId)),
        (u64::MAX, Err(PostError::ReservedId)),
    ] {
        let request = SendRequest::send_inline(&bytes).wr_id(id);
        assert_eq!(batch.push_inline(&request), expected, "{id:#x}");
        let nothing = SendRequest::new(uverbs::Operation::Send, Payload::NONE).wr_id(id);
        assert_eq!(batch.push_inline(&nothing), expected, "{id:#x}");
    }
}

#[test]
fn contexts_devices_and_times_have_no_id_in_common() {
    let mut seen = std::collections::HashSet::new();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..3 {
        let (context, _pd) = opened();
        for _ in 0..3 {
            assert!(seen.insert(context.create_cq(8).unwrap().id()));
        }
        let mut looped = Loopback::new(&context).unwrap();
        for round in 0..3 {
            looped.qp.recv_empty(round).unwrap();
            looped.qp.send_inline(b"", round).unwrap();
        }
        while let Some(completion) = looped.cq.poll().unwrap() {
            assert!(ids.insert(completion.wr_id), "{completion:?}");
        }
    }
    assert_eq!(ids.len(), 18);
}

#[test]
fn a_completion_taken_by_one_queue_is_gone_and_given_back_by_others() {
    let (context, _pd) = opened();
    let (mut one, mut two) = (
        Loopback::new(&context).unwrap(),
        Loopback::new(&context).unwrap(),
    );
    let [buffer] = one.pd.buffers::<1>(8).unwrap();
    one.qp.recv(buffer, 1).unwrap();
    let [message] = one.pd.buffers::<1>(8).unwrap();
    one.qp.send(message, 8, 2).unwrap();
    let [waiting] = two.pd.buffers::<1>(8).unwrap();
    two.qp.recv(waiting, 1).unwrap();
    let mut contexts = Vec::new();
    while let Some(completion) = one.cq.poll().unwrap() {
        let id = completion.wr_id;
        assert!(id >= RESERVED_WR_IDS);
        let completion = two.qp.complete(completion).unwrap_err();
        assert_eq!(completion.wr_id, id);
        contexts.push(one.qp.complete(completion).unwrap().user_data());
    }
    contexts.sort_unstable();
    assert_eq!(contexts, [1, 2]);
    assert_eq!(two.qp.receives_posted(), 1);
}

#[test]
fn completions_from_before_a_reset_complete_nothing() {
    let (context, pd) = opened();
    let mut looped = Loopback::new(&context).unwrap();
    let [old, message] = looped.pd.buffers::<2>(8).unwrap();
    looped.qp.recv(old, 1).unwrap();
    looped.qp.send(message, 8, 2).unwrap();
    // Both are done, and neither has been polled.
    let memory = looped.qp.reset().unwrap();
    assert_eq!(memory.len(), 2);
    drop(pd);
    while let Some(completion) = looped.cq.poll().unwrap() {
        assert!(looped.qp.complete(completion).is_err());
    }
}

#[test]
fn receives_whose_completions_went_with_their_queue_come_back_from_the_shared_one() {
    let (context, pd) = opened();
    let mut srq = SharedReceiveQueue::new(pd.create_srq(8, 1).unwrap());
    for round in 0..20 {
        let cq = context.create_cq(32).unwrap();
        let (mut near, far) = pair(&pd, &cq, &srq);
        let [room] = pd.buffers::<1>(8).unwrap();
        srq.recv(room, round).unwrap();
        let [message] = pd.buffers::<1>(8).unwrap();
        near.send(message, 8, 0).unwrap();
        // In either order: the kernel's queue stays until its queue pairs are gone.
        if round % 2 == 0 {
            drop((near, far));
            drop(cq);
        } else {
            drop(cq);
            assert!(srq.unpolled().is_none(), "nobody knows yet");
            drop((near, far));
        }
        let finished = srq.unpolled().unwrap();
        assert_eq!(finished.user_data(), round);
        assert_eq!(finished.status(), WcStatus::Flushed);
        assert_eq!((finished.len(), finished.imm()), (0, None));
        assert!(finished.into_buffer().is_some());
        assert!(srq.unpolled().is_none());
        assert_eq!(srq.receives_posted(), 0);
    }
    assert_eq!(context.leaked(), 0);
}
