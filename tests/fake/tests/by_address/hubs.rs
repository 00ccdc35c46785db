//! Connections of hubs that are made by address.

use std::thread;
use std::time::{Duration, Instant};

use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{CmError, ConnectionEvent, Listener, RejectData, RejectReason};
use uverbs::hub::{Connection, ConnectionError, Hub};
use uverbs::time::RnrRetry;
use uverbs::transport::Rc;
use uverbs::{ErrorKind, PreparedQueuePair, ProtectionDomain, owned};

use crate::eventually;
use crate::side::{Side, request};

pub(crate) fn hub(pd: &ProtectionDomain, is_shared: bool) -> Hub {
    let hub = pd.hub().connections(4).sends(4).receives(4).buffer_size(64);
    let hub = hub.queue_pairs(|queue| queue.gid_index(1));
    let hub = if is_shared {
        hub.shared_receive_queue()
    } else {
        hub
    };
    hub.build().unwrap()
}

fn connected(
    client: &Side,
    ours: &Hub,
    theirs: &Hub,
    listener: &Listener,
) -> (Connection, Connection) {
    thread::scope(|scope| {
        let passive = scope.spawn(|| theirs.prepare().unwrap().accept(request(listener)).unwrap());
        let resolved = client.resolve(listener.local_addr());
        let active = ours.prepare().unwrap().connect_to(resolved).unwrap();
        (active, passive.join().unwrap())
    })
}

fn send(hub: &Hub, from: &Connection, text: &[u8]) {
    let mut buffer = hub.buffer().unwrap();
    buffer[..text.len()].copy_from_slice(text);
    drop(from.send(buffer, text.len()).wait(PATIENCE).unwrap());
}

pub(crate) fn is_clean(hub: &Hub) {
    eventually("buffers are missing", || {
        let counts = hub.counts();
        counts.connections == 0 && counts.free_buffers == counts.buffers
    });
}

#[test]
fn messages_go_both_ways_and_the_end_of_the_peer_comes_after_them() {
    for is_shared in [false, true] {
        let bench = Bench::newest();
        let (client, server) = (Side::new(&bench), Side::new(&bench));
        let listener = server.listen();
        let (ours, theirs) = (hub(&client.pd, is_shared), hub(&server.pd, is_shared));
        let (here, there) = connected(&client, &ours, &theirs, &listener);
        for number in 0..20_u8 {
            send(&ours, &here, &[number; 9]);
            let message = there.recv().wait(PATIENCE).unwrap();
            assert_eq!(&message[..], [number; 9]);
            let (reply, len) = message.into_buffer();
            drop(there.send(reply, len).wait(PATIENCE).unwrap());
            assert_eq!(&here.recv().wait(PATIENCE).unwrap()[..], [number; 9]);
        }
        send(&ours, &here, b"last");
        drop(here);
        assert_eq!(&there.recv().wait(PATIENCE).unwrap()[..], b"last");
        let over = there.recv().wait(PATIENCE).unwrap_err();
        assert_eq!(over, ConnectionError::PeerLeft);
        let refused = there.send(theirs.buffer().unwrap(), 1).wait(PATIENCE);
        assert_eq!(refused.unwrap_err(), ConnectionError::PeerLeft);
        drop((there, listener));
        eventually("ids are left", || bench.fake.connection_ids() == 0);
        if !is_shared {
            is_clean(&ours);
            is_clean(&theirs);
        }
    }
}

#[test]
fn a_waiting_receive_ends_when_the_peer_leaves_and_its_place_is_freed() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (ours, theirs) = (hub(&client.pd, false), hub(&server.pd, false));
    // More than a hub has places.
    for _ in 0..if cfg!(miri) { 5 } else { 12 } {
        let (here, there) = connected(&client, &ours, &theirs, &listener);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| here.recv().wait(PATIENCE).map(drop));
            thread::sleep(Duration::from_millis(5));
            drop(there);
            assert_eq!(
                waiting.join().unwrap().unwrap_err(),
                ConnectionError::PeerLeft
            );
        });
        drop(here);
        // Their places are free when another thread has destroyed the queue pairs.
        is_clean(&ours);
        is_clean(&theirs);
    }
}

/// A queue pair that fails where the peer has no receive.
fn impatient(side: &Side) -> PreparedQueuePair<Rc> {
    let builder = side.pd.queue_pair(Rc, &side.cq, &side.cq);
    let builder = builder.rnr_retry(RnrRetry::new(0).unwrap());
    builder.gid_index(1).build().unwrap()
}

