//! Connections that tasks make.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use fake_tests::connections::{at, listen, next};
use fake_tests::{Bench, PATIENCE};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use uverbs::ErrorKind;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{CmError, Connection, ConnectionEvent, EventKind, RejectReason, Step};
use uverbs_core::Op;
use uverbs_core::cm as raw;
use uverbs_core::cm::PortSpace;

use crate::eventually;
use crate::side::Side;

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn channel(side: &Side) -> AsyncEventChannel {
    AsyncEventChannel::new(side.channel.clone()).unwrap()
}

#[test]
fn tasks_connect_and_hear_of_the_end() {
    const COUNT: usize = if cfg!(miri) { 2 } else { 20 };
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    runtime().block_on(async {
        let (ours, theirs) = (channel(&client), channel(&server));
        let serve = async {
            let mut accepted = Vec::new();
            for _ in 0..COUNT {
                let request = theirs.request(&listener).await.unwrap();
                let attached = request.attach(server.prepare()).unwrap();
                accepted.push(theirs.accept(attached).await.unwrap());
            }
            accepted
        };
        let connect = async {
            let mut made = Vec::new();
            for _ in 0..COUNT {
                let connector = client.connector(listener.local_addr());
                let resolved = ours.resolve(connector).await.unwrap();
                let attached = resolved.attach(client.prepare()).unwrap();
                made.push(ours.connect(attached).await.unwrap());
            }
            made
        };
        let (mut accepted, made) = Box::pin(join(serve, connect)).await;
        let mut last = accepted.pop().unwrap();
        let ended = async {
            for connection in &made {
                let event = ours.event(connection.link()).await.unwrap();
                assert_eq!(event, ConnectionEvent::Disconnected);
                connection.link().disconnect().unwrap();
            }
        };
        drop(accepted);
        let (ended, ()) = join(theirs.disconnect(&mut last, PATIENCE), ended).await;
        ended.unwrap();
    });
    drop(listener);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

/// Established connections of tasks: the active ends, and the passive ones.
async fn connections(
    count: usize,
    (client, ours): (&Side, &AsyncEventChannel),
    (server, theirs): (&Side, &AsyncEventChannel),
) -> (Vec<Connection>, Vec<Connection>) {
    let listener = server.listen();
    let (mut made, mut accepted) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let serve = async {
            let request = theirs.request(&listener).await.unwrap();
            theirs
                .accept(request.attach(server.prepare()).unwrap())
                .await
        };
        let connect = async {
            let connector = client.connector(listener.local_addr());
            let resolved = ours.resolve(connector).await.unwrap();
            ours.connect(resolved.attach(client.prepare()).unwrap())
                .await
        };
        let (passive, active) = Box::pin(join(serve, connect)).await;
        accepted.push(passive.unwrap());
        made.push(active.unwrap());
    }
    (made, accepted)
}

#[test]
fn an_event_wakes_nobody_but_those_who_wait_for_it() {
    const COUNT: usize = if cfg!(miri) { 3 } else { 20 };
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    runtime().block_on(async {
        let (ours, theirs) = (Arc::new(channel(&client)), channel(&server));
        let (made, mut accepted) = connections(COUNT, (&client, &ours), (&server, &theirs)).await;
        let polls = Arc::new(AtomicUsize::new(0));
        let mut waiting: Vec<_> = made
            .into_iter()
            .map(|connection| {
                let (ours, polls) = (Arc::clone(&ours), Arc::clone(&polls));
                tokio::spawn(async move {
                    let mut event = pin!(ours.event(connection.link()));
                    let counted = poll_fn(|cx| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        event.as_mut().poll(cx)
                    });
                    counted.await.unwrap()
                })
            })
            .collect();
        while polls.load(Ordering::Relaxed) < COUNT {
            yield_now().await;
        }
        drop(accepted.remove(1));
        let heard = waiting.remove(1).await.unwrap();
        assert_eq!(heard, ConnectionEvent::Disconnected);
        let polls = polls.load(Ordering::Relaxed);
        assert!(polls < COUNT + 3, "{polls} polls by {COUNT} tasks");
        assert!(waiting.iter().all(|task| !task.is_finished()));
    });
}

