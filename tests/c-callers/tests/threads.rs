//! A C program's threads use the library at the same time, also the same objects, as its header
//! allows. `cargo xtask tsan` watches them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use c_callers_tests::{At, Bench, Kind, Pair, Shape, calls};
use uverbs_compat_base::abi::{
    ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr,
    ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_wc,
};
use uverbs_fake::Source;

const EBUSY: i32 = 16;
/// `IBV_WC_RECV` and those after it.
const RECEIVED: u32 = 128;
/// `IBV_EVENT_CQ_ERR`, `IBV_EVENT_PORT_ACTIVE`
const CQ_ERR: u32 = 0;
const PORT_ACTIVE: u32 = 9;

/// Threads that post, and messages of each.
const POSTERS: usize = 2;
const MESSAGES: usize = 200;
/// Times that each thread makes and destroys objects.
const TURNS: usize = 60;
/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn completion() -> ibv_wc {
    ibv_wc {
        wr_id: 0,
        status: 0,
        opcode: 0,
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        qp_num: 0,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// Repeats something that fails while a queue is full.
#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "nothing happens any more");
        thread::yield_now();
    }
}

/// How often each message was sent, and received, according to completions.
struct Count([Vec<AtomicU32>; 2], AtomicUsize);

impl Count {
    fn new() -> Self {
        let none = || (0..POSTERS * MESSAGES).map(|_| AtomicU32::new(0)).collect();
        Self([none(), none()], AtomicUsize::new(0))
    }

    fn add(&self, wr_id: u64, status: u32, received: bool) {
        assert_eq!(status, 0, "message {wr_id}");
        let at = usize::try_from(wr_id).unwrap();
        self.0[usize::from(received)][at].fetch_add(1, Ordering::Relaxed);
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn is_complete(&self) -> bool {
        self.1.load(Ordering::Relaxed) == 2 * POSTERS * MESSAGES
    }
}

/// Takes what there is, one at a time or several.
fn poll(pair: &Pair, shape: Shape, turn: usize, count: &Count) {
    if shape == Shape::Extended {
        for (wr_id, status, opcode) in calls::take_all(pair.cq.cast()) {
            count.add(wr_id, status, opcode >= RECEIVED);
        }
        return;
    }
    let mut room = [completion(); 4];
    let room = if turn.is_multiple_of(2) {
        &mut room[..1]
    } else {
        &mut room[..]
    };
    let found = usize::try_from(calls::poll_cq(pair.cq, room)).expect("no failure");
    for done in &room[..found] {
        count.add(done.wr_id, done.status, done.opcode >= RECEIVED);
    }
}

/// All use one queue pair and one completion queue: some post sends, some receives, others poll,
/// query, arm, and try to destroy what is in use.
fn share_a_queue(kind: Kind, shape: Shape) {
    let bench = Bench::new(kind);
    bench.while_working(|context| {
        let words = 2 * POSTERS * MESSAGES;
        let pair = Pair::new((kind, context), shape, 32, words, None);
        let (count, receives) = (Count::new(), AtomicI64::new(0));
        let used = &pair;
        let (count, receives) = (&count, &receives);
        thread::scope(|scope| {
            for poster in 0..POSTERS {
                scope.spawn(move || {
                    for at in poster * MESSAGES..(poster + 1) * MESSAGES {
                        until(|| used.receive(at as u64, at) == 0);
                        receives.fetch_add(1, Ordering::Relaxed);
                    }
                });
                scope.spawn(move || {
                    for message in poster * MESSAGES..(poster + 1) * MESSAGES {
                        let at = POSTERS * MESSAGES + message;
                        used.value(at).store(1 + message as u64, Ordering::Relaxed);
                        // There is a receive for it.
                        until(|| {
                            let less = |count| (count > 0).then_some(count - 1);
                            let ordering = Ordering::Relaxed;
                            receives.fetch_update(ordering, ordering, less).is_ok()
                        });
                        until(|| match (shape, calls::extended(used.qp)) {
                            (Shape::Extended, Some(qp)) => {
                                calls::compose_send(qp, message as u64, used.word(at)) == 0
                            }
                            _ => used.send(message as u64, at) == 0,
                        });
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut turn = 0;
                    until(|| {
                        poll(used, shape, turn, count);
                        turn += 1;
                        count.is_complete()
                    });
                });
            }
            scope.spawn(move || {
                until(|| {
                    let mut attr = ibv_qp_attr::default();
                    assert_eq!(calls::query_qp(used.qp, &mut attr), 0);
                    assert_eq!(attr.qp_state, 3);
                    assert_eq!(calls::req_notify_cq(used.cq), 0);
                    assert!(calls::query_port(context).is_some());
                    assert_eq!(calls::destroy_cq(used.cq), EBUSY);
                    assert_eq!(calls::dealloc_pd(used.pd), EBUSY);
                    thread::yield_now();
                    count.is_complete()
                });
            });
        });
        for times in count.0.iter().flatten() {
            assert_eq!(times.load(Ordering::Relaxed), 1);
        }
        let sum: u64 = (0..POSTERS * MESSAGES)
            .map(|at| pair.value(at).load(Ordering::Relaxed))
            .sum();
        let messages = (POSTERS * MESSAGES) as u64;
        assert_eq!(sum, messages * (messages + 1) / 2, "each word has arrived");
        pair.end();
    });
    assert_eq!(bench.left(), None);
}

#[test]
fn all_post_to_one_queue_and_poll_it() {
    for kind in Kind::ALL {
        share_a_queue(kind, Shape::Plain);
    }
}

#[test]
fn all_compose_requests_and_read_completions_field_by_field() {
    for kind in Kind::ALL {
        share_a_queue(kind, Shape::Extended);
    }
}

fn queue_pair(cq: At<ibv_cq>, srq: At<ibv_srq>) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: cq.raw(),
        recv_cq: cq.raw(),
        srq: srq.raw(),
        cap: ibv_qp_cap {
            max_send_wr: 4,
            max_send_sge: 1,
            ..ibv_qp_cap::default()
        },
        // `IBV_QPT_RC`
        qp_type: 2,
        sq_sig_all: 1,
    }
}

