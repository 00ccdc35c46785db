//! Connections that tasks make.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fake_tests::connections::{at, listen, next};
use fake_tests::{Bench, PATIENCE};
use tokio::runtime::{Builder, Runtime};
use uverbs::ErrorKind;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{CmError, ConnectionEvent, EventKind, RejectReason, Step};
use uverbs_core::cm as raw;
use uverbs_core::cm::PortSpace;

use crate::eventually;
use crate::side::Side;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn channel(side: &Side) -> AsyncEventChannel {
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

/// Both at the same time, in this task.
pub(crate) async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
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
    let connector = || client.connector(to).timeout(Duration::from_millis(30));
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
                while !done.load(std::sync::atomic::Ordering::Acquire) {
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
        done.store(true, std::sync::atomic::Ordering::Release);
        drop(first);
    });
}
