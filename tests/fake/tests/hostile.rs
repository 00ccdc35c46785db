//! A kernel that lies about sizes, offsets, structures, indexes, handles and outputs. The result is
//! an error or a smaller truth; never a panic, and no access outside what was mapped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_tests::{Bench, Loopback, PATIENCE, live, thinned};
use proptest::prelude::*;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::{ErrorKind, PollError, PostError, QpType};
use uverbs_core::CommandPath;
use uverbs_fake::{Effect, Profile, RingOf, RingView, Source, When};
use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_rxe::{mminfo, rxe_create_qp_resp};
use zerocopy::{FromBytes, IntoBytes};

/// Commands whose replies describe a queue's memory.
const ANNOUNCING: [When; 5] = [
    When::Method(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE),
    When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
    When::Method(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE),
    When::Command(IB_USER_VERBS_CMD_RESIZE_CQ),
    When::Command(IB_USER_VERBS_CMD_CREATE_CQ),
];

/// Runs a life on the newest kernel with one fault; it must fail, and leave nothing.
fn must_fail(path: CommandPath, when: When, effect: Effect) -> uverbs::Error {
    let bench = Bench::new(Profile::v7_2(), path);
    let what = format!("{when:?} {effect:?} by {path:?}");
    bench.inject(when, effect);
    let error = live(&bench).expect_err(&what);
    bench.fake.clear_faults();
    assert_eq!(bench.fake.objects().total(), 0, "{what}");
    error
}

/// Modifies every `mminfo` in the driver's reply.
fn lie(change: impl Fn(&mut mminfo) + Send + Sync + 'static) -> Effect {
    Effect::Rewrite(Arc::new(move |id, bytes| {
        if id != UVERBS_ATTR_UHW_OUT {
            return;
        }
        for part in bytes.chunks_exact_mut(size_of::<mminfo>()) {
            let mut info = mminfo::read_from_bytes(part).unwrap();
            change(&mut info);
            part.copy_from_slice(info.as_bytes());
        }
    }))
}

#[test]
fn f08_queues_of_impossible_size_or_place_are_refused() {
    let lies: [fn() -> Effect; 5] = [
        || lie(|info| info.size = 0),
        || lie(|info| info.size = u32::MAX),
        || lie(|info| info.size += 4096),
        || lie(|info| info.offset = u64::MAX),
        || lie(|info| info.offset ^= 0x1000_0000),
    ];
    for when in ANNOUNCING {
        let path = match when {
            When::Command(IB_USER_VERBS_CMD_CREATE_CQ) => CommandPath::InvokeWrite,
            _ => CommandPath::Auto,
        };
        for lie in lies {
            must_fail(path, when, lie());
        }
    }
}

#[test]
fn f08_a_queue_smaller_than_its_header_says_is_refused() {
    for len in [0, 4, 127, 383, 384, 400, 1024] {
        let error = must_fail(CommandPath::Auto, When::Map, Effect::ShortMap(len));
        assert_eq!(error.kind(), ErrorKind::BadReply, "{len}: {error}");
    }
}

#[test]
fn f08_queues_of_impossible_shape_are_refused() {
    // The first word is the size of a slot, as a power of two; the second the number of slots - 1.
    for (offset, words) in [
        (0, &[0, 1, 5, 20, 31, 32, 64, u32::MAX][..]),
        (4, &[2, 5, 1 << 20, 1 << 31, u32::MAX - 1, u32::MAX][..]),
    ] {
        for word in words {
            let error = must_fail(CommandPath::Auto, When::Map, Effect::Poke(offset, *word));
            assert_eq!(
                error.kind(),
                ErrorKind::BadReply,
                "{offset} {word:#x}: {error}"
            );
        }
    }
}

#[test]
fn f08_a_producer_index_outside_the_ring_is_refused_and_stays_so() {
    for index in [32, 33, 1 << 16, u32::MAX] {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let mut cq = context.create_cq(31).unwrap();
        let ring = bench.ring(RingOf::Cq(1)).unwrap();
        ring.store(RingView::PRODUCER, index);
        assert_eq!(cq.poll().unwrap_err(), PollError::Corrupt, "{index}");
        ring.store(RingView::PRODUCER, 0);
        drop(cq);
        assert_eq!(context.leaked(), 0);
    }
}

