//! Signals end no wait, lose no event and disturb no command.
//!
//! # Safety
//!
//! The handler counts. The thread that takes signals lives until the one that sends them has ended.
#![allow(unsafe_code, reason = "installs a signal handler")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use uverbs::Notify;
use uverbs::attr::SrqModify;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::owned::Work;

use crate::support::looped::Looped;
use crate::support::objects::Objects;

static TAKEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn take(_: nix::libc::c_int) {
    TAKEN.fetch_add(1, Ordering::Relaxed);
}

/// A thread to send signals to.
struct Target(Pthread);

// SAFETY: the name of a thread may be used by others as long as it lives, see the module.
unsafe impl Sync for Target {}

impl Target {
    fn signal(&self) {
        pthread_kill(self.0, Signal::SIGUSR1).expect("the thread is there");
    }
}

/// Runs `part` while signals are sent to this thread continuously, and returns how many it
/// received.
fn in_hail<T>(part: impl FnOnce() -> T) -> (T, u64) {
    // Without SA_RESTART: every interruptible system call is interrupted.
    let action = SigAction::new(SigHandler::Handler(take), SaFlags::empty(), SigSet::empty());
    // SAFETY: see the module.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("a handler");
    let target = Target(pthread_self());
    let over = AtomicBool::new(false);
    let before = TAKEN.load(Ordering::Relaxed);
    let value = std::thread::scope(|scope| {
        let target = &target;
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                target.signal();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let value = part();
        over.store(true, Ordering::Relaxed);
        value
    });
    (value, TAKEN.load(Ordering::Relaxed) - before)
}

#[test]
fn f11_a_wait_for_completions_lasts_until_its_event() {
    let context = verbs_tests::open();
    let channel = context.create_completion_channel().expect("a channel");
    let mut looped = Looped::on(&context);
    let mut cq = context
        .completion_queue(16)
        .channel(&channel)
        .user_data(7)
        .build()
        .expect("a queue");
    cq.request_notification(Notify::Any).expect("asked for");

    let limit = Duration::from_millis(300);
    let ((none, took), signals) = in_hail(|| {
        let since = Instant::now();
        (
            channel.event(Some(limit)).expect("signals are no errors"),
            since.elapsed(),
        )
    });
    assert_eq!(none, None);
    assert!(
        took >= limit && took < limit + verbs_tests::DEADLINE,
        "{signals} signals turned {limit:?} into {took:?}"
    );
    assert!(signals > 50, "only {signals} signals came");

    let prepared = looped
        .pd
        .queue_pair(uverbs::QpType::Rc, &cq, &cq)
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = uverbs::owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    qp.recv(looped.buffers.pop().expect("a buffer"), 0)
        .expect("posted");
    for round in 0..20 {
        let (event, _) = in_hail(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    qp.post(Work::send().user_data(1)).expect("posted");
                });
                channel
                    .event(Some(Duration::from_secs(10)))
                    .expect("signals are no errors")
            })
        });
        let event = event.unwrap_or_else(|| panic!("round {round}: the event was lost"));
        assert_eq!((event.queue(), event.user_data()), (cq.id(), Some(7)));
        cq.request_notification(Notify::Any).expect("asked for");
        let mut done = 0;
        while done < 2 {
            let completion = verbs_tests::until("a completion", || {
                cq.poll().expect("polled").map(|wc| qp.complete(wc).ok())
            });
            let finished = completion.expect("ours");
            assert!(finished.status().is_success());
            if finished.user_data() == 0 {
                qp.recv(finished.into_buffer().expect("the buffer"), 0)
                    .expect("posted");
            }
            done += 1;
        }
        // The second completion may have sent an event, too; and the queue is armed for the next
        // round.
        while channel.try_event().is_ok() {}
        cq.request_notification(Notify::Any).expect("asked for");
    }
    looped.round_trip(1);
}

#[test]
fn f11_a_wait_for_events_lasts_until_its_event() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let limit = Duration::from_millis(300);
    let ((none, took), signals) = in_hail(|| {
        let since = Instant::now();
        (
            context
                .async_event(Some(limit))
                .expect("signals are no errors"),
            since.elapsed(),
        )
    });
    assert_eq!(none, None);
    assert!(
        took >= limit && took < limit + verbs_tests::DEADLINE,
        "{signals} signals turned {limit:?} into {took:?}"
    );

    let cq = context.create_cq(64).expect("a queue");
    let mut srq = pd
        .shared_receive_queue(8)
        .user_data(9)
        .build()
        .expect("a shared queue");
    srq.modify(&SrqModify {
        limit: Some(4),
        ..SrqModify::default()
    })
    .expect("armed");
    let mut shared = uverbs::owned::SharedReceiveQueue::new(srq);
    let prepared = pd
        .queue_pair(uverbs::QpType::Rc, &cq, &cq)
        .srq(shared.queue())
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = uverbs::owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    for buffer in pd.buffer_list(5, 64).expect("buffers") {
        shared.recv(buffer, 0).expect("posted");
    }
    let (event, _) = in_hail(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                for _ in 0..2 {
                    qp.post(Work::send()).expect("posted");
                }
            });
            context
                .async_event(Some(Duration::from_secs(10)))
                .expect("signals are no errors")
        })
    });
    let event = event.expect("the event was lost");
    assert_eq!(event.event, AsyncEventType::SrqLimitReached);
    assert_eq!(
        event.source,
        EventSource::SharedReceiveQueue { user_data: 9 }
    );
}

#[test]
fn f11_commands_are_carried_out_once() {
    let before = Objects::now();
    let ((), signals) = in_hail(|| {
        for byte in 0..30 {
            let mut looped = Looped::new();
            looped.round_trip(byte);
            let context = looped.context.clone();
            drop(looped);
            assert_eq!(context.leaked(), 0);
        }
    });
    println!("{signals} signals during 30 lives of a queue pair");
    assert!(signals > 100, "only {signals} signals came");
    before.same_now();
}
