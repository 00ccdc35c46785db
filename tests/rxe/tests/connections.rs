//! The connection manager of real kernels: both ends of each connection are ids of this process, on
//! the one device. The handshake needs no queue pairs, only numbers for them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "a test fails by panicking, and records commands on their way to the kernel"
)]

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use uverbs_core::cm::{
    self, CmAddress, CmFile, ConnectionParams, Event, EventKind, EventStatus, MulticastJoin,
    PortSpace, PrivateData, RejectReason,
};
use uverbs_core::discover::{Options, Source};
use uverbs_core::error::{Errno, ErrorKind, Op};
use uverbs_core::sys::recorder::Recorder;
use uverbs_core::sys::{Kernel, Linux};
use uverbs_core::types::{Ece, QpAttrMask, QpState, QpType};

/// The address of `v0`, on which the device is.
const ADDRESS: [u8; 4] = [10, 1, 0, 1];
const PATIENCE: Duration = Duration::from_secs(30);

fn open() -> CmFile {
    let node = cm::find(&Options::default()).expect("the connection manager");
    assert_eq!((node.source, node.abi_version), (Source::Netlink, 4));
    let Some(sink) = coverage::sink() else {
        let file = cm::open(&Options::default()).expect("the connection manager");
        file.set_nonblocking().unwrap();
        return file;
    };
    let opened = File::options().read(true).write(true).open(&node.path);
    let fd = OwnedFd::from(opened.expect("the connection manager"));
    let kernel: Arc<dyn Kernel> = Arc::new(Recorder::new(Linux, sink));
    // SAFETY: (1) the descriptor is that of the node that netlink named.
    let file = unsafe { CmFile::new(kernel, fd) };
    file.set_nonblocking().unwrap();
    file
}

/// The next event, which must be of this kind.
#[track_caller]
fn next(file: &CmFile, wanted: EventKind) -> Event {
    assert!(file.wait_event(Some(PATIENCE)).unwrap(), "no {wanted}");
    let event = cm::get_event(file).unwrap();
    assert_eq!(event.kind, wanted, "{event:?}");
    event
}

fn at(port: u16) -> CmAddress {
    SocketAddr::from((ADDRESS, port)).into()
}

/// Parameters with a number of a queue pair that nobody else uses.
fn params(data: &[u8]) -> ConnectionParams {
    static NUMBER: AtomicU32 = AtomicU32::new(1000);
    ConnectionParams {
        qp_num: NUMBER.fetch_add(1, Ordering::Relaxed) + (std::process::id() & 0xff) * 0x1000,
        private_data: PrivateData::new(Op::CmConnect, data, PrivateData::MOST).unwrap(),
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        ..ConnectionParams::default()
    }
}

fn listen(file: &CmFile, space: PortSpace) -> (u32, u16) {
    let id = cm::create_id(file, 1, space, QpType::Rc).unwrap();
    cm::bind(file, id, at(0)).unwrap();
    cm::listen(file, id, 0).unwrap();
    let route = cm::query_route(file, id).unwrap();
    assert!(route.device.is_some());
    let Some(CmAddress::Ip(address)) = route.source else {
        panic!("{route:?}")
    };
    (id, address.port())
}

fn resolve(file: &CmFile, space: PortSpace, port: u16) -> u32 {
    let id = cm::create_id(file, 2, space, QpType::Rc).unwrap();
    cm::resolve_address(file, id, None, at(port), PATIENCE).unwrap();
    next(file, EventKind::AddressResolved);
    cm::resolve_route(file, id, PATIENCE).unwrap();
    next(file, EventKind::RouteResolved);
    id
}

