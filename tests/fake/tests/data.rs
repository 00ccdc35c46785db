//! Data between queue pairs of a fake device, through the whole library.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use fake_tests::{Bench, Loopback};
use uverbs::attr::SrqModify;
use uverbs::owned::{self, Work};
use uverbs::time::RnrRetry;
use uverbs::{AccessFlags, ErrorKind, Operation, QpType, WcStatus};
use uverbs_core::CommandPath;
use uverbs_fake::Profile;

fn loopback(profile: Profile) -> (Bench, uverbs::Context, Loopback) {
    let bench = Bench::new(profile, CommandPath::Auto);
    let context = bench.context().expect("open");
    let looped = Loopback::new(&context).expect("connect");
    (bench, context, looped)
}

#[test]
fn a_message_arrives_and_buffers_come_back() {
    for profile in [
        Profile::v5_10(),
        Profile::v6_1(),
        Profile::v6_12(),
        Profile::v7_2(),
    ] {
        let (bench, context, mut looped) = loopback(profile);
        let [mut message, reply] = looped.buffers::<2>(64).unwrap();
        message[..5].copy_from_slice(b"hello");
        looped.qp.recv(reply, 10).unwrap();
        looped.qp.send(message, 5, 11).unwrap();
        let done = looped.finish(2).unwrap();
        assert_eq!(done.len(), 2, "{profile:?}");
        assert!(done.iter().all(|one| one.status().is_success()), "{done:?}");
        let received = done.iter().find(|one| one.user_data() == 10).unwrap();
        assert_eq!(received.bytes(), Some(&b"hello"[..]));
        drop((done, looped));
        assert_eq!(context.leaked(), 0);
        drop(context);
        assert_eq!(
            bench.fake.objects().total(),
            0,
            "{:?}",
            bench.fake.objects()
        );
    }
}

#[test]
fn remote_memory_is_written_read_and_changed_atomically() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let all = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC;
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .access(all)
        .max_inline_data(64)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let mut looped = Loopback { qp, cq, pd };
    let target = looped.pd.expose(64, all).unwrap();

    let [mut source] = looped.buffers::<1>(16).unwrap();
    source.copy_from_slice(b"sixteen bytes ok");
    looped
        .qp
        .post(Work::write(target.remote()).memory(source).user_data(1))
        .unwrap();
    assert!(looped.finish(1).unwrap()[0].status().is_success());
    let mut seen = [0; 16];
    assert!(target.read(0, &mut seen));
    assert_eq!(&seen, b"sixteen bytes ok");

    let [sink] = looped.buffers::<1>(16).unwrap();
    looped
        .qp
        .post(Work::read(target.remote()).memory(sink).user_data(2))
        .unwrap();
    let done = looped.finish(1).unwrap();
    assert_eq!(done[0].bytes(), Some(&b"sixteen bytes ok"[..]));

    assert!(target.store(0, 40));
    for (operation, old, now) in [
        (
            Operation::FetchAdd {
                remote: target.remote().start(),
                add: 2,
            },
            40,
            42,
        ),
        (
            Operation::CompareSwap {
                remote: target.remote().start(),
                compare: 42,
                swap: 7,
            },
            42,
            7,
        ),
        (
            Operation::CompareSwap {
                remote: target.remote().start(),
                compare: 1,
                swap: 9,
            },
            7,
            7,
        ),
    ] {
        let [result] = looped.buffers::<1>(8).unwrap();
        looped.qp.post(Work::new(operation).memory(result)).unwrap();
        let done = looped.finish(1).unwrap();
        assert!(done[0].status().is_success(), "{:?}", done[0].status());
        assert_eq!(done[0].bytes(), Some(&u64::to_ne_bytes(old)[..]));
        assert_eq!(target.load(0), Some(now));
    }
}

