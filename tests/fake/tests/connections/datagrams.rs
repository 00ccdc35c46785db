//! Datagram services, and multicast groups.

use std::net::SocketAddr;

use fake_tests::Bench;
use fake_tests::connections::{at, listen, next, params, resolve};
use uverbs_core::cm::{
    self, EventKind, EventStatus, MulticastJoin, PortSpace, PrivateData, RejectReason,
};
use uverbs_core::error::{Errno, ErrorKind};
use uverbs_core::types::{Ece, MULTICAST_QPN, QpAttrMask, QpState, QpType};

use crate::errno;

/// `RDMA_UDP_QKEY`.
const QKEY: u32 = 0x0123_4567;

#[test]
fn a_service_answers_with_its_queue_pair() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, 1, PortSpace::Udp, 8).unwrap();
    let id = resolve(&client, 2, PortSpace::Udp, port).unwrap();
    let attr = cm::init_qp_attr(&client, id, QpState::Init).unwrap();
    assert_eq!(attr.qkey, Some(QKEY));
    assert!(!attr.mask().contains(QpAttrMask::ACCESS_FLAGS));
    cm::connect(&client, id, &params(17, b"who?").unwrap(), Ece::default()).unwrap();
    let request = next(&server, EventKind::ConnectRequest).unwrap();
    let data = request.datagram().private_data;
    assert_eq!(data.as_bytes().len(), PrivateData::RESOLVE);
    assert_eq!(data.as_bytes()[..5], *b"who?\0");
    cm::accept(
        &server,
        request.id,
        9,
        &params(18, b"me").unwrap(),
        Ece::default(),
    )
    .unwrap();
    let answer = next(&client, EventKind::Established).unwrap().datagram();
    assert_eq!((answer.qp_num, answer.qkey), (18, QKEY));
    assert_eq!(answer.private_data.as_bytes().len(), PrivateData::ANSWER);
    let route = answer.address.grh.unwrap();
    assert_eq!(route.dgid.to_bytes()[12..], [10, 0, 0, 1]);
    // The passive side gets no further events.
    let nothing = cm::get_event(&server).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_service_refuses_or_is_not_there() {
    let bench = Bench::newest();
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, 1, PortSpace::Udp, 8).unwrap();
    let ask = |port, qp_num| {
        let id = resolve(&client, 2, PortSpace::Udp, port).unwrap();
        cm::connect(&client, id, &params(qp_num, &[]).unwrap(), Ece::default()).unwrap();
    };
    ask(port, 17);
    let passive = next(&server, EventKind::ConnectRequest).unwrap().id;
    cm::reject(
        &server,
        passive,
        RejectReason::Consumer,
        &PrivateData::EMPTY,
    )
    .unwrap();
    let refused = next(&client, EventKind::Unreachable).unwrap();
    assert_eq!(refused.outcome(), EventStatus::Refused(2));
    // Connections do not find services of datagrams, nor the reverse.
    ask(port + 1, 18);
    let refused = next(&client, EventKind::Unreachable).unwrap();
    assert_eq!(refused.outcome(), EventStatus::Refused(1));
    let connection = resolve(&client, 2, PortSpace::Tcp, port).unwrap();
    cm::connect(
        &client,
        connection,
        &params(19, &[]).unwrap(),
        Ece::default(),
    )
    .unwrap();
    next(&client, EventKind::Rejected).unwrap();
}

#[test]
fn a_group_is_joined_and_left_by_the_number_of_the_join() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    let group = SocketAddr::from(([239, 1, 2, 3], 0)).into();
    let id = cm::create_id(&file, 1, PortSpace::Udp, QpType::Ud).unwrap();
    let early = cm::join_multicast(&file, id, 5, group, MulticastJoin::Full);
    assert_eq!(errno(early), Errno::INVAL);
    cm::bind(&file, id, at(0)).unwrap();
    let first = cm::join_multicast(&file, id, 5, group, MulticastJoin::Full).unwrap();
    let second = cm::join_multicast_ip(&file, id, 6, group).unwrap();
    let third = cm::join_multicast(&file, id, 7, group, MulticastJoin::SendOnly).unwrap();
    let event = next(&file, EventKind::MulticastJoin).unwrap();
    assert!(event.kind.is_of_multicast());
    assert_eq!((event.uid, event.id), (5, first));
    let way = event.datagram();
    assert_eq!((way.qp_num, way.qkey), (MULTICAST_QPN, QKEY));
    assert_eq!(
        way.address.grh.unwrap().dgid.to_bytes()[12..],
        [239, 1, 2, 3]
    );
    assert_eq!(cm::leave_multicast(&file, first).unwrap(), 1);
    // An unread event vanishes.
    assert_eq!(cm::leave_multicast(&file, second).unwrap(), 0);
    assert_eq!(next(&file, EventKind::MulticastJoin).unwrap().uid, 7);
    assert_eq!(errno(cm::leave_multicast(&file, first)), Errno::NOENT);
    let other = bench.connection_manager().unwrap();
    assert_eq!(errno(cm::leave_multicast(&other, third)), Errno::INVAL);
    // Joins end with their id.
    cm::destroy_id(&file, id).unwrap();
    assert_eq!(errno(cm::leave_multicast(&file, third)), Errno::NOENT);
    let connection = resolve(&file, 1, PortSpace::Tcp, 1).unwrap();
    let wrong = cm::join_multicast(&file, connection, 5, group, MulticastJoin::Full);
    assert_eq!(errno(wrong), Errno::INVAL);
}