/// Makes and destroys one object of each kind, on what all threads share.
fn make_and_destroy(pair: &Pair, channel: At<ibv_comp_channel>) {
    let cq = calls::create_cq(pair.context, 8, 2, Some(channel)).expect("a queue");
    let srq = ibv_srq_init_attr {
        srq_context: null_mut(),
        attr: ibv_srq_attr {
            max_wr: 4,
            max_sge: 1,
            srq_limit: 0,
        },
    };
    let srq = calls::create_srq(pair.pd, srq).expect("a shared queue");
    // One with queues of its own, and one with the queue that all share.
    let own = calls::create_qp(pair.pd, queue_pair(cq, srq)).expect("a queue pair");
    let other = calls::create_qp(pair.pd, queue_pair(pair.cq, srq)).expect("a queue pair");
    assert_eq!(calls::destroy_srq(srq), EBUSY);
    assert_eq!(calls::destroy_cq(cq), EBUSY);
    assert_eq!(calls::destroy_channel(channel), EBUSY);
    assert_eq!(calls::destroy_qp(own), 0);
    assert_eq!(calls::destroy_cq(cq), 0);
    assert_eq!(calls::destroy_qp(other), 0);
    assert_eq!(calls::destroy_srq(srq), 0);
    let mut word = 0_u64;
    let start = At::new((&raw mut word).cast()).expect("an address");
    let mr = calls::reg_mr(pair.pd, start, 8).expect("a region");
    let mine = calls::alloc_pd(pair.context).expect("a domain");
    assert_eq!(calls::dealloc_pd(mine), 0);
    assert_eq!(calls::dereg_mr(mr), 0);
    let ah = ibv_ah_attr {
        is_global: 1,
        port_num: 1,
        ..ibv_ah_attr::default()
    };
    // The cards have none.
    if let Some(ah) = calls::create_ah(pair.pd, ah) {
        assert_eq!(calls::destroy_ah(ah), 0);
    }
}

