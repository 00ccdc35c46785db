//! Addresses, ports and routes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use fake_tests::Bench;
use fake_tests::connections::{at, next, params};
use uverbs_core::cm::{self, CmAddress, EventKind, EventStatus, PortSpace};
use uverbs_core::error::Errno;
use uverbs_core::types::{Ece, QpType};

use crate::errno;

const SOON: Duration = Duration::from_secs(1);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x02fa, 0xceff, 0xfe00, 1);

fn any(port: u16) -> CmAddress {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()
}

#[test]
fn ports_are_taken_and_given_back() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let new = || cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    let first = new();
    cm::bind(&file, first, at(7471)).unwrap();
    assert_eq!(errno(cm::bind(&file, new(), at(7471))), Errno::ADDRINUSE);
    assert_eq!(
        errno(cm::bind(&file, new(), any(7471))),
        Errno::ADDRNOTAVAIL
    );
    // Another port space has ports of its own.
    let datagrams = cm::create_id(&file, 1, PortSpace::Udp, QpType::Ud).unwrap();
    cm::bind(&file, datagrams, at(7471)).unwrap();
    cm::destroy_id(&file, first).unwrap();
    cm::bind(&file, new(), at(7471)).unwrap();
}

#[test]
fn several_ids_may_share_a_port_and_one_may_listen() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let shared = || {
        let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
        cm::set_reuse_address(&file, id, true).unwrap();
        cm::bind(&file, id, at(7471)).unwrap();
        id
    };
    let (first, second) = (shared(), shared());
    cm::listen(&file, first, 1).unwrap();
    assert_eq!(errno(cm::listen(&file, second, 1)), Errno::ADDRINUSE);
    assert_eq!(
        errno(cm::set_reuse_address(&file, first, true)),
        Errno::INVAL
    );
}

#[test]
fn an_address_binds_to_its_device_and_a_wildcard_to_none() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let bound = |address| {
        let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
        cm::bind(&file, id, address).map(|()| cm::query_route(&file, id).unwrap())
    };
    assert_eq!(bound(at(0)).unwrap().device.unwrap().index, 0);
    assert_eq!(bound(any(0)).unwrap().device, None);
    let foreign = SocketAddr::from(([192, 0, 2, 1], 0)).into();
    assert_eq!(errno(bound(foreign)), Errno::NODEV);
    let ours = SocketAddr::from(SocketAddrV6::new(LINK_LOCAL, 0, 0, 7));
    let route = bound(ours.into()).unwrap();
    let Some(CmAddress::Ip(SocketAddr::V6(address))) = route.source else {
        panic!("{route:?}")
    };
    assert_eq!((*address.ip(), address.scope_id()), (LINK_LOCAL, 7));
}

#[test]
fn some_peers_cannot_be_reached() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    let far = SocketAddr::from(([192, 0, 2, 1], 1)).into();
    let unreachable = cm::resolve_address(&file, id, None, far, SOON).unwrap_err();
    assert_eq!(unreachable.errno(), Some(Errno::NETUNREACH));
    assert!(
        unreachable.to_string().contains("192.0.2.1:1"),
        "{unreachable}"
    );
    let silent = SocketAddr::from(([10, 0, 0, 9], 1)).into();
    cm::resolve_address(&file, id, None, silent, SOON).unwrap();
    let event = next(&file, EventKind::AddressError).unwrap();
    assert_eq!(event.outcome(), EventStatus::Failed(Errno::TIMEDOUT));
    // It may try again.
    cm::resolve_address(&file, id, None, at(1), SOON).unwrap();
    next(&file, EventKind::AddressResolved).unwrap();
    let unscoped = SocketAddr::from(SocketAddrV6::new(LINK_LOCAL, 1, 0, 0)).into();
    let id = cm::create_id(&file, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    assert_eq!(
        errno(cm::resolve_address(&file, id, None, unscoped, SOON)),
        Errno::INVAL
    );
}

#[test]
fn a_wildcard_listener_is_found_by_either_family() {
    for only in [false, true] {
        let bench = Bench::newest();
        let (server, client) = (
            bench.connection_manager().unwrap(),
            bench.connection_manager().unwrap(),
        );
        let listener = cm::create_id(&server, 1, PortSpace::Tcp, QpType::Rc).unwrap();
        cm::set_address_family_only(&server, listener, only).unwrap();
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 7471));
        cm::bind(&server, listener, all.into()).unwrap();
        cm::listen(&server, listener, 8).unwrap();
        let link_local = SocketAddr::from(SocketAddrV6::new(LINK_LOCAL, 7471, 0, 7));
        for (qp_num, peer) in [(17, link_local.into()), (18, at(7471))] {
            let id = cm::create_id(&client, 1, PortSpace::Tcp, QpType::Rc).unwrap();
            cm::resolve_address(&client, id, None, peer, SOON).unwrap();
            next(&client, EventKind::AddressResolved).unwrap();
            cm::resolve_route(&client, id, SOON).unwrap();
            next(&client, EventKind::RouteResolved).unwrap();
            cm::connect(&client, id, &params(qp_num, &[]).unwrap(), Ece::default()).unwrap();
            let is_found = next(&server, EventKind::ConnectRequest).is_ok();
            assert_eq!(is_found, qp_num == 17 || !only, "{qp_num}");
        }
    }
}
