//! Lifetimes of objects: drops in any order, events of destroyed objects, privileges that are lost,
//! doorbells that fail, windows and shared queues.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "a test fails by panicking, and posts a binding"
)]

use std::any::Any;

use fake_tests::{Bench, Loopback, thinned};
use uverbs::attr::SrqModify;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::memory::MwType;
use uverbs::owned::{self, Memory, Work};
use uverbs::{
    AccessFlags, Completion, ErrorKind, Operation, Payload, PostError, QpType, Remote, SendRequest,
    WcStatus,
};
use uverbs_core::CommandPath;
use uverbs_core::error::Errno;
use uverbs_fake::{CallKind, Effect, Profile, RingOf, RingView, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_POST_SEND;

#[test]
fn handles_can_be_dropped_in_any_order() {
    for rotation in 0..8 {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let channel = context.create_completion_channel().unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context
            .completion_queue(8)
            .channel(&channel)
            .build()
            .unwrap();
        let srq = pd.create_srq(8, 1).unwrap();
        let exposed = pd.expose(64, AccessFlags::REMOTE_READ).unwrap();
        let window = pd.alloc_mw(MwType::Type1).unwrap();
        let qp = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .srq(&srq)
            .gid_index(1)
            .build()
            .unwrap();
        let witness = context.clone();
        let mut all: Vec<Box<dyn Any>> = vec![
            Box::new(context),
            Box::new(channel),
            Box::new(pd),
            Box::new(cq),
            Box::new(srq),
            Box::new(exposed),
            Box::new(window),
            Box::new(qp),
        ];
        all.rotate_left(rotation);
        drop(all);
        assert_eq!(witness.leaked(), 0, "rotated by {rotation}");
        drop(witness);
        assert_eq!(bench.fake.objects().total(), 0, "rotated by {rotation}");
    }
}

#[test]
fn repeated_setup_and_teardown_leaves_nothing() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut before = None;
    for _ in thinned(0..200, 20) {
        let mut looped = Loopback::new(&context).unwrap();
        let [message, room] = looped.buffers::<2>(8).unwrap();
        looped.qp.recv(room, 1).unwrap();
        looped.qp.send(message, 8, 2).unwrap();
        assert_eq!(looped.finish(2).unwrap().len(), 2);
        drop(looped);
        let now = bench.fake.objects();
        assert_eq!(*before.get_or_insert(now), now);
    }
}

#[test]
fn f19_a_process_that_lost_its_rights_goes_on_posting() {
    let bench = Bench::new(Profile::v6_1(), CommandPath::Auto);
    let context = bench.context().unwrap();
    let mut looped = Loopback::new(&context).unwrap();
    // The effect of setuid: write(2) returns EACCES from now on.
    bench.fake.become_profile(Profile::v6_1().without_write());
    let [message, room] = looped.buffers::<2>(8).unwrap();
    looped.qp.recv(room, 1).unwrap();
    let before = bench.fake.seen().len();
    looped.qp.send(message, 8, 2).unwrap();
    assert_eq!(looped.finish(2).unwrap().len(), 2);
    let commands: Vec<_> = bench.fake.seen()[before..]
        .iter()
        .map(|seen| seen.call)
        .filter(|call| matches!(call, CallKind::Written(_) | CallKind::Invoked(_)))
        .collect();
    let doorbell = IB_USER_VERBS_CMD_POST_SEND;
    assert_eq!(
        commands,
        [CallKind::Written(doorbell), CallKind::Invoked(doorbell)],
        "rung again at once"
    );
    let [message, room] = looped.buffers::<2>(8).unwrap();
    looped.qp.recv(room, 3).unwrap();
    let before = bench.fake.seen().len();
    looped.qp.send(message, 8, 4).unwrap();
    assert_eq!(looped.finish(2).unwrap().len(), 2);
    let commands: Vec<_> = bench.fake.seen()[before..]
        .iter()
        .map(|seen| seen.call)
        .filter(|call| matches!(call, CallKind::Written(_) | CallKind::Invoked(_)))
        .collect();
    assert_eq!(
        commands,
        [CallKind::Invoked(doorbell)],
        "written once, never again"
    );
}

