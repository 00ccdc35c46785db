//! Datagram services and multicast groups by address on real kernels: both ends in this process, on
//! the one device.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use uverbs::address::MULTICAST_QPN;
use uverbs::cm::{
    self, AnswerData, CmError, DATAGRAM_QKEY, DatagramListener, DatagramRequest, EventChannel,
    EventStatus, ResolveData,
};
use uverbs::error::Op;
use uverbs::owned::{self, Work};
use uverbs::transport::Ud;
use uverbs::{AddressHandle, CompletionQueue, ErrorKind, Gid, ProtectionDomain};

/// The address of `v0`, on which the device is.
const ADDRESS: [u8; 4] = [10, 1, 0, 1];
const PATIENCE: Duration = Duration::from_secs(30);
/// `user_data` of receives.
const RECEIVE: u64 = 7;

struct Side {
    channel: EventChannel,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl Side {
    fn new() -> Self {
        let channel = cm::ChannelOptions::new();
        let channel = match coverage::sink() {
            Some(sink) => channel.record(sink).open(),
            None => channel.open(),
        };
        let context = verbs_tests::open();
        Self {
            channel: channel.expect("the connection manager"),
            pd: context.alloc_pd().unwrap(),
            cq: context.create_cq(64).unwrap(),
        }
    }

    fn connector(&self, to: SocketAddr) -> cm::Connector {
        cm::connect(to).channel(&self.channel).timeout(PATIENCE)
    }

    /// Posts a receive.
    fn room(&self, queue: &mut owned::QueuePair<Ud>) {
        let [room] = self.pd.buffers(128).unwrap();
        queue.recv(room, RECEIVE).unwrap();
    }

    fn send(&self, queue: &mut owned::QueuePair<Ud>, text: &[u8], to: (&AddressHandle, u32, u32)) {
        let [mut message] = self.pd.buffers(64).unwrap();
        message[..text.len()].copy_from_slice(text);
        let work = Work::send().memory((message, text.len()));
        queue.post(work.to(to.0, to.1, to.2)).unwrap();
    }

    /// The next message, and the number of the queue pair that sent it.
    fn receive(&mut self, queue: &mut owned::QueuePair<Ud>) -> (Vec<u8>, u32) {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "no message");
            let Some(completion) = self.cq.poll().unwrap() else {
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
}

fn request(service: &DatagramListener) -> DatagramRequest {
    service
        .accept_timeout(PATIENCE)
        .unwrap()
        .expect("a request")
}

#[test]
fn rxe_by_address_datagram_services_tell_their_queue_pairs() {
    let (mut client, mut server) = (Side::new(), Side::new());
    let service = cm::listen_datagrams(SocketAddr::from((ADDRESS, 0)));
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
    server.room(&mut theirs);
    client.send(&mut ours, b"there", (&way, peer.qp_num, peer.qkey));
    let (text, sender) = server.receive(&mut theirs);
    assert_eq!((&text[..], sender), (&b"there"[..], ours.qp_num()));
    // The way back is the same: both have one address.
    let way = server.pd.create_ah(&peer.address).unwrap();
    client.room(&mut ours);
    server.send(&mut theirs, b"and back", (&way, sender, DATAGRAM_QKEY));
    assert_eq!(client.receive(&mut ours).0, b"and back");

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
fn rxe_by_address_groups_receive_what_is_sent_to_them() {
    let mut side = Side::new();
    let join = |address: &str| {
        let group = cm::join(address.parse().unwrap()).timeout(PATIENCE);
        group.source(ADDRESS.into()).channel(&side.channel)
    };
    let group = join("239.1.2.3").build().unwrap();
    let sending = join("239.1.2.3").send_only().build().unwrap();
    assert_eq!(group.qkey(), DATAGRAM_QKEY);
    assert_eq!(
        group.gid(),
        Gid::from(std::net::Ipv4Addr::new(239, 1, 2, 3))
    );
    assert_eq!(group.pkey(), 0xffff);
    let v6 = join("ff0e::1:2:3").source("fe80::1".parse().unwrap());
    assert!(v6.build().is_err());

    let queue = group.queue_pair(&side.pd, &side.cq, &side.cq);
    let mut queue = owned::QueuePair::new(queue.build().unwrap().activate().unwrap());
    group.attach(&mut queue).unwrap();
    side.room(&mut queue);
    let way = side.pd.create_ah(&sending.address()).unwrap();
    let refused = sending.attach(&mut queue).unwrap_err();
    assert_eq!(refused.op(), Op::AttachMulticast);
    assert_eq!(refused.kind(), ErrorKind::InvalidState);
    side.send(&mut queue, b"all", (&way, MULTICAST_QPN, sending.qkey()));
    let (text, sender) = side.receive(&mut queue);
    assert_eq!((&text[..], sender), (&b"all"[..], queue.qp_num()));
    group.detach(&mut queue).unwrap();
    sending.leave().unwrap();
    group.leave().unwrap();
}