#[test]
fn a_channel_whose_runtime_has_ended_says_so() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let first = runtime();
    let (ours, mut made) = first.block_on(async {
        let (ours, theirs) = (channel(&client), channel(&server));
        let (made, accepted) = connections(2, (&client, &ours), (&server, &theirs)).await;
        drop(accepted);
        (ours, made)
    });
    let waiting = made.remove(0);
    std::thread::scope(|scope| {
        // One waits already, in a runtime of its own; the other comes later.
        let early = scope.spawn(|| runtime().block_on(ours.event(waiting.link())));
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        let early = early.join().unwrap();
        assert!(
            early.is_ok_and(|event| event == ConnectionEvent::Disconnected),
            "what had arrived is lost"
        );
    });
    let late = made.remove(0);
    let ended = runtime().block_on(async {
        let heard = ours.event(late.link()).await;
        assert_eq!(heard.unwrap(), ConnectionEvent::Disconnected);
        ours.event(late.link()).await.unwrap_err()
    });
    assert_eq!(ended.kind(), ErrorKind::InvalidState, "{ended}");
}

/// Both at the same time, in this task.
pub(crate) async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            second = Some(output);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

#[test]
fn a_future_that_is_dropped_took_no_event_and_its_peer_is_told() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let silent = bench.connection_manager().unwrap();
    let (_, port) = listen(&silent, 1, PortSpace::Tcp, 4).unwrap();
    let listener = server.listen();
    runtime().block_on(async {
        let (ours, theirs) = (channel(&client), channel(&server));
        let raw::CmAddress::Ip(to) = at(port) else {
            panic!("an IP address")
        };
        let resolved = ours.resolve(client.connector(to)).await.unwrap();
        let attached = resolved.attach(client.prepare()).unwrap();
        let short = Duration::from_millis(30);
        assert!(
            tokio::time::timeout(short, ours.connect(attached))
                .await
                .is_err()
        );
        let child = next(&silent, EventKind::ConnectRequest).unwrap().id;
        eventually("the peer may still refuse", || {
            let data = raw::PrivateData::EMPTY;
            raw::reject(&silent, child, RejectReason::Consumer, &data).is_err()
        });

        // A request is taken by the poll that returns it, and by no other.
        {
            let waiting = pin!(theirs.request(&listener));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.poll(&mut cx).is_pending());
        }
        let resolved = ours
            .resolve(client.connector(listener.local_addr()))
            .await
            .unwrap();
        let attached = resolved.attach(client.prepare()).unwrap();
        let refuse = async {
            let nothing = tokio::time::timeout(Duration::ZERO, theirs.request(&listener)).await;
            match nothing {
                Ok(request) => drop(request.unwrap()),
                Err(_) => drop(theirs.request(&listener).await.unwrap()),
            }
        };
        let (refused, ()) = Box::pin(join(ours.connect(attached), refuse)).await;
        assert_eq!(
            refused.unwrap_err().cause.reason(),
            Some(RejectReason::Consumer)
        );
    });
}

#[test]
fn tasks_have_limits_of_their_own() {
    let bench = Bench::newest();
    let client = Side::new(&bench);
    let silent = bench.connection_manager().unwrap();
    let (_, port) = listen(&silent, 1, PortSpace::Tcp, 4).unwrap();
    let raw::CmAddress::Ip(to) = at(port) else {
        panic!("an IP address")
    };
    let limit = Duration::from_millis(if cfg!(miri) { 5000 } else { 30 });
    let connector = || client.connector(to).timeout(limit);
    let (stuck, elsewhere) = runtime().block_on(async {
        let ours = channel(&client);
        let resolved = ours.resolve(connector()).await.unwrap();
        let attached = resolved.attach(client.prepare()).unwrap();
        let stuck = ours.connect(attached).await.unwrap_err();
        // Of another channel no event would ever come.
        let other = AsyncEventChannel::new(bench.channel().unwrap()).unwrap();
        let resolved = ours.resolve(connector()).await.unwrap();
        let attached = resolved.attach(client.prepare()).unwrap();
        (stuck, other.connect(attached).await.unwrap_err())
    });
    assert!(
        matches!(stuck.cause, CmError::TimedOut(Step::Connect)),
        "{stuck}"
    );
    assert!(stuck.prepared.is_some());
    assert!(
        elsewhere.to_string().contains("another event channel"),
        "{elsewhere}"
    );

    let timeless = Builder::new_current_thread().enable_io().build().unwrap();
    let refused = timeless.block_on(async {
        let ours = channel(&client);
        ours.resolve(connector()).await.unwrap_err()
    });
    let CmError::Failed(error) = refused else {
        panic!("{refused}")
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    let nowhere = AsyncEventChannel::new(client.channel.clone()).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::InvalidState);
}

