//! Reliable connections, from a request to both ends being established.

use fake_tests::Bench;
use fake_tests::connections::{at, connected, listen, next, params, resolve};
use uverbs_core::cm::{self, EventKind, EventStatus, PortSpace, PrivateData, RejectReason};
use uverbs_core::error::{ErrorKind, Op};
use uverbs_core::types::{AccessFlags, AsyncEventType, Ece, Mtu, QpAttrMask, QpState, QpType};

const SERVER: u64 = 0x5e;
const CLIENT: u64 = 0xc1;

#[test]
fn both_ends_learn_what_the_other_said() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (listener, port) = listen(&server, SERVER, PortSpace::Tcp, 8).unwrap();
    let active = resolve(&client, CLIENT, PortSpace::Tcp, port).unwrap();
    let ece = Ece {
        vendor_id: Ece::MELLANOX,
        options: 7,
        comp_mask: 0,
    };
    let ours = params(17, b"hello").unwrap();
    cm::connect(&client, active, &ours, ece).unwrap();

    let request = next(&server, EventKind::ConnectRequest).unwrap();
    assert_eq!(
        (request.uid, request.outcome()),
        (SERVER, EventStatus::Success)
    );
    assert_ne!(request.id, listener);
    assert_eq!(request.ece, ece);
    let said = request.connection();
    assert_eq!(said.qp_num, 17);
    // The receiver serves what the sender wants outstanding, and the reverse.
    assert_eq!((said.responder_resources, said.initiator_depth), (5, 3));
    assert_eq!(said.private_data.as_bytes().len(), PrivateData::CONNECT);
    assert_eq!(said.private_data.as_bytes()[..6], *b"hello\0");
    let route = cm::query_route(&server, request.id).unwrap();
    assert_eq!(route.device.unwrap().port, 1);
    assert_eq!(route.source, Some(at(port)));

    let theirs = params(18, b"welcome").unwrap();
    cm::accept(&server, request.id, 99, &theirs, Ece::default()).unwrap();
    let response = next(&client, EventKind::ConnectResponse).unwrap();
    assert_eq!((response.uid, response.id), (CLIENT, active));
    let said = response.connection();
    assert_eq!(said.qp_num, 18);
    assert_eq!(said.private_data.as_bytes().len(), PrivateData::ACCEPT);
    assert_eq!(said.private_data.as_bytes()[..8], *b"welcome\0");

    assert!(!server.wait_event(Some(std::time::Duration::ZERO)).unwrap());
    cm::establish(&client, active).unwrap();
    assert!(server.wait_event(None).unwrap());
    let established = next(&server, EventKind::Established).unwrap();
    assert_eq!((established.uid, established.id), (99, request.id));
    let nothing = cm::get_event(&client).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

#[test]
fn queue_pairs_are_moved_by_the_attributes_of_the_handshake() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, SERVER, PortSpace::Tcp, 8).unwrap();
    let active = resolve(&client, CLIENT, PortSpace::Tcp, port).unwrap();
    let init =
        QpAttrMask::STATE | QpAttrMask::ACCESS_FLAGS | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT;
    let attr = cm::init_qp_attr(&client, active, QpState::Init).unwrap();
    assert_eq!(attr.mask(), init);
    assert_eq!(attr.access, Some(AccessFlags::empty()));
    // The kernel answers a question that comes too early with the attributes of INIT.
    let early = cm::init_qp_attr(&client, active, QpState::ReadyToReceive).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::BadReply, "{early}");

    cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let early = cm::init_qp_attr(&client, active, QpState::ReadyToReceive).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::InvalidInput);
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    let attr = cm::init_qp_attr(&server, passive, QpState::Init).unwrap();
    assert!(attr.access.unwrap().contains(AccessFlags::REMOTE_READ));
    let rtr = cm::init_qp_attr(&server, passive, QpState::ReadyToReceive).unwrap();
    assert_eq!((rtr.dest_qpn, rtr.path_mtu), (Some(17), Some(Mtu::B4096)));
    assert_eq!(rtr.max_dest_rd_atomic, Some(5));
    assert!(rtr.av.unwrap().grh.is_some());
    cm::accept(
        &server,
        passive,
        99,
        &params(18, &[]).unwrap(),
        Ece::default(),
    )
    .unwrap();
    next(&client, EventKind::ConnectResponse).unwrap();
    let peer = cm::init_qp_attr(&client, active, QpState::ReadyToReceive).unwrap();
    let ready = cm::init_qp_attr(&server, passive, QpState::ReadyToSend).unwrap();
    assert_eq!(peer.dest_qpn, Some(18));
    assert_eq!(peer.rq_psn, ready.sq_psn);
    assert_eq!(ready.max_rd_atomic, Some(3));
    assert!(ready.timeout.is_some() && ready.retry_count.is_some());
}