#[test]
fn what_others_use_is_busy_while_objects_come_and_go() {
    for kind in Kind::ALL {
        let bench = Bench::new(kind);
        bench.while_working(|context| {
            let channel = calls::create_channel(context).expect("a channel");
            let pair = Pair::new((kind, context), Shape::Plain, 8, 1, Some(channel));
            let (used, ended) = (&pair, &AtomicBool::new(false));
            thread::scope(|scope| {
                let makers: Vec<_> = (0..3)
                    .map(|_| {
                        scope
                            .spawn(move || (0..TURNS).for_each(|_| make_and_destroy(used, channel)))
                    })
                    .collect();
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        assert_eq!(calls::destroy_channel(channel), EBUSY);
                        assert_eq!(calls::dealloc_pd(used.pd), EBUSY);
                        assert_eq!(calls::destroy_cq(used.cq), EBUSY);
                        assert_eq!(calls::poll_cq(used.cq, &mut [completion()]), 0);
                    }
                });
                let ends: Vec<_> = makers
                    .into_iter()
                    .map(thread::ScopedJoinHandle::join)
                    .collect();
                ended.store(true, Ordering::Relaxed);
                assert!(ends.iter().all(Result::is_ok));
            });
            pair.end();
            assert_eq!(calls::destroy_channel(channel), 0);
        });
        assert_eq!(bench.left(), None);
    }
}

#[test]
fn devices_are_opened_and_closed_by_all() {
    for kind in Kind::ALL {
        let bench = Bench::new(kind);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        let context = bench.open();
                        let pd = calls::alloc_pd(context).expect("a domain");
                        // The last destroy closes it.
                        assert_eq!(calls::close(context), 0);
                        assert_eq!(calls::dealloc_pd(pd), 0);
                    }
                });
            }
        });
        assert_eq!(bench.left(), None);
    }
}

/// The number of the queue after whose event nobody waits any more.
const LAST: usize = usize::MAX;

/// Has a queue on the channel report an event.
fn report(context: At<ibv_context>, channel: At<ibv_comp_channel>) -> Pair {
    let pair = Pair::new((Kind::Rxe, context), Shape::Plain, 4, 2, Some(channel));
    assert_eq!(calls::req_notify_cq(pair.cq), 0);
    assert_eq!(pair.receive(1, 0), 0);
    assert_eq!(pair.send(2, 1), 0);
    pair
}

#[test]
fn a_destroy_waits_for_events_that_another_thread_reads() {
    let bench = Bench::new(Kind::Rxe);
    bench.while_working(|context| {
        let channel = calls::create_channel(context).expect("a channel");
        let events = &AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    while let Some((cq, mark)) = calls::get_cq_event(channel) {
                        events.fetch_add(1, Ordering::Relaxed);
                        // The queue is there until this.
                        calls::ack_cq_events(cq, 1);
                        if mark == LAST {
                            break;
                        }
                    }
                });
            }
            let makers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(move || {
                        for turn in 0..TURNS {
                            let pair = report(context, channel);
                            if turn % 2 == 0 {
                                thread::yield_now();
                            }
                            pair.end();
                        }
                    })
                })
                .collect();
            let ends: Vec<_> = makers
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            for _ in 0..2 {
                let last = Pair::marked((Kind::Rxe, context), LAST, channel);
                let before = events.load(Ordering::Relaxed);
                assert_eq!(calls::req_notify_cq(last.cq), 0);
                assert_eq!(last.receive(1, 0), 0);
                assert_eq!(last.send(2, 1), 0);
                until(|| events.load(Ordering::Relaxed) > before);
                last.end();
            }
            assert!(ends.iter().all(Result::is_ok));
        });
        assert!(events.load(Ordering::Relaxed) >= 2);
        assert_eq!(calls::destroy_channel(channel), 0);
    });
    assert_eq!(bench.left(), None);
}

#[test]
fn asynchronous_events_are_read_while_queues_come_and_go() {
    let bench = Bench::new(Kind::Rxe);
    bench.while_working(|context| {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    while let Some(event) = calls::get_async_event(context) {
                        let is_last = event.event_type == PORT_ACTIVE;
                        calls::ack_async_event(event);
                        if is_last {
                            break;
                        }
                    }
                });
            }
            for turn in 0..TURNS {
                let cq = calls::create_cq(context, 8, 3, None).expect("a queue");
                let number = u32::try_from(turn + 1).unwrap();
                bench.raise(Source::Cq(number), CQ_ERR);
                if turn % 2 == 0 {
                    thread::yield_now();
                }
                assert_eq!(calls::destroy_cq(cq), 0);
            }
            // One for each reader.
            bench.raise(Source::Element(1), PORT_ACTIVE);
            bench.raise(Source::Element(1), PORT_ACTIVE);
        });
    });
    assert_eq!(bench.left(), None);
}