#[test]
fn f19_a_request_whose_doorbell_is_refused_is_never_executed() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut looped = Loopback::new(&context).unwrap();
    let number = looped.qp.qp_num();
    let [message, room, another] = looped.buffers::<3>(8).unwrap();
    looped.qp.recv(room, 1).unwrap();
    let ring = bench.ring(RingOf::Send(number)).unwrap();
    let before = ring.load(RingView::PRODUCER);
    bench.inject(
        When::Command(IB_USER_VERBS_CMD_POST_SEND),
        Effect::Fail(Errno::ACCESS),
    );
    let refused = looped.qp.send(message, 8, 2).unwrap_err();
    assert_eq!(refused.error, PostError::Doorbell(Errno::ACCESS));
    assert_eq!(ring.load(RingView::PRODUCER), before);
    bench.fake.clear_faults();
    // The kernel may have read the ring meanwhile, so the queue accepts no more.
    let refused_too = looped.qp.send(another, 8, 3).unwrap_err();
    assert_eq!(refused_too.error, PostError::Poisoned);
    bench.fake.freeze(false);
    assert!(looped.finish(1).unwrap().is_empty());
    let back = looped.qp.destroy().unwrap();
    let buffers = back
        .iter()
        .filter(|memory| matches!(memory, Memory::Buffer(..)))
        .count();
    // The receive, and the message unless its refusal returned it.
    assert_eq!(buffers + usize::from(refused.work.is_some()), 2);
}

#[test]
fn f19_a_doorbell_that_is_refused_while_others_are_under_way_leaves_its_request() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut looped = Loopback::new(&context).unwrap();
    let number = looped.qp.qp_num();
    let [one, other, first_room, room] = looped.buffers::<4>(8).unwrap();
    looped.qp.recv(first_room, 1).unwrap();
    looped.qp.recv(room, 2).unwrap();
    bench.fake.freeze(true);
    looped.qp.send(one, 8, 3).unwrap();
    let ring = bench.ring(RingOf::Send(number)).unwrap();
    let before = ring.load(RingView::PRODUCER);
    bench.inject(
        When::Command(IB_USER_VERBS_CMD_POST_SEND),
        Effect::Fail(Errno::ACCESS),
    );
    let refused = looped.qp.send(other, 8, 4).unwrap_err();
    assert_eq!(refused.error, PostError::Doorbell(Errno::ACCESS));
    assert!(refused.work.is_none(), "the kernel may have seen it");
    assert_eq!(ring.load(RingView::PRODUCER), before + 1);
    bench.fake.clear_faults();
    // The kernel continues, and reaches the second by itself.
    bench.fake.freeze(false);
    let mut ended: Vec<_> = looped.finish(4).unwrap();
    ended.sort_by_key(owned::Finished::user_data);
    let numbers: Vec<_> = ended.iter().map(owned::Finished::user_data).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(ring.load(RingView::CONSUMER), before + 1);
}

#[test]
fn f25_a_completion_of_a_destroyed_queue_pair_belongs_to_no_other() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut first = Loopback::new(&context).unwrap();
    let [message, room] = first.buffers::<2>(8).unwrap();
    first.qp.recv(room, 1).unwrap();
    first.qp.send(message, 8, 2).unwrap();
    let Loopback { qp, mut cq, pd } = first;
    assert_eq!(qp.destroy().unwrap().len(), 2);
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let mut second = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let room = pd.buffers::<1>(8).unwrap();
    let [room] = room;
    second.recv(room, 1).unwrap();
    let mut stale = 0;
    while let Some(completion) = cq.poll().unwrap() {
        assert!(second.complete(completion).is_err());
        stale += 1;
    }
    assert_eq!(stale, 2);
    assert_eq!(second.receives_posted(), 1);
}

