//! Handles that threads share, and queues that move from one to another: every thread may do
//! everything concurrently, and there are no data races (`cargo xtask tsan`, `cargo xtask miri`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::Duration;

use fake_tests::{Bench, Loopback, PATIENCE};
use uverbs::address::GlobalRoute;
use uverbs::event::EventSource;
use uverbs::memory::MwType;
use uverbs::recorder::Collector;
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Context, ErrorKind, Gid, Notify, ProtectionDomain,
    QpType, QueuePairEndpoint, owned,
};
use uverbs_core::discover::ForkGuard;
use uverbs_core::hw::Pages;
use uverbs_fake::Source;

/// Iterations of each thread.
const TURNS: usize = if cfg!(miri) { 4 } else { 200 };

/// How long a listener must receive nothing before it assumes that nothing will come.
const QUIET: Duration = Duration::from_secs(if cfg!(miri) { 20 } else { 1 });

/// `IB_EVENT_CQ_ERR`.
const CQ_ERR: u32 = 0;

/// Repeats something on a thread of its own.
fn again<'scope>(scope: &'scope Scope<'scope, '_>, mut turn: impl FnMut(usize) + Send + 'scope) {
    scope.spawn(move || (0..TURNS).for_each(&mut turn));
}

fn path() -> AddressVector {
    AddressVector {
        grh: Some(GlobalRoute {
            dgid: Gid::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]),
            sgid_index: 1,
            ..GlobalRoute::default()
        }),
        ..AddressVector::local(1, 0)
    }
}

/// A queue pair in `pd` with a completion queue of its own, not connected yet.
fn end(context: &Context, pd: &ProtectionDomain) -> (uverbs::PreparedQueuePair, CompletionQueue) {
    let cq = context.create_cq(32).unwrap();
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    (builder.gid_index(1).build().unwrap(), cq)
}

fn connect(
    (prepared, cq): (uverbs::PreparedQueuePair, CompletionQueue),
    pd: &ProtectionDomain,
    peer: QueuePairEndpoint,
) -> Loopback {
    let qp = owned::QueuePair::new(prepared.handshake(peer).unwrap());
    let pd = pd.clone();
    Loopback { qp, cq, pd }
}

#[test]
fn handles_are_used_by_all_at_once() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let region = pd.expose(4096, AccessFlags::REMOTE_WRITE).unwrap();
    let address = pd.create_ah(&path()).unwrap();
    let window = pd.alloc_mw(MwType::Type1).unwrap();
    let channel = context.create_completion_channel().unwrap();
    thread::scope(|scope| {
        for number in 0..3 {
            let (context, pd, region) = (&context, pd.clone(), region.clone());
            let (address, window, channel) = (&address, &window, channel.clone());
            again(scope, move |turn| {
                // Queries.
                assert!(context.query_port(1).is_ok());
                assert!(context.gid(1, 0).is_ok() && context.leaked() == 0);
                assert!(context.device_attr().max_qp > 0 && !context.name().is_empty());
                assert!(pd.is_same(address.pd()) && pd.is_same(window.pd()));
                assert_eq!((address.to(7, 8).qp_num, region.len()), (7, 4096));
                assert_ne!(region.rkey().raw(), 0);
                // Objects that are created and destroyed.
                let mine = context.alloc_pd().unwrap();
                let buffers = mine.buffers::<2>(16 + turn).unwrap();
                assert_eq!(buffers[1].len(), 16 + turn);
                let memory = pd.expose(8, AccessFlags::REMOTE_READ).unwrap();
                assert!(memory.store(0, number) && memory.load(0) == Some(number));
                let again = address.clone();
                assert_eq!(again.destroy().unwrap_err().kind(), ErrorKind::Busy);
                pd.create_ah(&path()).unwrap().destroy().unwrap();
                pd.alloc_mw(MwType::Type1).unwrap().dealloc().unwrap();
                let cq = context
                    .completion_queue(4)
                    .channel(&channel)
                    .user_data(number);
                let cq = cq.build().unwrap();
                let srq = pd.create_srq(4, 1).unwrap();
                assert!(srq.query().is_ok() && srq.pd().is_same(&pd));
                let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
                let qp = builder.srq(&srq).build().unwrap();
                drop((srq, cq));
                drop(qp);
                // Events of other threads, or none.
                assert!(channel.try_event().is_err() && context.try_async_event().is_err());
                assert!(format!("{context:?} {region:?}").contains("Context"));
            });
        }
    });
    drop((region, address, window, channel));
    pd.dealloc().unwrap();
}

#[test]
fn events_find_their_queues_while_others_come_and_go() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let pd = context.alloc_pd().unwrap();
    thread::scope(|scope| {
        for number in 1..3 {
            let (context, pd, channel) = (&context, &pd, &channel);
            again(scope, move |turn| {
                let cq = context.completion_queue(4).channel(channel);
                let mut cq = cq.user_data(number).build().unwrap();
                let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1).build();
                let prepared = prepared.unwrap();
                let endpoint = prepared.endpoint();
                let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
                cq.request_notification(Notify::Any).unwrap();
                qp.recv_empty(1).unwrap();
                qp.send_inline(b"", 2).unwrap();
                if turn % 2 == 0 {
                    assert!(cq.poll().unwrap().is_some());
                }
            });
        }
        // Two listeners: each event is read once, and belongs to one of them or to a destroyed
        // queue.
        let (sender, receiver) = mpsc::channel();
        for _ in 0..2 {
            let (channel, sender) = (channel.clone(), sender.clone());
            scope.spawn(move || {
                while let Some(event) = channel.event(Some(QUIET)).unwrap() {
                    assert!(matches!(event.user_data(), None | Some(1 | 2)), "{event:?}");
                    sender.send(event).unwrap();
                }
            });
        }
        drop(sender);
        assert!(receiver.iter().count() <= 2 * TURNS);
    });
}

