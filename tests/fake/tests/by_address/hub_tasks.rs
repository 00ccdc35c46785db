//! Connections of hubs that tasks make by address.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use fake_tests::{Bench, PATIENCE};
use uverbs::asynchronous::{AsyncCompletionChannel, AsyncEventChannel};
use uverbs::cm::{CmError, Listener, RejectData, RejectReason};
use uverbs::hub::{Connection, ConnectionError, Hub};

use crate::eventually;
use crate::hubs::{hub, is_clean};
use crate::side::Side;
use crate::tasks::{channel, join, runtime};

/// One end: where its connections come from, and where they are.
struct End<'a> {
    side: &'a Side,
    channel: &'a AsyncEventChannel,
    hub: &'a Hub,
}

impl End<'_> {
    async fn connect(&self, listener: &Listener) -> Result<Connection, CmError> {
        let connector = self.side.connector(listener.local_addr());
        let resolved = self.channel.resolve(connector).await?;
        let prepared = self.hub.prepare()?;
        prepared.connect_to_async(resolved, self.channel).await
    }

    async fn accept(&self, listener: &Listener) -> Result<Connection, CmError> {
        let request = self.channel.request(listener).await?;
        self.hub
            .prepare()?
            .accept_async(request, self.channel)
            .await
    }
}

/// Both ends of a connection: the active one, and the passive one.
async fn both(client: &End<'_>, server: &End<'_>, listener: &Listener) -> (Connection, Connection) {
    let here = async { client.connect(listener).await.unwrap() };
    let there = async { server.accept(listener).await.unwrap() };
    Box::pin(join(here, there)).await
}

fn drive(hub: &Hub) {
    let events = AsyncCompletionChannel::new(hub.channel().clone()).unwrap();
    let driver = hub.driver();
    tokio::spawn(async move { driver.run_async(&events).await });
}

/// Runs `test` with two ends and a listener of the second one; everything is gone afterwards.
fn with_ends(test: impl AsyncFnOnce(End<'_>, End<'_>, &Listener)) {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (ours, theirs) = (hub(&client.pd, false), hub(&server.pd, false));
    runtime().block_on(async {
        let channels = [&client, &server].map(channel);
        drive(&ours);
        drive(&theirs);
        let end = |side, at: usize, hub| End {
            side,
            channel: &channels[at],
            hub,
        };
        let (client, server) = (end(&client, 0, &ours), end(&server, 1, &theirs));
        Box::pin(test(client, server, &listener)).await;
    });
    drop(listener);
    is_clean(&ours);
    is_clean(&theirs);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn tasks_connect_exchange_messages_and_hear_of_the_end() {
    with_ends(async |client, server, listener| {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(both(&client, &server, listener).await);
        }
        for (here, there) in &all {
            let mut buffer = client.hub.buffer().unwrap();
            buffer[..5].copy_from_slice(b"hello");
            drop(here.send(buffer, 5).await.unwrap());
            assert_eq!(&there.recv().await.unwrap()[..], b"hello");
        }
        let (here, there): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        drop(here);
        for there in &there {
            let over = there.recv().await.unwrap_err();
            assert_eq!(over, ConnectionError::PeerLeft);
        }
    });
}

#[test]
fn a_future_that_is_dropped_gives_the_connection_up() {
    with_ends(async |client, server, listener| {
        for _ in 0..6 {
            let connector = client.side.connector(listener.local_addr());
            let resolved = client.channel.resolve(connector).await.unwrap();
            let prepared = client.hub.prepare().unwrap();
            {
                let connecting = pin!(prepared.connect_to_async(resolved, client.channel));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(connecting.poll(&mut cx).is_pending());
            }
            // The peer may see that it was given up before it accepts, or only then.
            let request = server.channel.request(listener).await.unwrap();
            let prepared = server.hub.prepare().unwrap();
            let accepting = prepared.accept_async(request, server.channel);
            match tokio::time::timeout(PATIENCE, accepting).await.unwrap() {
                Ok(there) => {
                    let over = there.recv().await.unwrap_err();
                    assert_eq!(over, ConnectionError::PeerLeft);
                }
                Err(CmError::TimedOut(step)) => panic!("no word of it: {step:?}"),
                Err(_) => {}
            }
        }
    });
}

#[test]
fn refusals_and_a_closed_hub_leave_nothing_behind() {
    with_ends(async |client, server, listener| {
        let refuse = async {
            let request = server.channel.request(listener).await.unwrap();
            request.reject(RejectData::EMPTY).unwrap();
        };
        let (refused, ()) = Box::pin(join(client.connect(listener), refuse)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason(), Some(RejectReason::Consumer), "{refused}");

        // On another channel no event would ever come.
        let connector = client.side.connector(listener.local_addr());
        let resolved = client.channel.resolve(connector).await.unwrap();
        let prepared = client.hub.prepare().unwrap();
        let elsewhere = prepared.connect_to_async(resolved, server.channel).await;
        let elsewhere = elsewhere.unwrap_err().to_string();
        assert!(elsewhere.contains("another event channel"), "{elsewhere}");
        let given_up = server.channel.request(listener);
        drop(tokio::time::timeout(Duration::from_millis(20), given_up).await);

        let connector = client.side.connector(listener.local_addr());
        let resolved = client.channel.resolve(connector).await.unwrap();
        let prepared = client.hub.prepare().unwrap();
        client.hub.close();
        let closed = prepared.connect_to_async(resolved, client.channel).await;
        assert!(matches!(closed, Err(CmError::Failed(_))), "{closed:?}");
    });
}
