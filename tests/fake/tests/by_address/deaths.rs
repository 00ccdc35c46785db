//! A peer dies between any two messages of the handshake. The peer is a channel that is driven by
//! hand, and closed.

use std::net::SocketAddr;
use std::thread;

use fake_tests::connections::{ADDRESS, listen, next, params, resolve};
use fake_tests::{Bench, PATIENCE};
use uverbs::QpState;
use uverbs::cm::{CmError, ConnectError, ConnectionEvent, EventKind, RejectReason};
use uverbs_core::cm as raw;
use uverbs_core::cm::{CmFile, PortSpace};
use uverbs_core::types::Ece;

use crate::eventually;
use crate::side::{Side, request};

/// The queue pair is back in RESET.
#[track_caller]
fn given_back(refused: ConnectError) {
    let prepared = *refused.prepared.expect("the queue pair");
    assert_eq!(prepared.into_raw().state(), QpState::Reset);
}

fn send(file: &CmFile, to: SocketAddr, qp_num: u32) -> u32 {
    let id = resolve(file, 1, PortSpace::Tcp, to.port()).unwrap();
    raw::connect(file, id, &params(qp_num, &[]).unwrap(), Ece::default()).unwrap();
    id
}

#[test]
fn the_server_dies_with_the_request() {
    for was_read in [false, true] {
        let bench = Bench::newest();
        let client = Side::new(&bench);
        let server = bench.connection_manager().unwrap();
        let (_, port) = listen(&server, 1, PortSpace::Tcp, 4).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(server.wait_event(Some(PATIENCE)).unwrap());
                if was_read {
                    next(&server, EventKind::ConnectRequest).unwrap();
                }
                drop(server);
                // The fake notices a closed file at the next call. Whether the client's id is still
                // there then is up to the client.
                let _ = bench.fake.connection_ids();
            });
            let to = SocketAddr::from((ADDRESS, port));
            let refused = client.resolve(to).connect(client.prepare()).unwrap_err();
            assert_eq!(
                refused.cause.reason(),
                Some(RejectReason::Consumer),
                "{refused}"
            );
            given_back(refused);
        });
    }
}

#[test]
fn the_server_dies_after_it_accepted() {
    let bench = Bench::newest();
    let client = Side::new(&bench);
    let server = bench.connection_manager().unwrap();
    let (_, port) = listen(&server, 1, PortSpace::Tcp, 4).unwrap();
    let attached = {
        let resolved = client.resolve(SocketAddr::from((ADDRESS, port)));
        resolved.attach(client.prepare()).unwrap()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(server.wait_event(Some(PATIENCE)).unwrap());
            let id = next(&server, EventKind::ConnectRequest).unwrap().id;
            // The response and the end arrive together.
            raw::accept(&server, id, 5, &params(77, &[]).unwrap(), Ece::default()).unwrap();
            drop(server);
            let _ = bench.fake.connection_ids();
        });
        match attached.connect() {
            Ok(connection) => {
                let event = connection.event(Some(PATIENCE)).unwrap();
                assert_eq!(event, Some(ConnectionEvent::Disconnected));
            }
            Err(refused) => {
                let cause = &refused.cause;
                let over = cause.reason() == Some(RejectReason::Consumer)
                    || matches!(cause, CmError::GaveUp);
                assert!(over, "{refused}");
                given_back(refused);
            }
        }
    });
}

#[test]
fn the_client_dies_before_it_is_answered() {
    let bench = Bench::newest();
    let server = Side::new(&bench);
    let listener = server.listen();
    let client = bench.connection_manager().unwrap();
    send(&client, listener.local_addr(), 9);
    send(&client, listener.local_addr(), 10);
    let (first, second) = (request(&listener), request(&listener));
    drop(client);
    let refused = first.accept(server.prepare()).unwrap_err();
    assert!(matches!(refused.cause, CmError::GaveUp), "{refused}");
    given_back(refused);
    let refused = second.reject(uverbs::cm::RejectData::EMPTY).unwrap_err();
    assert!(matches!(refused, CmError::GaveUp), "{refused}");
    drop(listener);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn the_client_dies_with_the_answer() {
    let bench = Bench::newest();
    let server = Side::new(&bench);
    let listener = server.listen();
    let client = bench.connection_manager().unwrap();
    send(&client, listener.local_addr(), 9);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(client.wait_event(Some(PATIENCE)).unwrap());
            next(&client, EventKind::ConnectResponse).unwrap();
            drop(client);
            assert!(bench.fake.connection_ids() > 0);
        });
        let refused = request(&listener).accept(server.prepare()).unwrap_err();
        assert_eq!(
            refused.cause.reason(),
            Some(RejectReason::Consumer),
            "{refused}"
        );
        given_back(refused);
    });
}

#[test]
fn either_dies_when_it_is_connected() {
    let bench = Bench::newest();
    let server = Side::new(&bench);
    let listener = server.listen();
    let client = bench.connection_manager().unwrap();
    let id = send(&client, listener.local_addr(), 9);
    let connection = thread::scope(|scope| {
        scope.spawn(|| {
            assert!(client.wait_event(Some(PATIENCE)).unwrap());
            next(&client, EventKind::ConnectResponse).unwrap();
            raw::establish(&client, id).unwrap();
        });
        request(&listener).accept(server.prepare()).unwrap()
    });
    assert_eq!(connection.link().try_event().unwrap(), None);
    drop(client);
    assert!(bench.fake.connection_ids() > 0);
    let event = connection.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
}
