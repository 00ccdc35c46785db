//! How connections, ids and files end, and who is told.

use fake_tests::Bench;
use fake_tests::connections::{connected, listen, next, params, resolve};
use uverbs_core::cm::{self, CmFile, EventKind, EventStatus, PortSpace, PrivateData, RejectReason};
use uverbs_core::error::{Errno, ErrorKind};
use uverbs_core::types::Ece;
use uverbs_fake::AfterRemoval;

use crate::errno;

fn pair(bench: &Bench) -> (CmFile, CmFile, u16, u32) {
    let server = bench.connection_manager().unwrap();
    let client = bench.connection_manager().unwrap();
    let (listener, port) = listen(&server, 1, PortSpace::Tcp, 8).unwrap();
    (server, client, port, listener)
}

#[track_caller]
fn is_empty(file: &CmFile) {
    let nothing = cm::get_event(file).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "{nothing}");
}

#[test]
fn a_disconnect_is_answered_by_the_peers_program() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let (active, passive) = connected(&client, &server, port, 17).unwrap();
    cm::disconnect(&client, active).unwrap();
    is_empty(&client);
    assert_eq!(next(&server, EventKind::Disconnected).unwrap().id, passive);
    // Once more is harmless.
    cm::disconnect(&client, active).unwrap();
    is_empty(&server);
    cm::disconnect(&server, passive).unwrap();
    next(&client, EventKind::Disconnected).unwrap();
    next(&client, EventKind::TimewaitExit).unwrap();
    next(&server, EventKind::TimewaitExit).unwrap();
    is_empty(&client);
    is_empty(&server);
}

#[test]
fn destroying_notifies_the_peer_whatever_it_waits_for() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let rejected = |file: &CmFile| next(file, EventKind::Rejected).unwrap().outcome();
    let refused = EventStatus::Rejected(RejectReason::Consumer);

    // The server after the request.
    let active = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    cm::destroy_id(&server, passive).unwrap();
    assert_eq!(rejected(&client), refused);
    cm::destroy_id(&client, active).unwrap();

    // The client after the request: the server is not told, and its accept fails.
    let active = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, active, &params(18, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    cm::destroy_id(&client, active).unwrap();
    is_empty(&server);
    let late = cm::accept(
        &server,
        passive,
        9,
        &params(19, &[]).unwrap(),
        Ece::default(),
    );
    assert_eq!(errno(late), Errno::INVAL);
    cm::destroy_id(&server, passive).unwrap();

    // The client after the reply.
    let active = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, active, &params(20, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    cm::accept(
        &server,
        passive,
        9,
        &params(21, &[]).unwrap(),
        Ece::default(),
    )
    .unwrap();
    next(&client, EventKind::ConnectResponse).unwrap();
    cm::destroy_id(&client, active).unwrap();
    assert_eq!(rejected(&server), refused);
    cm::destroy_id(&server, passive).unwrap();

    // Either of an established connection.
    let (active, passive) = connected(&client, &server, port, 22).unwrap();
    cm::destroy_id(&client, active).unwrap();
    next(&server, EventKind::Disconnected).unwrap();
    cm::disconnect(&server, passive).unwrap();
    next(&server, EventKind::TimewaitExit).unwrap();
}

#[test]
fn a_listener_takes_its_unread_requests_along_but_not_those_that_were_read() {
    let bench = Bench::newest();
    let (server, client, port, listener) = pair(&bench);
    let connect = |qp_num| {
        let active = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
        cm::connect(
            &client,
            active,
            &params(qp_num, &[]).unwrap(),
            Ece::default(),
        )
        .unwrap();
        active
    };
    let first = connect(17);
    let read = next(&server, EventKind::ConnectRequest).unwrap().id;
    let second = connect(18);
    assert_eq!(cm::destroy_id(&server, listener).unwrap(), 1);
    is_empty(&server);
    assert_eq!(next(&client, EventKind::Rejected).unwrap().id, second);
    cm::accept(&server, read, 9, &params(19, &[]).unwrap(), Ece::default()).unwrap();
    assert_eq!(next(&client, EventKind::ConnectResponse).unwrap().id, first);
}

#[test]
fn f29_events_of_a_destroyed_id_vanish_and_its_number_is_used_again() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let (active, _) = connected(&client, &server, port, 17).unwrap();
    assert_eq!(cm::destroy_id(&client, active).unwrap(), 3);
    is_empty(&client);
    assert_eq!(errno(cm::destroy_id(&client, active)), Errno::NOENT);
    // Which is why a uid needs a generation.
    assert_eq!(resolve(&client, 5, PortSpace::Tcp, port).unwrap(), active);
}