#[test]
fn f08_a_consumer_index_outside_the_send_ring_stops_posting() {
    for index in [64, 1 << 20, u32::MAX] {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let mut looped = Loopback::new(&context).unwrap();
        let number = looped.qp.qp_num();
        let ring = bench.ring(RingOf::Send(number)).unwrap();
        ring.store(RingView::CONSUMER, index);
        let [buffer] = looped.buffers::<1>(8).unwrap();
        let refused = looped.qp.send(buffer, 8, 1).unwrap_err();
        assert!(
            matches!(refused.error, PostError::Poisoned | PostError::QueueFull),
            "{:?}",
            refused.error
        );
    }
}

/// Writes a forged completion to the next slot.
fn forge(ring: &RingView, wc: &ib_uverbs_wc) {
    let producer = ring.load(RingView::PRODUCER);
    ring.write(ring.element(producer), wc.as_bytes());
    ring.store(RingView::PRODUCER, (producer + 1) & ring.load(4));
}

#[test]
fn f24_forged_completions_give_nothing_back_twice() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut looped = Loopback::new(&context).unwrap();
    let number = looped.qp.qp_num();
    let [room, message] = looped.buffers::<2>(16).unwrap();
    looped.qp.recv(room, 1).unwrap();
    looped.qp.send(message, 16, 2).unwrap();
    let ring = bench.ring(RingOf::Cq(1)).unwrap();
    let honest: ib_uverbs_wc = ring.read(ring.element(0));
    assert_eq!(looped.finish(2).unwrap().len(), 2);

    let foreign = [
        // A repetition of the genuine one.
        honest,
        // For a request that was never posted.
        ib_uverbs_wc {
            wr_id: u64::MAX,
            ..honest
        },
        ib_uverbs_wc {
            wr_id: honest.wr_id ^ (1 << 40),
            ..honest
        },
        // For another queue pair.
        ib_uverbs_wc {
            qp_num: number + 1,
            ..honest
        },
        // Of an unknown kind.
        ib_uverbs_wc {
            opcode: 0xdead,
            status: 0xbeef,
            wc_flags: u32::MAX,
            byte_len: u32::MAX,
            ..honest
        },
    ];
    for wc in &foreign {
        forge(&ring, wc);
    }
    let mut taken = 0;
    while let Some(completion) = looped.cq.poll().unwrap() {
        let ended = looped.qp.complete(completion);
        assert!(ended.is_err(), "{ended:?}");
        taken += 1;
    }
    assert_eq!(taken, foreign.len());
}

#[test]
fn f24_a_length_beyond_the_buffer_is_cut() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut looped = Loopback::new(&context).unwrap();
    let [room] = looped.buffers::<1>(16).unwrap();
    looped.qp.recv(room, 1).unwrap();
    let number = looped.qp.qp_num();
    let posted = bench.ring(RingOf::Receive(number)).unwrap();
    let wr_id: u64 = posted.read(posted.element(0));
    let ring = bench.ring(RingOf::Cq(1)).unwrap();
    forge(
        &ring,
        &ib_uverbs_wc {
            wr_id,
            byte_len: u32::MAX,
            opcode: 128,
            qp_num: number,
            ..Default::default()
        },
    );
    let done = looped.finish(1).unwrap();
    assert_eq!(done[0].len(), 16);
    assert_eq!(done[0].bytes().unwrap().len(), 16);
}

#[test]
fn f07_outputs_that_are_not_written_are_noticed() {
    for path in [CommandPath::Auto, CommandPath::InvokeWrite] {
        let error = must_fail(path, When::Ioctl, Effect::Unmarked);
        assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    }
}

#[test]
fn f07_outputs_of_any_length_are_survived() {
    for path in [
        CommandPath::Auto,
        CommandPath::InvokeWrite,
        CommandPath::Write,
    ] {
        for len in thinned(0..64, 13) {
            let bench = Bench::new(Profile::v7_2(), path);
            // Descriptors in replies are numbers that must be valid, or another file would be
            // closed.
            for when in ANNOUNCING
                .into_iter()
                .chain([IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_REG_MR].map(When::Command))
                .chain(
                    [IB_USER_VERBS_CMD_QUERY_PORT, IB_USER_VERBS_CMD_CREATE_QP].map(When::Command),
                )
                .chain([When::Method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)])
            {
                bench.inject(when, Effect::Truncate(len));
            }
            let answer = live(&bench);
            // The longest replies end in padding.
            assert!(len >= 28 || answer.is_err(), "{len} bytes by {path:?}");
        }
    }
}

