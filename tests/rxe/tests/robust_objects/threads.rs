//! Queues move between threads, and many threads share a context.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::owned::{self, Work};
use uverbs::{ErrorKind, Notify, QpState, QpType};

use crate::support::kernel_log::KernelLog;
use crate::support::looped::Looped;
use crate::support::objects::Objects;

/// How late a wait may end.
const LATE: Duration = verbs_tests::DEADLINE;

#[test]
fn f27_queues_move_to_other_threads() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(64).expect("a queue");
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(16, 1).expect("a shared queue"));
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(srq.queue())
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    // Each is created here and used elsewhere; finally all of them are dropped in yet another
    // thread.
    let srq = std::thread::spawn(move || {
        for buffer in pd.buffer_list(8, 64).expect("buffers") {
            srq.recv(buffer, 5).expect("posted");
        }
        srq
    });
    let srq = srq.join().expect("the thread ends well");
    let qp = std::thread::spawn(move || {
        let mut qp = qp;
        for context in 0..8 {
            qp.post(Work::send().user_data(context)).expect("posted");
        }
        qp
    });
    let qp = qp.join().expect("the thread ends well");
    let polled = std::thread::spawn(move || {
        let (mut cq, mut qp, mut srq) = (cq, qp, srq);
        let (mut sent, mut received) = (0, 0);
        while sent + received < 16 {
            let done = verbs_tests::until("a completion", || {
                let done = cq.poll().expect("polled")?;
                assert!(done.status.is_success());
                Some(match qp.complete(done) {
                    Ok(_) => (true, false),
                    Err(done) => (false, srq.complete(done).is_ok()),
                })
            });
            match done {
                (true, false) => sent += 1,
                (false, true) => received += 1,
                other => panic!("a completion of {other:?}"),
            }
        }
        (sent, received)
    });
    assert_eq!(polled.join().expect("the thread ends well"), (8, 8));
    assert_eq!(context.leaked(), 0);
}

#[test]
fn f27_many_threads_make_and_destroy_on_one_context() {
    const THREADS: usize = 8;
    const ROUNDS: u8 = 25;
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let context = verbs_tests::open();
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                for byte in 0..ROUNDS {
                    let mut looped = Looped::on(&context);
                    let srq = looped.pd.create_srq(4, 1).expect("a shared queue");
                    looped.round_trip(byte);
                    drop(srq);
                }
            });
        }
    });
    assert_eq!(context.leaked(), 0);
    drop(context);
    before.return_in_time();
    log.silent("many threads");
}

/// Threads read events while the objects of these events are destroyed. None hangs, and nothing
/// waits for them.
#[test]
fn f29_objects_are_destroyed_while_events_are_read() {
    let before = Objects::now();
    let context = verbs_tests::open();
    let over = AtomicBool::new(false);
    let (taken, gone) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let since = Instant::now();
                    let limit = Duration::from_millis(100);
                    let event = context
                        .async_event(Some(limit))
                        .expect("the device is there");
                    assert!(
                        since.elapsed() < limit + LATE,
                        "a wait of {limit:?} took {:?}",
                        since.elapsed()
                    );
                    if let Some(event) = event {
                        taken.fetch_add(1, Ordering::Relaxed);
                        gone.fetch_add(
                            u64::from(event.source == uverbs::event::EventSource::Gone),
                            Ordering::Relaxed,
                        );
                    }
                }
            });
        }
        for round in 0..40 {
            let pd = context.alloc_pd().expect("a domain");
            let cq = context.create_cq(16).expect("a queue");
            let mut srq = pd.create_srq(8, 1).expect("a shared queue");
            srq.modify(&SrqModify {
                limit: Some(2),
                ..SrqModify::default()
            })
            .expect("armed");
            let mut shared = owned::SharedReceiveQueue::new(srq);
            let prepared = pd
                .queue_pair(QpType::Rc, &cq, &cq)
                .srq(shared.queue())
                .build()
                .expect("a queue pair");
            let endpoint = prepared.endpoint();
            let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
            for buffer in pd.buffer_list(2, 64).expect("buffers") {
                shared.recv(buffer, 0).expect("posted");
            }
            // The event arrives at this very moment, or after the objects are gone.
            qp.post(Work::send()).expect("posted");
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            qp.destroy().expect("no event holds it up");
            shared.destroy().expect("no event holds it up");
            cq.destroy().expect("no event holds it up");
        }
        over.store(true, Ordering::Relaxed);
    });
    println!("FIGURE: {taken:?} events were taken, {gone:?} of objects that were gone");
    assert!(taken.into_inner() > 0, "no event came");
    assert_eq!(context.leaked(), 0);
    drop(context);
    before.same_now();
}

/// A wait ends in time although another thread reads every event.
#[test]
fn f27_a_wait_ends_in_time_although_others_take_the_events() {
    let context = verbs_tests::open();
    let channel = context.create_completion_channel().expect("a channel");
    let mut cq = context
        .completion_queue(64)
        .channel(&channel)
        .build()
        .expect("a queue");
    let pd = context.alloc_pd().expect("a domain");
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    let over = AtomicBool::new(false);
    let limit = Duration::from_millis(400);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match channel.try_event() {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        });
        let waiter = scope.spawn(|| {
            let since = Instant::now();
            while since.elapsed() < limit {
                let begin = Instant::now();
                let left = limit.saturating_sub(since.elapsed());
                let _ = channel.event(Some(left)).expect("the device is there");
                assert!(
                    begin.elapsed() < left + LATE,
                    "a wait of {left:?} took {:?}",
                    begin.elapsed()
                );
            }
        });
        let since = Instant::now();
        while !waiter.is_finished() && since.elapsed() < limit + 2 * LATE {
            cq.request_notification(Notify::Any).expect("asked for");
            // Without a receive the send waits; an empty write does not need one.
            qp.recv_empty(0).expect("posted");
            qp.post(Work::send()).expect("posted");
            let mut done = 0;
            while done < 2 {
                verbs_tests::until("a completion", || {
                    cq.poll().expect("polled").map(|wc| qp.complete(wc).is_ok())
                });
                done += 1;
            }
        }
        waiter.join().expect("it ends in time");
        over.store(true, Ordering::Relaxed);
    });
}

/// A reader without a timeout is woken by an event that another thread causes.
#[test]
fn f29_a_reader_without_a_limit_is_woken() {
    let looped = Looped::new();
    let context = looped.context.clone();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| context.async_event(None).expect("the device is there"));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!reader.is_finished(), "there was no event yet");
        let mut srq = looped.pd.create_srq(8, 1).expect("a shared queue");
        srq.modify(&SrqModify {
            limit: Some(8),
            ..SrqModify::default()
        })
        .expect("armed");
        let mut shared = owned::SharedReceiveQueue::new(srq);
        let prepared = looped
            .pd
            .queue_pair(QpType::Rc, &looped.cq, &looped.cq)
            .srq(shared.queue())
            .build()
            .expect("a queue pair");
        let endpoint = prepared.endpoint();
        let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
        let [buffer] = looped.pd.buffers::<1>(64).expect("a buffer");
        shared.recv(buffer, 0).expect("posted");
        qp.post(Work::send()).expect("posted");
        let event = reader.join().expect("woken").expect("an event");
        assert_eq!(event.event, uverbs::event::AsyncEventType::SrqLimitReached);
        qp.modify(&QpAttr::to(QpState::Error)).expect("to error");
    });
}
