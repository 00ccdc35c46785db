//! Datagram services and multicast groups.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Instant;

use uverbs::address::MULTICAST_QPN;
use uverbs::cm::{
    self, AnswerData, CmError, DATAGRAM_QKEY, DatagramListener, DatagramRequest, EventStatus,
    ResolveData,
};
use uverbs::error::Op;
use uverbs::link::LinkLayer;
use uverbs::owned::{self, Work};
use uverbs::transport::Ud;
use uverbs::{AddressHandle, ErrorKind, Gid};
use verbs_tests::by_address::{PATIENCE, Side, address, any_port};

/// `user_data` of receives.
const RECEIVE: u64 = 7;

/// Posts a receive.
fn room(side: &Side, queue: &mut owned::QueuePair<Ud>) {
    let [room] = side.pd.buffers(128).unwrap();
    queue.recv(room, RECEIVE).unwrap();
}

fn send(
    side: &Side,
    queue: &mut owned::QueuePair<Ud>,
    text: &[u8],
    to: (&AddressHandle, u32, u32),
) {
    let [mut message] = side.pd.buffers(64).unwrap();
    message[..text.len()].copy_from_slice(text);
    let work = Work::send().memory((message, text.len()));
    queue.post(work.to(to.0, to.1, to.2)).unwrap();
}

/// The next message, and the number of the queue pair that sent it.
fn receive(side: &mut Side, queue: &mut owned::QueuePair<Ud>) -> (Vec<u8>, u32) {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "no message");
        let Some(completion) = side.cq.poll().unwrap() else {
            continue;
        };
        let sender = completion.src_qp;
        let finished = queue.complete(completion).unwrap();
        assert!(finished.status().is_success(), "{:?}", finished.status());
        if finished.user_data() == RECEIVE {
            return (finished.bytes().unwrap()[40..].to_vec(), sender);
        }
    }
}

fn request(service: &DatagramListener) -> DatagramRequest {
    service
        .accept_timeout(PATIENCE)
        .unwrap()
        .expect("a request")
}

#[test]
fn by_address_datagram_services_tell_their_queue_pairs() {
    let (mut client, mut server) = (Side::new(64), Side::new(64));
    let service = cm::listen_datagrams(any_port());
    let service = service.channel(&server.channel).build().unwrap();
    let at = service.local_addr();
    let resolved = client.connector(at).resolve_datagrams().unwrap();
    let ours = resolved.datagram_queue_pair(&client.pd, &client.cq, &client.cq);
    let mut ours = owned::QueuePair::new(ours.build().unwrap().activate().unwrap());
    let (peer, mut theirs) = thread::scope(|scope| {
        let answered = scope.spawn(|| {
            let request = request(&service);
            assert_eq!(request.peer_data().len(), 180);
            assert_eq!(request.peer_data()[..5], *b"who?\0");
            assert_eq!(request.peer_addr().ip(), at.ip());
            let theirs = request.datagram_queue_pair(&server.pd, &server.cq, &server.cq);
            let theirs = owned::QueuePair::new(theirs.build().unwrap().activate().unwrap());
            let data = AnswerData::new(&[9; 136]).unwrap();
            request.accept(&theirs, data).unwrap();
            theirs
        });
        let data = ResolveData::new(b"who?").unwrap();
        let peer = resolved.private_data(data).ask().unwrap();
        (peer, answered.join().unwrap())
    });
    assert_eq!((peer.qp_num, peer.qkey), (theirs.qp_num(), DATAGRAM_QKEY));
    assert_eq!(peer.private_data(), [9; 136]);

    let way = client.pd.create_ah(&peer.address).unwrap();
    room(&server, &mut theirs);
    send(&client, &mut ours, b"there", (&way, peer.qp_num, peer.qkey));
    let (text, sender) = receive(&mut server, &mut theirs);
    assert_eq!((&text[..], sender), (&b"there"[..], ours.qp_num()));
    // The way back is the same: both have one address.
    let way = server.pd.create_ah(&peer.address).unwrap();
    room(&client, &mut ours);
    send(
        &server,
        &mut theirs,
        b"and back",
        (&way, sender, DATAGRAM_QKEY),
    );
    assert_eq!(receive(&mut client, &mut ours).0, b"and back");

    let ask = |at| match client.connector(at).resolve_datagrams().unwrap().ask() {
        Err(CmError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let busy = AnswerData::new(b"busy").unwrap();
            request(&service).reject(busy).unwrap();
        });
        let refused = ask(at);
        assert_eq!(refused.status, EventStatus::Refused(2));
        assert_eq!(refused.private_data()[..5], *b"busy\0");
    });
    let nobody = ask(SocketAddr::new(at.ip(), at.port() ^ 1));
    assert_eq!(nobody.status, EventStatus::Refused(1));
}

#[test]
fn by_address_groups_receive_what_is_sent_to_them() {
    let mut side = Side::new(64);
    let join = |group: &str| {
        let group = cm::join(group.parse().unwrap()).timeout(PATIENCE);
        group.source(address()).channel(&side.channel)
    };
    let group = join("239.1.2.3").build().unwrap();
    let sending = join("239.1.2.3").send_only().build().unwrap();
    assert_eq!(group.qkey(), DATAGRAM_QKEY);
    let ports = side.pd.context().query_port(1).unwrap();
    if ports.link_layer == LinkLayer::Ethernet {
        assert_eq!(group.gid(), Gid::from(Ipv4Addr::new(239, 1, 2, 3)));
    } else {
        // As IPv4 in RFC 4391, section 4, with the connection manager's own signature.
        let bytes = group.gid().to_bytes();
        assert_eq!((bytes[0], bytes[1] & 0xf0), (0xff, 0x10));
        assert_eq!(
            (&bytes[2..4], &bytes[12..]),
            (&[0x40, 1][..], &[0x0f, 1, 2, 3][..])
        );
    }
    assert_eq!(group.pkey(), 0xffff);
    let v6 = join("ff0e::1:2:3").source("fe80::1".parse().unwrap());
    assert!(v6.build().is_err());

    let queue = group.queue_pair(&side.pd, &side.cq, &side.cq);
    let mut queue = owned::QueuePair::new(queue.build().unwrap().activate().unwrap());
    group.attach(&mut queue).unwrap();
    room(&side, &mut queue);
    let way = side.pd.create_ah(&sending.address()).unwrap();
    let refused = sending.attach(&mut queue).unwrap_err();
    assert_eq!(refused.op(), Op::AttachMulticast);
    assert_eq!(refused.kind(), ErrorKind::InvalidState);
    send(
        &side,
        &mut queue,
        b"all",
        (&way, MULTICAST_QPN, sending.qkey()),
    );
    let (text, sender) = receive(&mut side, &mut queue);
    assert_eq!((&text[..], sender), (&b"all"[..], queue.qp_num()));
    group.detach(&mut queue).unwrap();
    sending.leave().unwrap();
    group.leave().unwrap();
}