#[test]
fn a_shared_queue_says_when_it_runs_low_and_changes_all_or_nothing() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(8, 1).unwrap());
    let [near, far] = [(), ()].map(|()| {
        pd.queue_pair(QpType::Rc, &cq, &cq)
            .srq(srq.queue())
            .gid_index(1)
            .build()
            .unwrap()
    });
    let (near_end, far_end) = (near.endpoint(), far.endpoint());
    let mut near = owned::QueuePair::new(near.handshake(far_end).unwrap());
    let far = owned::QueuePair::new(far.handshake(near_end).unwrap());
    for (number, buffer) in (0..).zip(pd.buffers::<4>(8).unwrap()) {
        srq.recv(buffer, number).unwrap();
    }
    // A limit above the size is invalid, so the size must not change either.
    let size = srq.queue().query().unwrap();
    let refused = srq
        .modify(&SrqModify {
            max_wr: Some(64),
            limit: Some(1 << 19),
        })
        .unwrap_err();
    assert!(
        matches!(
            refused.kind(),
            ErrorKind::InvalidInput | ErrorKind::LimitExceeded
        ),
        "{refused}"
    );
    assert_eq!(srq.queue().query().unwrap(), size);

    srq.modify(&SrqModify {
        max_wr: None,
        limit: Some(3),
    })
    .unwrap();
    for number in 10..12 {
        let [message] = pd.buffers::<1>(8).unwrap();
        near.send(message, 8, number).unwrap();
    }
    let event = context.try_async_event().unwrap();
    assert_eq!(event.event, AsyncEventType::SrqLimitReached);
    assert!(matches!(
        event.source,
        EventSource::SharedReceiveQueue { .. }
    ));
    assert_eq!(srq.queue().query().unwrap().limit, 0);
    let mut received = 0;
    while let Some(completion) = cq.poll().unwrap() {
        match srq.complete(completion) {
            Ok(_) => received += 1,
            Err(completion) => drop(near.complete(completion)),
        }
    }
    assert_eq!(received, 2);
    assert_eq!(srq.receives_posted(), 2);
    drop((near, far));
    assert_eq!(srq.destroy().unwrap().len(), 2);
}

#[test]
fn a_window_opens_and_closes_a_part_of_a_region() {
    for kind in [MwType::Type1, MwType::Type2] {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let pd = context.alloc_pd().unwrap();
        let mut cq = context.create_cq(32).unwrap();
        let remote = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let [near, far] = [(), ()].map(|()| {
            pd.queue_pair(QpType::Rc, &cq, &cq)
                .access(remote)
                .gid_index(1)
                .build()
                .unwrap()
        });
        let (near_end, far_end) = (near.endpoint(), far.endpoint());
        let mut near = owned::QueuePair::new(near.handshake(far_end).unwrap());
        let mut far = far.handshake(near_end).unwrap();

        let mut memory = vec![0_u64; 16];
        let start = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector outlives the region, holds plain words, and is read only when no write
        // is under way.
        let region =
            unsafe { pd.register(start, 128, AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND) }
                .unwrap();
        let mut window = pd.alloc_mw(kind).unwrap();
        let binding = window.bind(&region, region.address() + 8, 8, AccessFlags::REMOTE_WRITE);
        let bind = SendRequest::new(Operation::BindWindow(&binding), Payload::Gather(&[]));
        // SAFETY: the window covers memory that stays registered and allocated to the end of this
        // test.
        unsafe { far.post_send(&[bind.wr_id(9).signaled()]) }.unwrap();
        let bound = cq.poll().unwrap().expect("the binding's completion");
        assert!(bound.status.is_success(), "{kind:?}: {}", bound.status);

        let inside = Remote {
            address: region.address() + 8,
            key: window.key(),
        };
        let [eight] = pd.buffers::<1>(8).unwrap();
        near.post(Work::write(inside).memory(eight).user_data(1))
            .unwrap();
        let done = taken(&mut cq, &mut near);
        assert!(done.status().is_success(), "{kind:?}: {}", done.status());
        let Memory::Buffer(eight, _) = done.into_memory() else {
            panic!("the buffer")
        };
        let outside = Remote {
            address: region.address(),
            ..inside
        };
        near.post(Work::write(outside).memory(eight).user_data(2))
            .unwrap();
        assert_eq!(taken(&mut cq, &mut near).status(), WcStatus::RemoteAccess);
        drop((near, far));
        window.dealloc().unwrap();
        region.deregister().unwrap();
        drop(memory);
    }
}

fn taken(cq: &mut uverbs::CompletionQueue, qp: &mut owned::QueuePair) -> owned::Finished {
    loop {
        let completion: Completion<'_> = cq.poll().unwrap().expect("a completion");
        if let Ok(finished) = qp.complete(completion) {
            return finished;
        }
    }
}
