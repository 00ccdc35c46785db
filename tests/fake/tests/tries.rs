//! Destroys that fail: what is returned, what is leaked, and what becomes of posted memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fake_tests::{Bench, Loopback};
use uverbs::owned::{self, Memory};
use uverbs::{Context, ErrorKind, Gid, QpType};
use uverbs_core::error::Errno;
use uverbs_fake::{CallKind, Effect, When};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_METHOD_QP_DESTROY, UVERBS_METHOD_SRQ_DESTROY, UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ,
};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_DETACH_MCAST;

const OF_QP: (u16, u16) = (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY);
const OF_SRQ: (u16, u16) = (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY);

fn refuse(bench: &Bench, (object, method): (u16, u16), errno: Errno) {
    bench.inject(When::Method(object, method), Effect::Fail(errno));
}

/// How often the kernel was called to destroy such an object.
fn destroys(bench: &Bench, (object, method): (u16, u16)) -> usize {
    let refused = CallKind::Method(object, method);
    assert!(refused.is_destroy());
    let seen = bench.fake.seen();
    seen.iter().filter(|seen| seen.call == refused).count()
}

/// A queue pair with two posted buffers.
fn posted(context: &Context) -> Loopback {
    let mut looped = Loopback::new(context).unwrap();
    for (number, buffer) in (0..).zip(looped.buffers::<2>(8).unwrap()) {
        looped.qp.recv(buffer, number).unwrap();
    }
    looped
}

fn shared(pd: &uverbs::ProtectionDomain) -> owned::SharedReceiveQueue {
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(8, 1).unwrap());
    for (number, buffer) in (0..).zip(pd.buffers::<2>(8).unwrap()) {
        srq.recv(buffer, number).unwrap();
    }
    srq
}

#[test]
fn a_queue_pair_comes_back_with_its_memory_and_goes_on() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let Loopback { qp, mut cq, pd } = posted(&context);
    refuse(&bench, OF_QP, Errno::BUSY);
    let refused = qp.try_destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    assert_eq!((context.leaked(), destroys(&bench, OF_QP)), (0, 1));
    bench.fake.clear_faults();

    let mut qp = *refused.handle.unwrap();
    assert_eq!(qp.receives_posted(), 2);
    let [message] = pd.buffers::<1>(8).unwrap();
    qp.send(message, 8, 7).unwrap();
    let mut done = Vec::new();
    while let Some(completion) = cq.poll().unwrap() {
        done.push(qp.complete(completion).unwrap().user_data());
    }
    done.sort_unstable();
    assert_eq!(done, [0, 7]);

    let memory = qp.try_destroy().unwrap();
    assert!(matches!(memory[..], [Memory::Buffer(..)]));
    assert_eq!((context.leaked(), destroys(&bench, OF_QP)), (0, 2));
    assert_eq!(bench.fake.objects().qps, 0);
}

#[test]
fn what_comes_back_and_is_dropped_is_destroyed_or_given_up() {
    for refused_again in [false, true] {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let Loopback { qp, .. } = posted(&context);
        refuse(&bench, OF_QP, Errno::BUSY);
        let refused = qp.try_destroy().unwrap_err();
        if !refused_again {
            bench.fake.clear_faults();
        }
        drop(refused);
        assert_eq!(context.leaked(), refused_again.into());
        assert_eq!(bench.fake.objects().qps, usize::from(refused_again));
        assert_eq!(
            bench.fake.objects().mrs > 0,
            refused_again,
            "buffers are freed with the queue pair, and not without"
        );
    }
}

/// Its number in the kernel may be reused for another object, so it is not exposed.
#[test]
fn a_queue_pair_that_may_be_gone_does_not_come_back() {
    for errno in [Errno::TIMEDOUT, Errno::NOTRECOVERABLE] {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let Loopback { qp, .. } = posted(&context);
        refuse(&bench, OF_QP, errno);
        let refused = qp.try_destroy().unwrap_err();
        assert!(refused.error.outcome_is_unknown() && refused.handle.is_none());
        assert_eq!((context.leaked(), destroys(&bench, OF_QP)), (1, 1));
        assert_eq!(bench.fake.objects().mrs, 1, "posted memory stays");
    }
}

#[test]
fn destroy_is_tried_only_once() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let Loopback { qp, pd, .. } = posted(&context);
    refuse(&bench, OF_QP, Errno::BUSY);
    qp.destroy().unwrap_err();
    assert_eq!((context.leaked(), destroys(&bench, OF_QP)), (1, 1));

    refuse(&bench, OF_SRQ, Errno::BUSY);
    shared(&pd).destroy().unwrap_err();
    assert_eq!((context.leaked(), destroys(&bench, OF_SRQ)), (2, 1));
    assert_eq!(bench.fake.objects().mrs, 2, "posted memory stays");
}

#[test]
fn a_queue_pair_that_comes_back_has_left_its_groups() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let prepared = pd.queue_pair(QpType::Ud, &cq, &cq).build().unwrap();
    let mut qp = prepared.activate().unwrap();
    let group = Gid::from_bytes([0xff; 16]);
    qp.attach_multicast(&group, 0).unwrap();
    refuse(&bench, OF_QP, Errno::BUSY);
    let refused = qp.try_destroy().unwrap_err();
    bench.fake.clear_faults();
    refused.handle.unwrap().try_destroy().unwrap();
    let left = CallKind::Invoked(IB_USER_VERBS_CMD_DETACH_MCAST);
    let seen = bench.fake.seen();
    assert_eq!(seen.iter().filter(|seen| seen.call == left).count(), 1);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn a_shared_queue_in_use_comes_back_with_its_memory() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let srq = shared(&pd);
    let qp = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(srq.queue())
        .gid_index(1)
        .build()
        .unwrap();
    let refused = srq.try_destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    assert_eq!(destroys(&bench, OF_SRQ), 0, "the kernel is not asked");
    let mut srq = *refused.handle.unwrap();
    assert_eq!(srq.receives_posted(), 2);
    let [more] = pd.buffers::<1>(8).unwrap();
    srq.recv(more, 5).unwrap();
    drop(qp);

    refuse(&bench, OF_SRQ, Errno::BUSY);
    let refused = srq.try_destroy().unwrap_err();
    bench.fake.clear_faults();
    let memory = refused.handle.unwrap().try_destroy().unwrap();
    assert_eq!((memory.len(), context.leaked()), (3, 0));
    assert_eq!(bench.fake.objects().srqs, 0);
}

#[test]
fn queues_that_take_raw_memory_come_back_too() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let srq = pd.create_srq(8, 1).unwrap();
    let qp = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(&srq)
        .gid_index(1)
        .build()
        .unwrap()
        .into_raw();
    let srq = *srq.try_destroy().unwrap_err().handle.unwrap();
    refuse(&bench, OF_QP, Errno::BUSY);
    let mut qp = *qp.try_destroy().unwrap_err().handle.unwrap();
    qp.query().unwrap();
    bench.fake.clear_faults();
    qp.try_destroy().unwrap();
    srq.try_destroy().unwrap();
    assert_eq!(context.leaked(), 0);
    let left = bench.fake.objects();
    assert_eq!((left.qps, left.srqs), (0, 0));
}