#[test]
fn rxe_cm_connects_and_disconnects() {
    let (server, client) = (open(), open());
    let (listener, port) = listen(&server, PortSpace::Tcp);
    let active = resolve(&client, PortSpace::Tcp, port);
    assert_eq!(cm::query_paths(&client, active).unwrap().len(), 1);
    assert_eq!(
        cm::query_addresses(&client, active).unwrap().destination,
        Some(at(port))
    );
    let early = cm::init_qp_attr(&client, active, QpState::ReadyToReceive).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::BadReply, "{early}");
    let (ours, theirs) = (params(b"hello"), params(b"welcome"));
    cm::connect(&client, active, &ours, Ece::default()).unwrap();

    let request = next(&server, EventKind::ConnectRequest);
    assert_eq!(request.uid, 1);
    let said = request.connection();
    assert_eq!(said.qp_num, ours.qp_num);
    assert_eq!(said.private_data.as_bytes().len(), PrivateData::CONNECT);
    assert_eq!(said.private_data.as_bytes()[..6], *b"hello\0");
    let passive = request.id;
    for state in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
        let attr = cm::init_qp_attr(&server, passive, state).unwrap();
        assert_eq!(attr.state, Some(state));
    }
    cm::accept(&server, passive, 9, &theirs, Ece::default()).unwrap();
    let response = next(&client, EventKind::ConnectResponse);
    let said = response.connection();
    assert_eq!(said.qp_num, theirs.qp_num);
    assert_eq!(said.private_data.as_bytes().len(), PrivateData::ACCEPT);
    let attr = cm::init_qp_attr(&client, active, QpState::ReadyToReceive).unwrap();
    assert_eq!(attr.dest_qpn, Some(theirs.qp_num));
    assert!(attr.mask().contains(QpAttrMask::AV | QpAttrMask::RQ_PSN));
    cm::establish(&client, active).unwrap();
    assert_eq!(next(&server, EventKind::Established).uid, 9);

    cm::disconnect(&client, active).unwrap();
    next(&server, EventKind::Disconnected);
    cm::disconnect(&server, passive).unwrap();
    next(&client, EventKind::Disconnected);
    next(&client, EventKind::TimewaitExit);
    assert_eq!(cm::destroy_id(&client, active).unwrap(), 5);
    cm::destroy_id(&server, passive).unwrap();
    cm::destroy_id(&server, listener).unwrap();
    let gone = cm::destroy_id(&server, listener).unwrap_err();
    assert_eq!(gone.errno(), Some(Errno::NOENT));
}

#[test]
fn rxe_cm_refuses_with_reasons() {
    let (server, client) = (open(), open());
    let (_, port) = listen(&server, PortSpace::Tcp);
    let outcome = || next(&client, EventKind::Rejected).outcome();
    let active = resolve(&client, PortSpace::Tcp, port);
    let long = params(&[1; PrivateData::CONNECT + 1]);
    let refused = cm::connect(&client, active, &long, Ece::default()).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::INVAL));
    cm::connect(&client, active, &params(&[]), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).id;
    let data = PrivateData::new(Op::CmReject, b"busy", PrivateData::REJECT).unwrap();
    cm::reject(&server, passive, RejectReason::VendorOption, &data).unwrap();
    let vendor = EventStatus::Rejected(RejectReason::VendorOption);
    assert_eq!(outcome(), vendor);

    // A failed accept has rejected.
    let active = resolve(&client, PortSpace::Tcp, port);
    cm::connect(&client, active, &params(&[]), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).id;
    let long = params(&[1; PrivateData::ACCEPT + 1]);
    let refused = cm::accept(&server, passive, 9, &long, Ece::default()).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::INVAL));
    let consumer = EventStatus::Rejected(RejectReason::Consumer);
    assert_eq!(outcome(), consumer);

    // A closed file ends its ids.
    let active = resolve(&client, PortSpace::Tcp, port);
    cm::connect(&client, active, &params(&[]), Ece::default()).unwrap();
    next(&server, EventKind::ConnectRequest);
    drop(server);
    assert_eq!(outcome(), consumer);
    let active = resolve(&client, PortSpace::Tcp, port);
    cm::connect(&client, active, &params(&[]), Ece::default()).unwrap();
    let refused = EventStatus::Rejected(RejectReason::InvalidServiceId);
    assert_eq!(outcome(), refused);
    let again = cm::connect(&client, active, &params(&[]), Ece::default()).unwrap_err();
    assert_eq!(again.errno(), Some(Errno::INVAL));
}