#[test]
fn what_is_not_allowed_fails_and_the_rest_is_flushed() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let [near, far] = [(), ()].map(|()| pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap());
    let (near_end, far_end) = (near.endpoint(), far.endpoint());
    let mut near = owned::QueuePair::new(near.handshake(far_end).unwrap());
    let mut far = owned::QueuePair::new(far.handshake(near_end).unwrap());

    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    let target = pd.expose(64, access).unwrap();
    let [first, second, waiting, far_waiting] = pd.buffers::<4>(8).unwrap();
    near.recv(waiting, 3).unwrap();
    far.recv(far_waiting, 4).unwrap();
    near.post(Work::write(target.remote()).memory(first).user_data(1))
        .unwrap();
    near.send(second, 8, 2).unwrap();

    let mut ended = Vec::new();
    while let Some(completion) = cq.poll().unwrap() {
        let done = near
            .complete(completion)
            .or_else(|completion| far.complete(completion))
            .expect("one of the two");
        ended.push((done.user_data(), done.status()));
    }
    ended.sort_by_key(|(context, _)| *context);
    assert_eq!(
        ended,
        [
            (1, WcStatus::RemoteAccess),
            (2, WcStatus::Flushed),
            (3, WcStatus::Flushed),
            (4, WcStatus::Flushed)
        ]
    );
}

#[test]
fn a_receiver_without_buffers_is_tried_again_until_retries_run_out() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .rnr_retry(RnrRetry::new(2).unwrap())
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let mut looped = Loopback { qp, cq, pd };
    let [late, sent, lost] = looped.buffers::<3>(8).unwrap();
    looped.qp.send(sent, 8, 1).unwrap();
    assert!(looped.finish(1).unwrap().is_empty());
    looped.qp.recv(late, 2).unwrap();
    context.query_port(1).unwrap();
    assert_eq!(looped.finish(2).unwrap().len(), 2);

    looped.qp.send(lost, 8, 3).unwrap();
    for _ in 0..4 {
        context.query_port(1).unwrap();
    }
    let done = looped.finish(1).unwrap();
    assert_eq!(done[0].status(), WcStatus::RnrRetryExceeded);
}

#[test]
fn a_datagram_carries_its_header_and_its_sender() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let prepared = pd
        .queue_pair(QpType::Ud, &cq, &cq)
        .gid_index(1)
        .qkey(0x1234)
        .build()
        .unwrap();
    let number = prepared.qp_num();
    let vector = uverbs::AddressVector {
        grh: Some(uverbs::address::GlobalRoute {
            dgid: context.gid(1, 1).unwrap().unwrap().gid,
            sgid_index: 1,
            ..uverbs::address::GlobalRoute::default()
        }),
        ..uverbs::AddressVector::local(1, 0)
    };
    let address = pd.create_ah(&vector).unwrap();
    let mut qp = owned::QueuePair::new(prepared.activate().unwrap());
    let [mut message, small, room] = pd.buffers::<3>(64).unwrap();
    message[..4].copy_from_slice(b"data");
    drop(small);
    qp.recv(room, 1).unwrap();
    qp.post(
        Work::send_imm(0xdead_beef)
            .memory((message, 4))
            .to(&address, number, 0x1234),
    )
    .unwrap();
    let mut received = None;
    while let Some(completion) = cq.poll().unwrap() {
        let src_qp = completion.src_qp;
        let done = qp.complete(completion).unwrap();
        assert!(done.status().is_success());
        if done.user_data() == 1 {
            received = Some((src_qp, done));
        }
    }
    let (src_qp, received) = received.expect("the datagram");
    assert_eq!(received.len(), 44);
    assert_eq!(&received.bytes().unwrap()[40..], b"data");
    assert_eq!(received.bytes().unwrap()[20], 0x45);
    assert_eq!(src_qp, number);
    assert_eq!(received.imm(), Some(0xdead_beef));
}

/// On the fake kernel nothing arrives by itself, so all that are posted wait.
#[test]
fn a_shared_queue_keeps_room_for_the_receives_that_wait() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(15, 1).unwrap());
    let shrink =
        |srq: &mut owned::SharedReceiveQueue, max_wr| srq.modify(&SrqModify::new().max_wr(max_wr));
    for (posted, refused) in [(0, None), (5, Some(4)), (3, Some(7)), (12, Some(19))] {
        for buffer in pd.buffer_list(posted, 8).unwrap() {
            srq.recv(buffer, 0).unwrap();
        }
        let waiting = u32::try_from(srq.receives_posted()).unwrap();
        if let Some(refused) = refused {
            let error = shrink(&mut srq, refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(
                error.to_string().contains(&format!("waiting {waiting}")),
                "{error}"
            );
        }
        shrink(&mut srq, waiting.max(1)).unwrap();
        shrink(&mut srq, 20).unwrap();
        assert_eq!(srq.receives_posted(), waiting as usize);
    }
    assert_eq!(srq.destroy().unwrap().len(), 20);
}
