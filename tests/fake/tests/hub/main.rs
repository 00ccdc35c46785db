//! Many connections on one completion queue, on the fake kernel.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod sleep;
mod tasks;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Cx, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::{Bench, PATIENCE};
use uverbs::asynchronous::AsyncCompletionChannel;
use uverbs::hub::{Connection, ConnectionError, Events, Hub, HubBuilder};
use uverbs::{AccessFlags, ErrorKind, ProtectionDomain, WcStatus};

/// What a turn of all of a thousand tasks may take on a busy machine, with every access checked.
const WITH_MANY: Duration = Duration::from_secs(120);

/// Long enough that what must not happen would have happened.
const MOMENT: Duration = Duration::from_millis(30);

fn hub<'p>(pd: &'p ProtectionDomain, set: impl Fn(HubBuilder<'p>) -> HubBuilder<'p>) -> Hub {
    let plain = pd.hub().sends(4).receives(4).buffer_size(64);
    let plain = plain.queue_pairs(|queue| queue.gid_index(1));
    set(plain).build().unwrap()
}

fn connect(one: &Hub, other: &Hub) -> (Connection, Connection) {
    let (one, other) = (one.prepare().unwrap(), other.prepare().unwrap());
    let (here, there) = (one.endpoint(), other.endpoint());
    (one.connect(there).unwrap(), other.connect(here).unwrap())
}

fn send(hub: &Hub, from: &Connection, text: &[u8]) -> Result<(), ConnectionError> {
    let mut buffer = hub.buffer().unwrap();
    buffer[..text.len()].copy_from_slice(text);
    from.send(buffer, text.len()).wait(PATIENCE).map(drop)
}

/// All buffers are back, and nothing but the hubs is left.
fn is_clean(hub: &Hub) {
    let counts = hub.counts();
    assert_eq!(counts.connections, 0);
    assert_eq!(counts.free_buffers, counts.buffers, "{counts:?}");
}

#[test]
fn messages_go_both_ways_and_no_thread_drives() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, there) = connect(&a, &b);
    // More than fit into all queues: each message taken makes room for one.
    for number in 0..50_u8 {
        send(&a, &here, &[number; 9]).unwrap();
        let message = there.recv().wait(PATIENCE).unwrap();
        assert_eq!(&message[..], [number; 9]);
        let (reply, len) = message.into_buffer();
        let reply = there.send_imm(reply, len, number.into()).wait(PATIENCE);
        drop(reply.unwrap());
        let heard = here.recv().wait(PATIENCE).unwrap();
        assert_eq!(
            (&heard[..], heard.imm()),
            (&[number; 9][..], Some(number.into()))
        );
    }
    assert_eq!(
        here.recv().wait(Duration::ZERO).unwrap_err(),
        ConnectionError::TimedOut
    );
    drop((here, there));
    is_clean(&a);
    is_clean(&b);
}

#[test]
fn exposed_memory_is_written_and_read() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, _there) = connect(&a, &b);
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    let memory = pd.expose(64, access).unwrap();
    let mut buffer = a.buffer().unwrap();
    buffer[..4].copy_from_slice(b"here");
    let buffer = here
        .write(buffer, 4, memory.remote())
        .wait(PATIENCE)
        .unwrap();
    let mut bytes = [0; 4];
    assert!(memory.read(0, &mut bytes) && &bytes == b"here");
    assert!(memory.write(0, b"back"));
    let buffer = here
        .read(buffer, 4, memory.remote())
        .wait(PATIENCE)
        .unwrap();
    assert_eq!(&buffer[..4], b"back");
}

#[test]
fn atomics_bring_the_old_value_and_immediates_their_number() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, there) = connect(&a, &b);
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let memory = pd.expose(64, access).unwrap();
    assert!(memory.store(8, 40));
    let word = memory.remote_at(8..16).unwrap();
    let buffer = a.buffer().unwrap();
    let (old, buffer) = here.fetch_add(buffer, word, 2).wait(PATIENCE).unwrap();
    assert_eq!((old, memory.load(8)), (40, Some(42)));
    for (compare, found) in [(41, 42), (42, 7)] {
        let buffer = a.buffer().unwrap();
        let swap = here.compare_swap(buffer, word, compare, 7);
        let (old, _buffer) = swap.wait(PATIENCE).unwrap();
        assert_eq!((old, memory.load(8)), (42, Some(found)));
    }
    let sent = here.write_imm(buffer, 0, memory.remote(), 77);
    drop(sent.wait(PATIENCE).unwrap());
    let message = there.recv().wait(PATIENCE).unwrap();
    assert_eq!((message.len(), message.imm()), (0, Some(77)));
    drop((message, here, there));
    is_clean(&a);
    is_clean(&b);
}

