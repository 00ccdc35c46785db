//! Connections that are refused, and limits that pass.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::connections::{ADDRESS, listen, next, params, resolve};
use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{self, CmError, ConnectData, EventKind, RejectData, RejectReason, Step};
use uverbs::error::Errno;
use uverbs::owned::Memory;
use uverbs::{ErrorKind, QpState};
use uverbs_core::cm as raw;
use uverbs_core::cm::PortSpace;
use uverbs_core::types::Ece;
use uverbs_fake::AfterRemoval;

use crate::eventually;
use crate::side::{Side, connected, request};

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_refusal_says_why_and_the_queue_pair_is_used_again() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            let data = RejectData::new(b"too many").unwrap();
            request(&listener).reject(data).unwrap();
            request(&listener).reject_ece(RejectData::EMPTY).unwrap();
            request(&listener).accept(server.prepare()).unwrap();
        });
        let attach = |prepared| client.resolve(listener.local_addr()).attach(prepared);
        let mut attached = attach(client.prepare()).unwrap();
        attached.queue_pair().recv(client.buffer(), 3).unwrap();
        let mut refused = attached.connect().unwrap_err();
        // What was posted came back with it.
        assert!(
            matches!(refused.memory[..], [Memory::Buffer(..)]),
            "{:?}",
            refused.memory
        );
        refused.memory.clear();
        let again = *refused.prepared.take().unwrap();
        let second = attach(again).unwrap().connect().unwrap_err();
        assert_eq!(second.cause.reason(), Some(RejectReason::VendorOption));
        let again = *second.prepared.unwrap();
        attach(again).unwrap().connect().unwrap();
        refused
    });
    assert_eq!(refused.cause.reason(), Some(RejectReason::Consumer));
    let CmError::Rejected(rejection) = &refused.cause else {
        panic!("{refused}")
    };
    assert_eq!(rejection.private_data()[..9], *b"too many\0");
    assert_eq!(refused.to_string(), "rejected: refused by the peer");
    assert_eq!(format!("{refused:?}"), refused.to_string());
}

#[test]
fn missing_listeners_and_unreachable_hosts_are_reported() {
    let bench = Bench::newest();
    let client = Side::new(&bench);
    let at = |address: [u8; 4]| SocketAddr::from((address, 4791));
    let refused = client
        .resolve(at(ADDRESS))
        .connect(client.prepare())
        .unwrap_err();
    assert_eq!(refused.cause.reason(), Some(RejectReason::InvalidServiceId));
    assert!(refused.to_string().contains("nobody listens"), "{refused}");
    let prepared = *refused.prepared.unwrap();
    assert_eq!(prepared.into_raw().state(), QpState::Reset);

    let silent = client.connector(at([10, 0, 0, 77])).resolve().unwrap_err();
    assert!(
        matches!(silent, CmError::TimedOut(Step::Address)),
        "{silent}"
    );
    let far = client.connector(at([192, 0, 2, 1])).resolve().unwrap_err();
    let CmError::Failed(error) = far else {
        panic!("{far}")
    };
    assert_eq!(error.errno(), Some(Errno::NETUNREACH));
    let foreign = client.connector(at(ADDRESS)).source(at([192, 0, 2, 1]));
    let foreign = foreign.resolve().unwrap_err();
    assert!(matches!(foreign, CmError::Failed(_)), "{foreign}");
    let taken = cm::listen(at([192, 0, 2, 1])).channel(&client.channel);
    assert_eq!(taken.build().unwrap_err().kind(), ErrorKind::NotFound);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn timeouts_end_each_step_and_the_peer_is_notified() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    // A server that takes requests and says nothing.
    let silent = bench.connection_manager().unwrap();
    let (_, port) = listen(&silent, 1, PortSpace::Tcp, 4).unwrap();
    let to = SocketAddr::from((ADDRESS, port));
    let start = Instant::now();
    let resolved = cm::connect(to).channel(&client.channel).timeout(SHORT);
    let refused = resolved
        .resolve()
        .unwrap()
        .connect(client.prepare())
        .unwrap_err();
    assert!(
        matches!(refused.cause, CmError::TimedOut(Step::Connect)),
        "{refused}"
    );
    assert!(refused.prepared.is_some());
    assert!(start.elapsed() >= SHORT && start.elapsed() < PATIENCE);
    let child = next(&silent, EventKind::ConnectRequest).unwrap().id;
    eventually("the peer may still accept", || {
        raw::accept(&silent, child, 5, &params(9, &[]).unwrap(), Ece::default()).is_err()
    });

    // A client that gets the answer and says nothing.
    let listener = server.listen();
    let port = listener.local_addr().port();
    let slow = bench.connection_manager().unwrap();
    let id = resolve(&slow, 1, PortSpace::Tcp, port).unwrap();
    raw::connect(&slow, id, &params(11, &[]).unwrap(), Ece::default()).unwrap();
    let refused = request(&listener)
        .timeout(SHORT)
        .accept(server.prepare())
        .unwrap_err();
    assert!(
        matches!(refused.cause, CmError::TimedOut(Step::Accept)),
        "{refused}"
    );
    next(&slow, EventKind::ConnectResponse).unwrap();
    assert!(slow.wait_event(Some(PATIENCE)).unwrap());
    let event = next(&slow, EventKind::Rejected).unwrap();
    assert_eq!(event.status, 28);

    // A peer that does not answer a disconnect.
    let (mut active, passive) = connected(&client, &server, &listener);
    let late = active.disconnect(SHORT).unwrap_err();
    assert!(
        matches!(late, CmError::TimedOut(Step::Disconnect)),
        "{late}"
    );
    drop(passive);
    active.disconnect(PATIENCE).unwrap();
    assert!(listener.accept_timeout(SHORT).unwrap().is_none());
}

