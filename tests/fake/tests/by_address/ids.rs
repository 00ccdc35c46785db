//! Ids and their events, one command at a time.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use fake_tests::connections::{ADDRESS, params};
use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{
    CmAddress, EventChannel, EventKind, EventStatus, Id, IdEvent, MulticastJoin, PortSpace,
    PrivateData, RejectReason,
};
use uverbs::error::Errno;
use uverbs::{ErrorKind, QpState};
use uverbs_core::types::Ece;

use crate::eventually;
use crate::side::{Side, request};

#[track_caller]
fn next(channel: &EventChannel, wanted: EventKind) -> IdEvent {
    let event = channel.event(Some(PATIENCE)).unwrap().expect("an event");
    assert_eq!(event.event.kind, wanted, "{event:?}");
    event
}

fn any() -> SocketAddr {
    SocketAddr::from((ADDRESS, 0))
}

fn listen(channel: &EventChannel, space: PortSpace) -> (Id, SocketAddr) {
    let id = channel.create_id(space).unwrap();
    id.bind(any()).unwrap();
    id.listen(4).unwrap();
    let Some(CmAddress::Ip(at)) = id.route().unwrap().source else {
        panic!("no address")
    };
    (id, at)
}

fn resolve(channel: &EventChannel, space: PortSpace, to: SocketAddr) -> Id {
    let id = channel.create_id(space).unwrap();
    id.resolve_address(None, to, PATIENCE).unwrap();
    let event = next(channel, EventKind::AddressResolved);
    assert_eq!(Some(event.of), id.key());
    id.resolve_route(PATIENCE).unwrap();
    next(channel, EventKind::RouteResolved);
    id
}

#[test]
fn every_step_can_be_taken_by_hand() {
    let bench = Bench::newest();
    let (server, client) = (bench.channel().unwrap(), bench.channel().unwrap());
    let (listener, at) = listen(&server, PortSpace::Tcp);
    let active = resolve(&client, PortSpace::Tcp, at);
    active.set_type_of_service(8).unwrap();
    active
        .connect(&params(17, b"hello").unwrap(), Ece::default())
        .unwrap();
    let asked = next(&server, EventKind::ConnectRequest);
    assert_eq!(Some(asked.of), listener.key());
    let passive = asked.request.unwrap();
    assert_eq!(passive.key(), None);
    for state in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
        passive.init_qp_attr(state).unwrap();
    }
    passive
        .accept(&params(19, &[]).unwrap(), Ece::default())
        .unwrap();
    next(&client, EventKind::ConnectResponse);
    active.establish().unwrap();
    let established = next(&server, EventKind::Established);
    assert_eq!(Some(established.of), passive.key());
    active.disconnect().unwrap();
    next(&server, EventKind::Disconnected);
    drop(passive);
    next(&client, EventKind::Disconnected);
    next(&client, EventKind::TimewaitExit);

    // A request that nobody keeps.
    let again = resolve(&client, PortSpace::Tcp, at);
    again
        .connect(&params(21, &[]).unwrap(), Ece::default())
        .unwrap();
    drop(next(&server, EventKind::ConnectRequest));
    let refused = next(&client, EventKind::Rejected);
    let consumer = EventStatus::Rejected(RejectReason::Consumer);
    assert_eq!(refused.event.outcome(), consumer);
    assert!(server.try_event().unwrap().is_none());
}

