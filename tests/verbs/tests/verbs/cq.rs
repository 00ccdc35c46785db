//! Completion queues: sizes, order, and the consumer index over many rounds.

use uverbs::completion::Timestamps;
use uverbs::time::AckTimeout;
use uverbs::{ErrorKind, QpType, SendRequest, WcStatus, WorkCompletion};
use verbs_tests::{Pair, Registered, drain, next, nothing, open, raw};

/// Posts receives at b for everything that a is going to send.
fn receives(pair: &mut Pair, count: u64) {
    for wr_id in 0..count {
        raw::recv(&mut pair.b.qp, wr_id, &[]).unwrap();
    }
}

fn send(pair: &mut Pair, wr_ids: impl Iterator<Item = u64>) {
    for wr_id in wr_ids {
        let request = SendRequest::send(&[]).wr_id(wr_id).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
    }
}

#[test]
fn a_queue_holds_at_least_what_was_requested() {
    let context = open();
    let max = context.device_attr().max_cqe;
    for entries in [1, 2, 3, 4, 100, 1000, max] {
        let cq = context.create_cq(entries).unwrap();
        assert!(cq.entries() >= entries, "{} for {entries}", cq.entries());
        let counts = cq.destroy().unwrap();
        assert_eq!((counts.completions, counts.asynchronous), (0, 0));
    }
}

#[test]
fn sizes_that_are_impossible() {
    let context = open();
    let max = context.device_attr().max_cqe;
    let none = context.create_cq(0).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidInput, "{none}");
    for entries in [max + 1, u32::MAX] {
        let many = context.create_cq(entries).unwrap_err();
        assert_eq!(many.kind(), ErrorKind::LimitExceeded, "{many}");
    }
    let vectors = context.completion_vectors();
    let vector = context
        .completion_queue(8)
        .vector(vectors)
        .build()
        .unwrap_err();
    assert_eq!(vector.kind(), ErrorKind::InvalidInput, "{vector}");
    context
        .completion_queue(8)
        .vector(vectors - 1)
        .build()
        .unwrap();
}

#[test]
fn a_channel_of_another_context_is_refused() {
    let (one, two) = (open(), open());
    let channel = two.create_completion_channel().unwrap();
    let error = one
        .completion_queue(8)
        .channel(&channel)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_queue_in_use_cannot_be_destroyed_and_lives_on() {
    let pair = Pair::new(QpType::Rc);
    let Pair { mut a, mut b } = pair;
    assert_eq!(b.cq.destroy().unwrap_err().kind(), ErrorKind::Busy);
    raw::recv(&mut b.qp, 1, &[]).unwrap();
    raw::send(&mut a.qp, &[SendRequest::send(&[]).signaled()]).unwrap();
    assert_eq!(next(&mut a.cq).status, WcStatus::Success);
    b.qp.destroy().unwrap();
    assert_eq!(a.context.leaked(), 0);
}

/// The consumer index must be correct after every way of polling, including full and empty rings
/// (linux-rdma/rdma-core#1512: `ibv_end_poll` returned a slot that had not been consumed).
#[test]
fn nothing_is_skipped_or_delivered_twice_over_many_rounds() {
    let mut pair = Pair::new(QpType::Rc);
    // A ring of four slots wraps quickly.
    let mut small = pair.a.context.create_cq(3).unwrap();
    assert_eq!(small.entries(), 3);
    pair.a.qp = {
        let builder = pair.a.pd.queue_pair(QpType::Rc, &small, &pair.a.cq);
        let prepared = builder
            .timeout(AckTimeout::code(14).unwrap())
            .build()
            .unwrap();
        let own = prepared.endpoint();
        prepared.handshake(own).unwrap()
    };
    let mut wr_id = 0;
    for round in 0..3000_u64 {
        let count = round % 4;
        for _ in 0..count {
            raw::recv(&mut pair.a.qp, 0, &[]).unwrap();
        }
        // Empty polls before, between and after.
        if round % 3 == 0 {
            assert_eq!(
                small
                    .poll_into(&mut [WorkCompletion::default(); 4])
                    .unwrap(),
                0
            );
            assert!(small.poll().unwrap().is_none());
        }
        send(&mut pair, wr_id..wr_id + count);
        let mut got = Vec::new();
        while got.len() < count as usize {
            if round % 2 == 0 {
                got.push(next(&mut small).wr_id);
            } else {
                let mut out = [WorkCompletion::default(); 2];
                let some = small.poll_into(&mut out).unwrap();
                got.extend(out[..some].iter().map(|done| done.wr_id));
            }
        }
        assert_eq!(
            got,
            (wr_id..wr_id + count).collect::<Vec<_>>(),
            "round {round}"
        );
        assert!(small.poll().unwrap().is_none());
        wr_id += count;
        assert_eq!(drain(&mut pair.a.cq, count as usize).len(), count as usize);
    }
    nothing(&mut small);
}

#[test]
fn poll_into_takes_what_fits_and_leaves_the_rest() {
    let mut pair = Pair::new(QpType::Rc);
    receives(&mut pair, 10);
    send(&mut pair, 0..10);
    drain(&mut pair.b.cq, 10);
    let mut out = [WorkCompletion::default(); 4];
    let mut got = Vec::new();
    assert_eq!(pair.a.cq.poll_into(&mut []).unwrap(), 0);
    while got.len() < 10 {
        let some = pair.a.cq.poll_into(&mut out).unwrap();
        assert!(some <= 4);
        got.extend(out[..some].iter().map(|done| done.wr_id));
    }
    assert_eq!(got, (0..10).collect::<Vec<_>>());
}

#[test]
fn one_queue_serves_many_queue_pairs() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(256).unwrap();
    let mut qps = Vec::new();
    for _ in 0..16 {
        let builder = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .timeout(AckTimeout::code(14).unwrap());
        let prepared = builder.build().unwrap();
        let own = prepared.endpoint();
        qps.push(prepared.handshake(own).unwrap());
    }
    let memory = Registered::local(&pd, 64);
    for (qp, wr_id) in qps.iter_mut().zip(0..) {
        raw::recv(qp, 1000 + wr_id, &[memory.sge(0, 64)]).unwrap();
        let request = SendRequest::send(&[]).wr_id(wr_id).signaled();
        raw::send(qp, &[request]).unwrap();
    }
    let done = drain(&mut cq, 32);
    for (qp, wr_id) in qps.iter().zip(0..) {
        let of_qp: Vec<_> = done
            .iter()
            .filter(|done| done.qp_num == qp.qp_num())
            .collect();
        assert_eq!(of_qp.len(), 2);
        assert!(of_qp.iter().all(|done| done.is_success()));
        let ids = [wr_id, 1000 + wr_id];
        assert!(
            ids.iter()
                .all(|id| of_qp.iter().any(|done| done.wr_id == *id))
        );
    }
}

#[test]
fn every_queue_has_an_id_of_its_own() {
    let context = open();
    let (one, two) = (context.create_cq(1).unwrap(), context.create_cq(1).unwrap());
    assert_ne!(one.id(), two.id());
    let gone = one.id();
    drop(one);
    assert_ne!(context.create_cq(1).unwrap().id(), gone);
}

#[test]
fn rxe_has_no_clock_and_says_so() {
    let context = open();
    assert_eq!(context.device_attr().completion_timestamp_mask, 0);
    for timestamps in [Timestamps::Raw, Timestamps::WallClock] {
        let builder = context.completion_queue(4).timestamps(timestamps);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let mut cq = context.create_cq(4).unwrap();
    assert!(cq.poll_stamped().unwrap().is_none());
}