/// One connection floods a hub that does not take its messages; another goes on.
#[test]
fn an_unread_connection_exhausts_only_its_own_backlog() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let clients = hub(&pd, |hub| hub.buffers(64));
    let server = hub(&pd, |hub| {
        hub.shared_receive_queue()
            .receives(4)
            .backlog(3)
            .buffers(12)
    });
    let (loud, ignored) = connect(&clients, &server);
    let (quiet, heard) = connect(&clients, &server);
    let mut sent = 0;
    let lost = loop {
        match send(&clients, &loud, &[sent]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        while server.turn().unwrap() > 0 {}
        assert!(sent < 20, "it floods");
    };
    assert!(matches!(lost, ConnectionError::Disconnected(_)), "{lost}");
    assert_eq!(ignored.over(), Some(ConnectionError::Backlog));
    for number in 0..40 {
        send(&clients, &quiet, &[number]).unwrap();
        assert_eq!(heard.recv().wait(PATIENCE).unwrap()[..], [number]);
    }
    // What came before is still there.
    for number in 0..3 {
        assert_eq!(ignored.recv().wait(PATIENCE).unwrap()[..], [number]);
    }
    assert_eq!(
        ignored.recv().wait(PATIENCE).unwrap_err(),
        ConnectionError::Backlog
    );
    drop((loud, ignored, quiet, heard));
    is_clean(&clients);
    assert_eq!(server.counts().connections, 0);
    assert!(server.counts().buffers <= 12);
}

#[test]
fn a_full_send_queue_makes_requests_wait_and_nothing_is_lost() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (
        hub(&pd, |hub| hub.buffers(64)),
        hub(&pd, |hub| hub.receives(16)),
    );
    let (here, there) = connect(&a, &b);
    bench.fake.freeze(true);
    let mut requests: Vec<_> = (0..10)
        .map(|number| {
            let mut buffer = a.buffer().unwrap();
            buffer[0] = number;
            here.send(buffer, 1)
        })
        .collect();
    let free = a.counts().free_buffers;
    // Not posted yet: dropping it takes it back.
    drop(requests.pop());
    assert_eq!(a.counts().free_buffers, free + 1);
    // Under way: its buffer stays with the device.
    drop(requests.remove(1));
    assert_eq!(a.counts().free_buffers, free + 1);
    bench.fake.freeze(false);
    for request in requests {
        drop(request.wait(PATIENCE).unwrap());
    }
    for number in 0..9 {
        assert_eq!(there.recv().wait(PATIENCE).unwrap()[0], number);
    }
    drop((here, there));
    is_clean(&a);
    is_clean(&b);
}

#[test]
fn a_peer_that_is_gone_is_noticed_by_who_sends_and_by_who_keeps_alive() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let server = hub(&pd, |hub| hub.keepalive(Duration::from_millis(5)));
    let deaf = hub(&pd, |hub| hub);
    let client = hub(&pd, |hub| hub);
    let (kept, its_peer) = connect(&server, &client);
    let (unkept, other_peer) = connect(&deaf, &client);
    // A live peer answers; the connection stays.
    assert_eq!(
        kept.recv().wait(MOMENT).unwrap_err(),
        ConnectionError::TimedOut
    );
    assert_eq!(kept.over(), None);
    drop((its_peer, other_peer));
    let why = kept.recv().wait(PATIENCE).unwrap_err();
    assert!(matches!(why, ConnectionError::Disconnected(_)), "{why:?}");
    assert_eq!(kept.over(), Some(why));
    assert_eq!(
        unkept.recv().wait(MOMENT).unwrap_err(),
        ConnectionError::TimedOut
    );
    let why = send(&deaf, &unkept, b"hello").unwrap_err();
    assert_eq!(why, ConnectionError::Disconnected(WcStatus::RetryExceeded));
    assert_eq!(unkept.recv().wait(PATIENCE).unwrap_err(), why);
    drop((kept, unkept));
    is_clean(&server);
    is_clean(&deaf);
    is_clean(&client);
}