#[test]
fn events_of_dropped_ids_are_discarded() {
    let bench = Bench::newest();
    let (server, client) = (bench.channel().unwrap(), bench.channel().unwrap());
    let (listener, at) = listen(&server, PortSpace::Tcp);
    let mut keys = HashSet::new();
    for _ in 0..3 {
        let id = client.create_id(PortSpace::Tcp).unwrap();
        id.resolve_address(None, at, PATIENCE).unwrap();
        assert!(keys.insert(id.key()));
    }
    assert!(client.try_event().unwrap().is_none());
    // Of a listener that is gone: read for somebody else, and rejected.
    let active = resolve(&client, PortSpace::Tcp, at);
    active
        .connect(&params(5, &[]).unwrap(), Ece::default())
        .unwrap();
    let kept = server.create_id(PortSpace::Tcp).unwrap();
    kept.resolve_address(None, at, PATIENCE).unwrap();
    drop(listener);
    next(&client, EventKind::Rejected);
    next(&server, EventKind::AddressResolved);
    drop((active, kept));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_datagram_service_is_found_and_refuses() {
    let bench = Bench::newest();
    let (server, client) = (bench.channel().unwrap(), bench.channel().unwrap());
    let (_listener, at) = listen(&server, PortSpace::Udp);
    let id = resolve(&client, PortSpace::Udp, at);
    id.connect(&params(3, b"who?").unwrap(), Ece::default())
        .unwrap();
    let asked = next(&server, EventKind::ConnectRequest);
    assert_eq!(
        asked.event.datagram().private_data.as_bytes()[..4],
        *b"who?"
    );
    let answer = params(77, b"me").unwrap();
    asked
        .request
        .unwrap()
        .accept(&answer, Ece::default())
        .unwrap();
    let found = next(&client, EventKind::Established).event.datagram();
    assert_eq!((found.qp_num, found.qkey), (77, 0x0123_4567));
    let id = resolve(&client, PortSpace::Udp, at);
    id.connect(&params(3, &[]).unwrap(), Ece::default())
        .unwrap();
    let asked = next(&server, EventKind::ConnectRequest).request.unwrap();
    asked
        .reject(RejectReason::Consumer, &PrivateData::EMPTY)
        .unwrap();
    let refused = next(&client, EventKind::Unreachable);
    assert_eq!(refused.event.outcome(), EventStatus::Refused(2));
}

#[test]
fn dropping_a_join_leaves_the_group_and_frees_its_id() {
    let bench = Bench::newest();
    let channel = bench.channel().unwrap();
    let id = channel.create_id(PortSpace::Udp).unwrap();
    let group = SocketAddr::from(([239, 1, 2, 3], 0));
    let early = id.join_multicast(group, MulticastJoin::Full).unwrap_err();
    assert_eq!(early.errno(), Some(Errno::INVAL));
    id.bind(any()).unwrap();
    let join = id.join_multicast(group, MulticastJoin::Full).unwrap();
    let joined = next(&channel, EventKind::MulticastJoin);
    assert_eq!(joined.of, join.key());
    assert_eq!(joined.event.datagram().qp_num, 0x00ff_ffff);
    drop(id);
    assert_eq!(bench.fake.connection_ids(), 1);
    drop(join);
    assert_eq!(bench.fake.connection_ids(), 0);
}

#[test]
fn ids_and_connections_share_a_channel() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (_by_hand, at) = listen(&server.channel, PortSpace::Tcp);
    let active = resolve(&client.channel, PortSpace::Tcp, at);
    active
        .connect(&params(5, &[]).unwrap(), Ece::default())
        .unwrap();
    std::thread::scope(|scope| {
        let passive = scope.spawn(|| request(&listener).accept(server.prepare()).unwrap());
        let resolved = client.resolve(listener.local_addr());
        let connection = resolved.connect(client.prepare()).unwrap();
        drop((connection, passive.join().unwrap()));
    });
    // Whoever read the other's event left it.
    let asked = next(&server.channel, EventKind::ConnectRequest);
    asked
        .request
        .unwrap()
        .reject(RejectReason::Consumer, &PrivateData::EMPTY)
        .unwrap();
    next(&client.channel, EventKind::Rejected);
    assert!(
        client
            .channel
            .event(Some(Duration::ZERO))
            .unwrap()
            .is_none()
    );
}

#[test]
fn what_is_no_connection_manager_is_refused() {
    let bench = Bench::newest();
    let device = bench.fake.open().unwrap();
    let kernel = std::sync::Arc::new(bench.fake.clone());
    let refused = uverbs::cm::ChannelOptions::new().over(kernel, device);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    let null = std::fs::File::open("/dev/null").unwrap();
    let linux = std::sync::Arc::new(uverbs::kernel::Linux);
    let refused = uverbs::cm::ChannelOptions::new().over(linux, null.into());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
}