#[test]
fn a_peer_that_sends_at_once_finds_receives() {
    let bench = Bench::newest();
    let (mut client, mut server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    for round in 0..if cfg!(miri) { 2 } else { 10 } {
        let (ours, theirs) = (hub(&client.pd, false), hub(&server.pd, false));
        // The hub is the passive side, and then the active one.
        let (first, there) = thread::scope(|scope| {
            let passive = scope.spawn(|| {
                theirs
                    .prepare()
                    .unwrap()
                    .accept(request(&listener))
                    .unwrap()
            });
            let resolved = client.resolve(listener.local_addr());
            let mut active = resolved.connect(impatient(&client)).unwrap();
            let message = client.buffer();
            active.queue_pair().send(message, 9, 0).unwrap();
            let sent = client.finish(&mut active);
            assert!(sent.status().is_success(), "{round}: {}", sent.status());
            (active, passive.join().unwrap())
        });
        assert_eq!(there.recv().wait(PATIENCE).unwrap().len(), 9);
        let (here, second) = thread::scope(|scope| {
            let passive = scope.spawn(|| {
                let accepted = request(&listener).accept(impatient(&server));
                let mut passive = accepted.unwrap();
                let message = server.buffer();
                passive.queue_pair().send(message, 7, 0).unwrap();
                let sent = server.finish(&mut passive);
                assert!(sent.status().is_success(), "{round}: {}", sent.status());
                passive
            });
            let resolved = client.resolve(listener.local_addr());
            let active = ours.prepare().unwrap().connect_to(resolved).unwrap();
            (active, passive.join().unwrap())
        });
        assert_eq!(here.recv().wait(PATIENCE).unwrap().len(), 7);
        // Together: who is left knows the number of a queue pair that another may have by then.
        drop((first, there, here, second));
        is_clean(&ours);
        is_clean(&theirs);
        eventually("ids are left", || bench.fake.connection_ids() == 1);
    }
}

#[test]
fn a_hub_that_is_closed_during_a_handshake_ends_it() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    for accepts in [true, false] {
        let ours = hub(&client.pd, false);
        let (made, other) = thread::scope(|scope| {
            let made = scope.spawn(|| {
                let resolved = client.resolve(listener.local_addr());
                ours.prepare().unwrap().connect_to(resolved)
            });
            let request = request(&listener);
            ours.close();
            let other = if accepts {
                Some(request.accept(server.prepare()))
            } else {
                request.reject(RejectData::EMPTY).unwrap();
                None
            };
            (made.join().unwrap().map(drop), other)
        });
        match made.unwrap_err() {
            CmError::Failed(error) if accepts => {
                assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
            }
            error => assert_eq!(error.reason(), Some(RejectReason::Consumer), "{error}"),
        }
        if let Some(Ok(peer)) = &other {
            let event = peer.event(Some(PATIENCE)).unwrap();
            assert_eq!(event, Some(ConnectionEvent::Disconnected));
        }
        is_clean(&ours);
        // A peer that is left would know the number of the next round's queue pair.
        drop(other);
        eventually("ids are left", || bench.fake.connection_ids() == 1);
    }
    drop(listener);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn what_cannot_be_connected_leaves_nothing_behind() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let ours = hub(&client.pd, false);
    for _ in 0..6 {
        let refused = thread::scope(|scope| {
            scope.spawn(|| request(&listener).reject(RejectData::EMPTY).unwrap());
            let resolved = client.resolve(listener.local_addr());
            ours.prepare().unwrap().connect_to(resolved).unwrap_err()
        });
        assert_eq!(refused.reason(), Some(RejectReason::Consumer), "{refused}");
    }
    is_clean(&ours);
    let resolved = client.resolve(listener.local_addr());
    let prepared = ours.prepare().unwrap();
    ours.close();
    let CmError::Failed(error) = prepared.connect_to(resolved).unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    drop(listener);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_dropped_hub_ends_its_connections_even_if_forgotten() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (ours, theirs) = (hub(&client.pd, false), hub(&server.pd, false));
    let (here, there) = connected(&client, &ours, &theirs, &listener);
    #[expect(clippy::mem_forget, reason = "programs may")]
    std::mem::forget(here);
    drop(ours);
    let over = there.recv().wait(PATIENCE).unwrap_err();
    assert_eq!(over, ConnectionError::PeerLeft);
    drop((there, listener));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

/// A send of a hub whose peer has no receive for it, and has left; the peer's queue pair is still
/// there.
fn with_a_send_under_way(
    then: impl FnOnce(&Side, &mut owned::QueuePair<Rc>),
    check: impl FnOnce(Result<(), ConnectionError>, Duration),
) {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let (listener, ours) = (server.listen(), hub(&client.pd, false));
    let (here, peer) = thread::scope(|scope| {
        let passive = scope.spawn(|| request(&listener).accept(server.prepare()).unwrap());
        let prepared = ours.prepare().unwrap();
        let active = prepared.connect_to(client.resolve(listener.local_addr()));
        (active.unwrap(), passive.join().unwrap())
    });
    let (mut queue, link) = peer.into_parts();
    let sent = here.send(ours.buffer().unwrap(), 9);
    let since = Instant::now();
    link.disconnect().unwrap();
    let ended = thread::scope(|scope| {
        let waiting = scope.spawn(|| sent.wait(PATIENCE).map(drop));
        then(&server, &mut queue);
        waiting.join().unwrap()
    });
    check(ended, since.elapsed());
    let over = here.recv().wait(PATIENCE).unwrap_err();
    assert_eq!(over, ConnectionError::PeerLeft);
    drop((here, queue, link, listener));
    is_clean(&ours);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn what_arrives_although_the_peer_has_left_has_arrived() {
    with_a_send_under_way(
        |server, queue| {
            // The word that the peer has left is there long before.
            thread::sleep(Duration::from_millis(30));
            queue.recv(server.buffer(), 0).unwrap();
            // A command, at which the fake kernel looks again.
            server.context.query_port(1).unwrap();
        },
        |ended, _| ended.unwrap(),
    );
}

#[test]
fn what_never_arrives_ends_soon_after_the_peer_has_left() {
    with_a_send_under_way(
        |_, _| {},
        |ended, time| {
            assert_eq!(ended.unwrap_err(), ConnectionError::PeerLeft);
            assert!(time >= Duration::from_millis(250), "{time:?}");
        },
    );
}