#[test]
fn a_closed_file_ends_all_its_ids() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let ends: Vec<_> = (0..4)
        .map(|n| connected(&client, &server, port, 17 + 2 * n).unwrap())
        .collect();
    assert_eq!(bench.fake.connection_ids(), 1 + 8);
    drop(client);
    assert_eq!(bench.fake.connection_ids(), 1 + 4);
    for (_, passive) in ends {
        let event = next(&server, EventKind::Disconnected).unwrap();
        assert_eq!(event.id, passive);
    }
}

#[test]
fn a_failed_accept_has_rejected() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let active = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    let long = params(18, &[1; PrivateData::ACCEPT + 1]).unwrap();
    let refused = cm::accept(&server, passive, 9, &long, Ece::default());
    assert_eq!(errno(refused), Errno::INVAL);
    next(&client, EventKind::Rejected).unwrap();
    let again = cm::accept(
        &server,
        passive,
        9,
        &params(18, &[]).unwrap(),
        Ece::default(),
    );
    assert_eq!(errno(again), Errno::INVAL);
}

#[test]
fn f01_a_removed_device_is_reported_to_every_id_and_leaves_only_the_destroy() {
    let bench = Bench::newest();
    let (server, client, port, listener) = pair(&bench);
    let (active, passive) = connected(&client, &server, port, 17).unwrap();
    bench.fake.remove_device(AfterRemoval::DestroySucceeds);
    assert_eq!(next(&client, EventKind::DeviceRemoval).unwrap().id, active);
    assert_eq!(
        next(&server, EventKind::DeviceRemoval).unwrap().id,
        listener
    );
    assert_eq!(next(&server, EventKind::DeviceRemoval).unwrap().id, passive);
    let gone = cm::disconnect(&client, active).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::DeviceRemoved, "{gone}");
    assert_eq!(gone.errno(), Some(Errno::NXIO));
    assert_eq!(
        cm::query_route(&client, active).unwrap_err().kind(),
        ErrorKind::DeviceRemoved
    );
    for id in [listener, passive] {
        cm::destroy_id(&server, id).unwrap();
    }
    cm::destroy_id(&client, active).unwrap();
    assert_eq!(bench.fake.connection_ids(), 0);
}

#[test]
fn an_id_moves_with_its_events() {
    let bench = Bench::newest();
    let (server, client, port, _) = pair(&bench);
    let (active, passive) = connected(&client, &server, port, 17).unwrap();
    cm::disconnect(&server, passive).unwrap();
    let new = bench.connection_manager().unwrap();
    assert_eq!(cm::migrate_id(&new, &client, active).unwrap(), 3);
    is_empty(&client);
    assert_eq!(next(&new, EventKind::Disconnected).unwrap().id, active);
    assert_eq!(errno(cm::disconnect(&client, active)), Errno::INVAL);
    assert_eq!(errno(cm::migrate_id(&new, &client, active)), Errno::INVAL);
    assert_eq!(errno(cm::migrate_id(&new, &client, 77)), Errno::NOENT);
    cm::disconnect(&new, active).unwrap();
    next(&new, EventKind::TimewaitExit).unwrap();
}