#[test]
fn data_that_does_not_fit_is_refused_before_a_command() {
    let calls = |bench: &Bench| bench.fake.calls();
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let resolved = client.resolve(listener.local_addr());
    let before = calls(&bench);
    assert!(ConnectData::new(&[1; 57]).is_err());
    assert_eq!(calls(&bench), before);
    // The longest arrives whole.
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = request(&listener);
            assert_eq!(request.peer_data(), [1; 56]);
            let data = RejectData::new(&[2; 148]).unwrap();
            request.reject(data).unwrap();
        });
        let data = ConnectData::new(&[1; 56]).unwrap();
        let refused = resolved.private_data(data).connect(client.prepare());
        let CmError::Rejected(rejection) = refused.unwrap_err().cause else {
            panic!("not rejected")
        };
        assert_eq!(rejection.private_data(), [2; 148]);
    });
}

#[test]
fn a_device_that_is_removed_ends_every_step() {
    let removed = |cause: &CmError| matches!(cause, CmError::DeviceRemoved);
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (active, passive) = connected(&client, &server, &listener);
    let idle = client.resolve(listener.local_addr());
    let prepared = client.prepare();
    let waiting = client
        .resolve(listener.local_addr())
        .attach(client.prepare())
        .unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            // The request is taken, and held.
            let _request = request(&listener);
            let accepting = scope.spawn(|| listener.accept());
            thread::sleep(SHORT);
            bench.fake.remove_device(AfterRemoval::DestroySucceeds);
            accepting.join().unwrap()
        });
        let cause = waiting.connect().unwrap_err().cause;
        assert!(removed(&cause), "{cause}");
        let cause = serving.join().unwrap().map(drop).unwrap_err();
        assert!(removed(&cause), "{cause}");
    });
    let cause = idle.connect(prepared).unwrap_err().cause;
    assert!(
        removed(&cause) || matches!(cause, CmError::Failed(_)),
        "{cause}"
    );
    let event = active.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(cm::ConnectionEvent::DeviceRemoved));
    assert!(active.link().is_over());
    assert_eq!(
        active.link().disconnect().unwrap_err().kind(),
        ErrorKind::DeviceRemoved
    );
    let gone = client
        .connector(listener.local_addr())
        .resolve()
        .unwrap_err();
    let CmError::Failed(error) = gone else {
        panic!("{gone}")
    };
    assert_eq!(error.errno(), Some(Errno::NODEV));
    drop((active, passive, listener));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}