#[test]
fn f07_success_without_execution_is_survived_at_every_call() {
    let bench = Bench::newest();
    live(&bench).unwrap();
    for k in thinned(0..bench.fake.calls(), 7) {
        let bench = Bench::newest();
        bench.inject(When::Call(k), Effect::Pretend);
        // Some false successes cannot be detected: a doorbell has no reply. They must end in an
        // error later, or have no effect.
        let _ = live(&bench);
    }
}

#[test]
fn f08_capabilities_below_the_request_do_not_overrun_the_queue() {
    let bench = Bench::newest();
    bench.inject(
        When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
        Effect::Rewrite(Arc::new(|id, bytes| {
            if id == UVERBS_ATTR_CREATE_QP_RESP_CAP {
                bytes.fill(0);
            }
        })),
    );
    let context = bench.context().unwrap();
    // Refused, or usable within what was granted: nothing at all.
    if let Ok(mut looped) = Loopback::new(&context) {
        let [buffer, room] = looped.buffers::<2>(8).unwrap();
        assert!(looped.qp.send(buffer, 8, 1).is_err());
        assert!(looped.qp.recv(room, 2).is_err());
    }
}

#[test]
fn f08_capabilities_above_what_is_there_do_not_overrun_the_queue() {
    for word in [1 << 16, u32::MAX] {
        let bench = Bench::newest();
        bench.inject(
            When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
            Effect::Rewrite(Arc::new(move |id, bytes: &mut [u8]| {
                if id == UVERBS_ATTR_CREATE_QP_RESP_CAP {
                    for part in bytes.chunks_exact_mut(4) {
                        part.copy_from_slice(&u32::to_ne_bytes(word));
                    }
                }
            })),
        );
        let context = bench.context().unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(32).unwrap();
        let error = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .gid_index(1)
            .build()
            .expect_err("slots too small for that");
        assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    }
}

#[test]
fn f08_more_requests_than_the_rings_have_room_for_are_not_believed() {
    let bench = Bench::newest();
    bench.inject(
        When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
        Effect::Rewrite(Arc::new(move |id, bytes: &mut [u8]| {
            if id == UVERBS_ATTR_CREATE_QP_RESP_CAP {
                // The first two words, `max_send_wr` and `max_recv_wr`.
                bytes[..8].fill(0xff);
            }
        })),
    );
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1).build();
    let own = prepared.as_ref().unwrap().endpoint();
    let caps = prepared.unwrap().handshake(own).unwrap().caps();
    for granted in [caps.max_send_wr, caps.max_recv_wr] {
        assert!((16..256).contains(&granted), "{caps:?}");
    }
}

#[test]
fn f08_both_rings_in_one_place_are_refused() {
    let bench = Bench::newest();
    bench.inject(
        When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
        Effect::Rewrite(Arc::new(|id, bytes| {
            if id == UVERBS_ATTR_UHW_OUT {
                let mut reply = rxe_create_qp_resp::read_from_bytes(bytes).unwrap();
                reply.rq_mi = reply.sq_mi;
                bytes.copy_from_slice(reply.as_bytes());
            }
        })),
    );
    let context = bench.context().unwrap();
    assert!(Loopback::new(&context).is_err());
}

#[test]
fn f08_a_gid_table_longer_than_requested_is_cut_or_refused() {
    for count in thinned([u64::MAX, 1 << 32, 17], 3) {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        bench.inject(
            When::Method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE),
            Effect::Rewrite(Arc::new(move |id, bytes: &mut [u8]| {
                if id == UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES {
                    bytes.copy_from_slice(&count.to_ne_bytes());
                }
            })),
        );
        match context.gid_table() {
            Ok(table) => assert!(table.len() <= 4096),
            Err(error) => assert_eq!(error.kind(), ErrorKind::BadReply, "{error}"),
        }
    }
}