#[test]
fn a_channel_that_was_dropped_is_registered_again_at_once() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    runtime().block_on(async {
        let first = channel(&client);
        let again = AsyncEventChannel::new(client.channel.clone()).unwrap_err();
        assert_eq!(again.op(), Op::CmGetEvent, "{again}");
        drop(first);
        // No other task has run in between.
        let second = channel(&client);
        let resolved = (second.resolve(client.connector(listener.local_addr()))).await;
        drop(resolved.unwrap());
        yield_now().await;
        let resolved = (second.resolve(client.connector(listener.local_addr()))).await;
        drop(resolved.unwrap());
    });
}

/// A waker that does nothing.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_wait_that_is_dropped_keeps_no_waker() {
    let bench = Bench::newest();
    let server = Side::new(&bench);
    let listener = server.listen();
    runtime().block_on(async {
        let theirs = channel(&server);
        let wakers = [(); 3].map(|()| Arc::new(Idle));
        let counts = || wakers.each_ref().map(Arc::strong_count);
        for _ in 0..2 {
            let mut waits = pin!(theirs.request(&listener));
            for idle in &wakers {
                let waker = Waker::from(Arc::clone(idle));
                let polled = waits.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            }
            assert_eq!(counts(), [1, 1, 2]);
        }
        assert_eq!(counts(), [1; 3]);
    });
}

/// What wakes it drops it, with the channel that it waits on.
struct Waiting(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waiting = self.0.lock().unwrap().take();
        drop(waiting);
    }
}

#[test]
fn a_channel_may_be_dropped_by_those_it_wakes() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    runtime().block_on(async {
        let ours = channel(&client);
        let connector = client.connector(listener.local_addr());
        let mut resolving: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            drop(ours.resolve(connector).await);
        });
        let waiting = Arc::new(Waiting(Mutex::default()));
        let waker = Waker::from(Arc::clone(&waiting));
        let mut cx = Context::from_waker(&waker);
        assert!(resolving.as_mut().poll(&mut cx).is_pending());
        *waiting.0.lock().unwrap() = Some(resolving);
        let deadline = Instant::now() + PATIENCE;
        while waiting.0.lock().unwrap().is_some() {
            assert!(Instant::now() < deadline, "nobody was woken");
            yield_now().await;
        }
        drop(channel(&client));
    });
}

#[test]
fn threads_and_tasks_share_a_channel() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime().block_on(async {
                let theirs = channel(&server);
                let request = theirs.request(&listener).await.unwrap();
                let attached = request.attach(server.prepare()).unwrap();
                let connection = theirs.accept(attached).await.unwrap();
                while !done.load(Ordering::Acquire) {
                    let short = Duration::from_millis(5);
                    drop(tokio::time::timeout(short, theirs.event(connection.link())).await);
                }
            });
        });
        let resolve = || client.resolve(listener.local_addr());
        let first = resolve().connect(client.prepare()).unwrap();
        // Beside the task, on the same channel.
        let serving = scope.spawn(|| {
            let request = listener.accept_timeout(PATIENCE).unwrap().unwrap();
            request.accept(server.prepare()).unwrap()
        });
        let second = resolve().connect(client.prepare()).unwrap();
        drop(second);
        let other = serving.join().unwrap();
        let event = other.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
        done.store(true, Ordering::Release);
        drop(first);
    });
}