#[test]
fn asynchronous_events_are_taken_while_queues_come_and_go() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut kept = Vec::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (context, sender) = (context.clone(), sender.clone());
            scope.spawn(move || {
                let wait = Some(QUIET);
                while let Some(event) = context.async_event(wait).unwrap() {
                    sender.send(event.source).unwrap();
                }
            });
        }
        drop(sender);
        for turn in 0..TURNS {
            let number = u64::try_from(turn).unwrap();
            let cq = context
                .completion_queue(4)
                .user_data(number)
                .build()
                .unwrap();
            let source = Source::Cq(u32::try_from(turn + 1).unwrap());
            bench.fake.raise(source, CQ_ERR);
            // No event of a destroyed queue may ever be reported.
            if turn % 3 == 0 {
                kept.push((number, cq));
            }
        }
    });
    let mut times = [0; TURNS];
    for source in receiver {
        match source {
            EventSource::CompletionQueue { user_data } => {
                times[usize::try_from(user_data).unwrap()] += 1;
            }
            source => assert!(matches!(source, EventSource::Gone), "{source:?}"),
        }
    }
    for (number, _) in &kept {
        assert_eq!(times[usize::try_from(*number).unwrap()], 1, "{number}");
    }
    assert!(times.iter().all(|times| *times <= 1), "{times:?}");
}

#[test]
fn what_one_thread_sends_another_one_receives() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (one, other) = (end(&context, &pd), end(&context, &pd));
    let (to_one, to_other) = (one.0.endpoint(), other.0.endpoint());
    let (mut one, mut other) = (connect(one, &pd, to_other), connect(other, &pd, to_one));
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        // The device writes on the sender's thread; the receiver learns of it only by its
        // completion queue.
        scope.spawn(move || {
            let [buffer] = one.buffers::<1>(24).unwrap();
            let mut buffer = Some(buffer);
            for turn in 0..TURNS {
                is_ready.recv_timeout(PATIENCE).unwrap();
                let mut lent = buffer.take().unwrap();
                lent.fill(turn.to_le_bytes()[0]);
                one.qp.send(lent, 21, 0).unwrap();
                let finished = one.finish(1).unwrap().pop().unwrap();
                assert!(finished.status().is_success(), "{finished:?}");
                buffer = finished.into_buffer();
            }
        });
        scope.spawn(move || {
            let [buffer] = other.buffers::<1>(24).unwrap();
            let mut buffer = Some(buffer);
            for turn in 0..TURNS {
                let mut lent = buffer.take().unwrap();
                lent.fill(0xee);
                other.qp.recv(lent, 0).unwrap();
                ready.send(()).unwrap();
                let finished = loop {
                    if let Some(finished) = other.finish(1).unwrap().pop() {
                        break finished;
                    }
                    thread::yield_now();
                };
                let back = finished.into_buffer().unwrap();
                assert_eq!(back[..21], [turn.to_le_bytes()[0]; 21]);
                assert_eq!(back[21..], [0xee; 3]);
                buffer = Some(back);
            }
        });
    });
}

#[test]
fn a_queue_goes_from_thread_to_thread() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut pair = Loopback::new(&context).unwrap();
    let mut buffers = Vec::from(pair.buffers::<2>(16).unwrap());
    for turn in 0..TURNS.min(40) {
        let byte = turn.to_le_bytes()[0];
        (pair, buffers) = thread::spawn(move || {
            let (mut sent, received) = (buffers.pop().unwrap(), buffers.pop().unwrap());
            sent.fill(byte);
            pair.qp.recv(received, 1).unwrap();
            pair.qp.send(sent, 16, 2).unwrap();
            (pair, buffers)
        })
        .join()
        .unwrap();
        for finished in pair.finish(2).unwrap() {
            let buffer = finished.into_buffer().unwrap();
            assert_eq!(*buffer, [byte; 16]);
            buffers.push(buffer);
        }
    }
}

#[test]
fn calls_of_all_threads_are_recorded() {
    let records = Arc::new(Collector::new());
    let bench = Bench::newest().recorded_by(records.clone());
    let context = bench.context().unwrap();
    records.take();
    let mut seen = 0;
    thread::scope(|scope| {
        for _ in 0..3 {
            again(scope, |_| assert!(context.query_port(1).is_ok()));
        }
        again(scope, |_| seen += records.take().len());
    });
    seen += records.take().len();
    assert_eq!(seen, 3 * TURNS);
}

#[test]
fn all_threads_may_leave_pages_out_of_children() {
    let pages = Pages::new(3 * 4096).unwrap();
    let start = pages.as_ptr().addr();
    #[expect(unsafe_code, reason = "the pages are this test's own")]
    let left_out = |guard: &ForkGuard, from: usize, len: usize| {
        // SAFETY: nobody else leaves the test's own pages out of children.
        unsafe { guard.protect(from, len) }.unwrap()
    };
    let guard = ForkGuard::forced();
    thread::scope(|scope| {
        for number in 0..3 {
            let guard = guard.clone();
            again(scope, move |turn| {
                let from = start + (turn + number) % 3 * 2048;
                let one = left_out(&guard, from, 4096);
                let other = left_out(&ForkGuard::forced(), from, 64);
                drop((one, other));
                assert_eq!(guard.stuck(), 0);
            });
        }
    });
}