#[test]
fn rxe_cm_resolves_datagram_services_and_joins_groups() {
    let (server, client) = (open(), open());
    let (_, port) = listen(&server, PortSpace::Udp);
    let id = resolve(&client, PortSpace::Udp, port);
    cm::connect(&client, id, &params(b"who?"), Ece::default()).unwrap();
    let request = next(&server, EventKind::ConnectRequest);
    let data = request.datagram().private_data;
    assert_eq!(data.as_bytes().len(), PrivateData::RESOLVE);
    let theirs = params(b"me");
    cm::accept(&server, request.id, 9, &theirs, Ece::default()).unwrap();
    let answer = next(&client, EventKind::Established).datagram();
    assert_eq!((answer.qp_num, answer.qkey), (theirs.qp_num, 0x0123_4567));
    assert_eq!(answer.private_data.as_bytes().len(), PrivateData::ANSWER);
    assert!(answer.address.grh.is_some());

    let refused = resolve(&client, PortSpace::Udp, port);
    cm::connect(&client, refused, &params(&[]), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).id;
    cm::reject(
        &server,
        passive,
        RejectReason::Consumer,
        &PrivateData::EMPTY,
    )
    .unwrap();
    let outcome = next(&client, EventKind::Unreachable).outcome();
    assert_eq!(outcome, EventStatus::Refused(2));

    let member = cm::create_id(&client, 3, PortSpace::Udp, QpType::Ud).unwrap();
    cm::bind(&client, member, at(0)).unwrap();
    let group = SocketAddr::from(([239, 1, 2, 3], 0)).into();
    let join = cm::join_multicast(&client, member, 7, group, MulticastJoin::Full).unwrap();
    let event = next(&client, EventKind::MulticastJoin);
    assert_eq!((event.uid, event.id), (7, join));
    assert_eq!(event.datagram().qp_num, 0x00ff_ffff);
    assert_eq!(cm::leave_multicast(&client, join).unwrap(), 1);
}

#[test]
fn rxe_cm_moves_ids_and_says_what_is_wrong() {
    let (server, client, other) = (open(), open(), open());
    let id = resolve(&client, PortSpace::Tcp, 1);
    assert_eq!(cm::migrate_id(&other, &client, id).unwrap(), 2);
    let moved = cm::query_route(&client, id).unwrap_err();
    assert_eq!(moved.errno(), Some(Errno::INVAL));
    cm::set_type_of_service(&other, id, 0x28).unwrap();
    match cm::write_event(&other, id, EventKind::User, -5, 77) {
        Ok(()) => {
            let event = next(&other, EventKind::User);
            assert_eq!((event.status, event.argument()), (-5, 77));
        }
        Err(error) => assert!(error.is_unsupported(), "{error}"),
    }
    let bound = cm::create_id(&other, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    cm::bind(&other, bound, at(0)).unwrap();
    let service = cm::resolve_service(&other, bound, Some(1), None).unwrap_err();
    assert!(service.is_unsupported(), "{service}");
    let refused = cm::listen(&server, 0x00ff_ffff, 1).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::NOENT));
    let idle = cm::create_id(&server, 1, PortSpace::Tcp, QpType::Rc).unwrap();
    let early = cm::disconnect(&server, idle).unwrap_err();
    assert_eq!(early.errno(), Some(Errno::INVAL));
    let foreign = SocketAddr::from(([192, 0, 2, 1], 0)).into();
    assert!(cm::bind(&server, idle, foreign).is_err());
    assert_eq!(
        cm::get_event(&server).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}