#[test]
fn every_wait_ends_with_the_hub_and_handles_outlive_it() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    for with_driver in [true, false] {
        let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
        let driver = a.driver();
        let driver = with_driver.then(|| thread::spawn(move || driver.run()));
        let (here, there) = connect(&a, &b);
        let (spare, prepared) = (a.buffer().unwrap(), a.prepare().unwrap());
        let endpoint = prepared.endpoint();
        thread::scope(|scope| {
            let waits: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| here.recv().wait(10 * PATIENCE).unwrap_err()))
                .collect();
            thread::sleep(MOMENT);
            drop(a);
            for wait in waits {
                assert_eq!(wait.join().unwrap(), ConnectionError::Closed);
            }
        });
        let why = here.send(spare, 1).wait(PATIENCE).unwrap_err();
        assert_eq!(why, ConnectionError::Closed);
        let refused = prepared.connect(endpoint);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidState);
        if let Some(driver) = driver {
            driver.join().unwrap().unwrap();
        }
        drop((here, there, b));
    }
    drop(pd);
    assert_eq!(bench.fake.objects().qps, 0);
    assert_eq!(bench.fake.objects().mrs, 0);
}

/// A waker that counts, and does something else.
struct Counted<F>(AtomicUsize, F);

impl<F: Fn() + Send + Sync> Wake for Counted<F> {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        (self.1)();
    }
}

fn poll_with<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Cx::from_waker(waker))
}

#[test]
fn a_waker_may_panic_or_drop_its_own_connection() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, there) = connect(&a, &b);
    let (here2, there2) = connect(&a, &b);
    let bad = Arc::new(Counted(AtomicUsize::new(0), || panic!("a waker's panic")));
    let dropped = std::sync::Mutex::new(Some(here2));
    let kills = Arc::new(Counted(AtomicUsize::new(0), move || {
        drop(dropped.lock().unwrap().take());
    }));
    let mut one = pin!(there.recv());
    assert!(poll_with(one.as_mut(), &Waker::from(bad.clone())).is_pending());
    let mut other = pin!(there.recv());
    assert!(poll_with(other.as_mut(), &Waker::from(kills.clone())).is_pending());
    send(&a, &here, b"x").unwrap();
    while bad.0.load(Ordering::Relaxed) == 0 {
        b.turn().unwrap();
    }
    assert_eq!(
        kills.0.load(Ordering::Relaxed),
        1,
        "the others are woken nevertheless"
    );
    assert_eq!(b.counts().panicked_wakers, 1);
    assert_eq!((a.counts().connections, b.counts().connections), (1, 2));
    assert!(poll_with(other, Waker::noop()).is_ready());
    drop(there2);
}

#[test]
fn a_panic_while_building_leaves_the_hub_as_it_was() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let often = Arc::new(AtomicUsize::new(0));
    let a = hub(&pd, |hub| {
        let often = often.clone();
        hub.queue_pairs(move |queue| {
            assert!(
                often.fetch_add(1, Ordering::Relaxed) > 0,
                "the first one panics"
            );
            queue.gid_index(1)
        })
    });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.prepare()));
    assert!(panic.is_err());
    let (here, there) = connect(&a, &a);
    send(&a, &here, b"alive").unwrap();
    assert_eq!(&there.recv().wait(PATIENCE).unwrap()[..], b"alive");
}

#[test]
fn forgotten_futures_block_no_other() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, there) = connect(&a, &b);
    for number in 0..20_u8 {
        let mut forgotten = Box::pin(there.recv());
        assert!(poll_with(forgotten.as_mut(), Waker::noop()).is_pending());
        #[expect(clippy::mem_forget, reason = "what the test is about")]
        std::mem::forget(forgotten);
        send(&a, &here, &[number]).unwrap();
        assert_eq!(there.recv().wait(PATIENCE).unwrap()[0], number);
    }
    // Their buffers come back with the connection.
    let request = here.send(a.buffer().unwrap(), 1);
    #[expect(clippy::mem_forget, reason = "what the test is about")]
    std::mem::forget(request);
    drop(there.recv().wait(PATIENCE).unwrap());
    drop((here, there));
    is_clean(&b);
}

#[test]
fn places_are_limited_and_used_again() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.connections(2));
    for _ in 0..20 {
        let (here, there) = connect(&a, &a);
        let full = a.prepare().unwrap_err();
        assert_eq!(full.kind(), ErrorKind::LimitExceeded);
        // Left in the completion queue, for a number that may be used again.
        drop(here.send(a.buffer().unwrap(), 1));
        drop((here, there));
    }
    is_clean(&a);
    let no = pd.hub().connections(0).build().unwrap_err();
    assert_eq!(no.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_refused_prepare_wakes_the_receivers_whose_completions_it_took() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.connections(2));
    let (here, there) = connect(&a, &a);
    let woken = Arc::new(Counted(AtomicUsize::new(0), || {}));
    let mut receive = pin!(there.recv());
    assert!(poll_with(receive.as_mut(), &Waker::from(woken.clone())).is_pending());
    let _sent = here.send(a.buffer().unwrap(), 1);
    a.prepare().unwrap_err();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(poll_with(receive, Waker::noop()).is_ready());
}