#[test]
fn a_rejection_carries_reason_and_data() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, SERVER, PortSpace::Tcp, 8).unwrap();
    for reason in [RejectReason::Consumer, RejectReason::VendorOption] {
        let active = resolve(&client, CLIENT, PortSpace::Tcp, port).unwrap();
        cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
        let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
        let data = PrivateData::new(Op::CmReject, b"busy", PrivateData::REJECT).unwrap();
        cm::reject(&server, passive, reason, &data).unwrap();
        let rejected = next(&client, EventKind::Rejected).unwrap();
        assert_eq!(rejected.outcome(), EventStatus::Rejected(reason));
        let said = rejected.connection().private_data;
        assert_eq!(said.as_bytes().len(), PrivateData::REJECT);
        assert_eq!(said.as_bytes()[..5], *b"busy\0");
        // There is nothing left to reject.
        assert!(cm::reject(&server, passive, reason, &PrivateData::EMPTY).is_err());
        cm::destroy_id(&server, passive).unwrap();
        cm::destroy_id(&client, active).unwrap();
    }
    let wrong = cm::reject(&server, 0, RejectReason::NoResources, &PrivateData::EMPTY).unwrap_err();
    assert_eq!(
        (wrong.kind(), wrong.errno()),
        (ErrorKind::InvalidInput, None)
    );
}

#[test]
fn nobody_listens() {
    let bench = Bench::newest();
    let client = bench.connection_manager().unwrap();
    let active = resolve(&client, CLIENT, PortSpace::Tcp, 4711).unwrap();
    cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let rejected = next(&client, EventKind::Rejected).unwrap();
    let refused = EventStatus::Rejected(RejectReason::InvalidServiceId);
    assert_eq!(rejected.outcome(), refused);
}

#[test]
fn a_full_backlog_delays_requests_and_loses_none() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, SERVER, PortSpace::Tcp, 2).unwrap();
    for number in 0..5 {
        let active = resolve(&client, CLIENT + number, PortSpace::Tcp, port).unwrap();
        let ours = params(17 + u32::try_from(number).unwrap(), &[]).unwrap();
        cm::connect(&client, active, &ours, Ece::default()).unwrap();
    }
    assert_eq!(bench.fake.connection_ids(), 1 + 5 + 2);
    let mut numbers = Vec::new();
    while let Ok(request) = next(&server, EventKind::ConnectRequest) {
        numbers.push(request.connection().qp_num);
    }
    assert_eq!(numbers, [17, 18, 19, 20, 21]);
}

#[test]
fn a_queue_pair_number_that_is_in_use_is_stale() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, SERVER, PortSpace::Tcp, 8).unwrap();
    let (first, _) = connected(&client, &server, port, 17).unwrap();
    let second = resolve(&client, CLIENT, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, second, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let rejected = next(&client, EventKind::Rejected).unwrap();
    assert_eq!(rejected.id, second);
    let stale = EventStatus::Rejected(RejectReason::StaleConnection);
    assert_eq!(rejected.outcome(), stale);
    // The kernel ends the first one as well.
    assert_eq!(next(&client, EventKind::Disconnected).unwrap().id, first);
}

#[test]
fn a_notified_event_establishes_the_connection() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, SERVER, PortSpace::Tcp, 8).unwrap();
    let active = resolve(&client, CLIENT, PortSpace::Tcp, port).unwrap();
    cm::connect(&client, active, &params(17, &[]).unwrap(), Ece::default()).unwrap();
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    cm::accept(
        &server,
        passive,
        99,
        &params(18, &[]).unwrap(),
        Ece::default(),
    )
    .unwrap();
    let came = AsyncEventType::CommunicationEstablished;
    cm::notify(&server, passive, came).unwrap();
    next(&server, EventKind::Established).unwrap();
    assert!(cm::notify(&server, passive, came).is_err());
    cm::establish(&client, active).unwrap();
    assert_eq!(
        cm::get_event(&server).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn the_older_commands_do_the_same() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let listener = cm::create_id(&server, SERVER, PortSpace::Tcp, QpType::Rc).unwrap();
    cm::bind_ip(&server, listener, at(7471)).unwrap();
    cm::listen(&server, listener, 0).unwrap();
    let active = cm::create_id(&client, CLIENT, PortSpace::Tcp, QpType::Rc).unwrap();
    let soon = std::time::Duration::from_millis(1);
    cm::resolve_ip(&client, active, Some(at(0)), at(7471), soon).unwrap();
    next(&client, EventKind::AddressResolved).unwrap();
    let found = cm::query_addresses(&client, active).unwrap();
    assert_eq!(found.destination, Some(at(7471)));
    assert_eq!(
        found.device,
        cm::query_route(&client, active).unwrap().device
    );
    let gids = cm::query_gids(&client, active).unwrap();
    let Some(cm::CmAddress::Ib(gid)) = gids.destination else {
        panic!("{gids:?}")
    };
    assert_eq!(gid.service_id, 0x0106_1d2f);
    assert_eq!(gid.gid.to_bytes()[12..], [10, 0, 0, 1]);
}