#[test]
fn f09_events_of_any_kind_for_any_object_are_distinguished() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let cq = context.completion_queue(8).user_data(42).build().unwrap();
    bench.fake.raise(Source::Cq(1), 0);
    for (element, kind) in [
        (0, 8),
        (1, 9),
        (u64::MAX, 3),
        (0xdead_0000_0001, 0),
        (7, 0xffff),
    ] {
        bench.fake.raise(Source::Element(element), kind);
    }
    let next = || {
        context
            .async_event(Some(Duration::from_secs(1)))
            .unwrap()
            .expect("an event")
    };
    assert_eq!(
        next().source,
        EventSource::CompletionQueue { user_data: 42 }
    );
    assert_eq!(next().source, EventSource::Device);
    assert_eq!(next().source, EventSource::Port(1));
    for _ in 0..2 {
        assert!(matches!(
            next().source,
            EventSource::Gone | EventSource::Unknown(_)
        ));
    }
    let unknown = next();
    assert_eq!(unknown.event, AsyncEventType::from_raw(0xffff));
    drop(cq);
}

#[test]
fn f09_a_storm_of_events_is_taken_and_holds_up_no_destroy() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let cq = context.create_cq(8).unwrap();
    let read = if cfg!(miri) { 50 } else { 5_000 };
    for _ in 0..2 * read {
        bench.fake.raise(Source::Cq(1), 0);
    }
    for _ in 0..read {
        context.try_async_event().unwrap();
    }
    let start = Instant::now();
    let counts = cq.destroy().unwrap();
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(counts.asynchronous, read);
    // The kernel dropped those that had not been read.
    assert_eq!(
        context.try_async_event().unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn f09_events_of_another_length_are_refused() {
    for len in 0..16 {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        bench.inject(When::Read, Effect::ShortRead(len));
        bench.fake.raise(Source::Element(1), 9);
        let error = context.try_async_event().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{len}: {error}");
    }
}

#[test]
fn f23_an_overrun_completion_queue_loses_no_buffer() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(1).unwrap();
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .gid_index(1)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let mut qp = uverbs::owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let buffers = pd.buffers::<8>(8).unwrap();
    for (context, buffer) in (0..).zip(buffers) {
        if context % 2 == 0 {
            qp.recv(buffer, context).unwrap();
        } else {
            qp.send(buffer, 8, context).unwrap();
        }
    }
    let mut back = 0;
    while let Some(completion) = cq.poll().unwrap() {
        back += usize::from(qp.complete(completion).is_ok());
    }
    assert!(back < 8);
    let event = context.try_async_event().unwrap();
    assert_eq!(event.event, AsyncEventType::from_raw(0));
    assert_eq!(back + qp.destroy().unwrap().len(), 8);
}

/// Fault scripts for whole lives: at which call, and which effect.
fn faults() -> impl Strategy<Value = Vec<(u64, Effect)>> {
    let effect = prop_oneof![
        (0_usize..64).prop_map(Effect::Truncate),
        Just(Effect::Unmarked),
        Just(Effect::Pretend),
        (0_u32..8).prop_map(Effect::Handle),
        (0_usize..8192).prop_map(Effect::ShortMap),
        (0_usize..400, any::<u32>()).prop_map(|(at, word)| Effect::Poke(at & !3, word)),
        (0_usize..17).prop_map(Effect::ShortRead),
        (any::<usize>(), any::<u8>()).prop_map(|(at, mask)| {
            Effect::Rewrite(Arc::new(move |id, bytes: &mut [u8]| {
                // The first output of legacy commands may hold a descriptor's number.
                if id != UVERBS_ATTR_CORE_OUT && !bytes.is_empty() {
                    let at = at % bytes.len();
                    bytes[at] ^= mask;
                }
            }))
        }),
    ];
    prop::collection::vec((0_u64..40, effect), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 6 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn f07_random_faults_are_survived(script in faults()) {
        let bench = Bench::newest();
        for (k, effect) in script {
            bench.inject(When::Call(k), effect);
        }
        let _ = live(&bench);
    }
}

const _: () = assert!(offset_of!(mminfo, size) == 8);