/// A channel on which something seems to have happened, each time after one look of the executor.
struct Restless;

impl Events for Restless {
    async fn event(&self, _: Option<Duration>) -> uverbs::Result<bool> {
        let mut looked = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut looked, true) {
                return Poll::Ready(Ok(true));
            }
            Poll::Pending
        })
        .await
    }
}

#[test]
fn a_driver_lets_other_tasks_run_however_fast_completions_come() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    // Each look of the driver is late enough for another keepalive, which ends at once.
    let a = hub(&pd, |hub| {
        hub.keepalive(Duration::from_nanos(1)).spin(Duration::ZERO)
    });
    let (here, there) = connect(&a, &a);
    let mut driver = pin!(a.driver().run_async(&Restless));
    for _ in 0..100 {
        assert!(poll_with(driver.as_mut(), Waker::noop()).is_pending());
    }
    assert_eq!((here.over(), there.over()), (None, None));
    a.close();
    assert!(poll_with(driver, Waker::noop()).is_ready());
}

#[test]
fn a_buffer_of_another_hub_is_refused_and_goes_home() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let (here, there) = connect(&a, &a);
    let why = here
        .send(b.buffer().unwrap(), 1)
        .wait(PATIENCE)
        .unwrap_err();
    assert!(matches!(why, ConnectionError::Refused(_)));
    let why = here
        .send(a.buffer().unwrap(), 65)
        .wait(PATIENCE)
        .unwrap_err();
    assert!(matches!(why, ConnectionError::Refused(_)));
    send(&a, &here, b"as before").unwrap();
    drop((here, there));
    is_clean(&a);
    is_clean(&b);
}

#[test]
fn one_receive_queue_serves_connections_that_come_and_go() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let clients = hub(&pd, |hub| hub);
    let server = hub(&pd, |hub| hub.shared_receive_queue().receives(8));
    for turn in 0..40_u8 {
        let (one, its) = connect(&clients, &server);
        let (other, others) = connect(&clients, &server);
        send(&clients, &one, &[turn, 1]).unwrap();
        send(&clients, &other, &[turn, 2]).unwrap();
        if turn % 2 == 0 {
            assert_eq!(&others.recv().wait(PATIENCE).unwrap()[..], [turn, 2]);
        }
        if turn % 3 == 0 {
            assert_eq!(&its.recv().wait(PATIENCE).unwrap()[..], [turn, 1]);
        }
    }
    let counts = server.counts();
    assert_eq!(counts.connections, 0);
    // All but those that are posted, or whose completions are still in the queue.
    assert!(counts.buffers - counts.free_buffers <= 8, "{counts:?}");
    assert_eq!(counts.buffers, 32, "memory is flat");
}

#[test]
fn connections_are_made_and_lost_by_many_threads_while_others_go_on() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let many = || hub(&pd, |hub| hub.connections(64).buffers(1024));
    let (a, b) = (many(), many());
    let drivers = [a.driver(), b.driver()].map(|driver| thread::spawn(move || driver.run()));
    let turns = if fake_tests::is_thinned() { 3 } else { 60 };
    thread::scope(|scope| {
        for number in 0..4_u8 {
            let (a, b) = (&a, &b);
            scope.spawn(move || {
                for turn in 0..turns {
                    let (here, there) = connect(a, b);
                    for _ in 0..3 {
                        send(a, &here, &[number, turn]).unwrap();
                    }
                    assert_eq!(&there.recv().wait(PATIENCE).unwrap()[..], [number, turn]);
                    if turn % 2 == 0 {
                        // The peer goes first, while there is something to be sent.
                        drop(there);
                        let why = send(a, &here, b"?").unwrap_err();
                        assert!(matches!(why, ConnectionError::Disconnected(_)), "{why:?}");
                    }
                }
            });
        }
    });
    is_clean(&a);
    is_clean(&b);
    assert!(a.counts().buffers <= 1024);
    drop((a, b));
    for driver in drivers {
        driver.join().unwrap().unwrap();
    }
    assert_eq!(bench.fake.objects().qps, 0);
}

/// What a request and its completion cost here, for the record: printed, not judged.
#[test]
#[ignore = "measures"]
fn the_cost_of_a_round() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.spin(Duration::ZERO));
    let (here, there) = connect(&a, &a);
    let rounds = 20_000;
    let since = Instant::now();
    for _ in 0..rounds {
        drop(here.send(a.buffer().unwrap(), 8).wait(PATIENCE).unwrap());
        drop(there.recv().wait(PATIENCE).unwrap());
    }
    println!("{:?} each", since.elapsed() / rounds);
}
