//! Datagram services, and multicast groups.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::connections::ADDRESS;
use fake_tests::{Bench, PATIENCE};
use tokio::runtime::Builder;
use uverbs::address::MULTICAST_QPN;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{
    self, AnswerData, CmError, DATAGRAM_QKEY, DatagramListener, DatagramRequest, EventStatus,
    Group, ResolveData, ResolvedService, Step,
};
use uverbs::owned::{self, Work};
use uverbs::transport::Ud;
use uverbs::{ErrorKind, Gid};

use crate::eventually;
use crate::side::Side;

impl Side {
    fn service(&self) -> DatagramListener {
        let listener = cm::listen_datagrams(SocketAddr::from((ADDRESS, 0)));
        listener.channel(&self.channel).build().unwrap()
    }

    fn find(&self, to: SocketAddr) -> ResolvedService {
        self.connector(to).resolve_datagrams().unwrap()
    }

    fn datagrams(&self, qkey: u32) -> owned::QueuePair<Ud> {
        let builder = self.pd.queue_pair(Ud, &self.cq, &self.cq);
        let prepared = builder.gid_index(1).qkey(qkey).build().unwrap();
        owned::QueuePair::new(prepared.activate().unwrap())
    }

    fn group(&self, group: &str) -> cm::GroupBuilder {
        let group = cm::join(group.parse().unwrap()).timeout(PATIENCE);
        group.source(ADDRESS.into()).channel(&self.channel)
    }
}

fn request(service: &DatagramListener) -> DatagramRequest {
    service
        .accept_timeout(PATIENCE)
        .unwrap()
        .expect("a request")
}

#[test]
fn a_service_tells_its_queue_pair() {
    let bench = Bench::newest();
    let (client, mut server) = (Side::new(&bench), Side::new(&bench));
    let service = server.service();
    let mut theirs = server.datagrams(DATAGRAM_QKEY);
    let [room] = server.pd.buffers(128).unwrap();
    theirs.recv(room, 7).unwrap();
    let peer = thread::scope(|scope| {
        scope.spawn(|| {
            let request = request(&service);
            assert_eq!(request.peer_data().len(), 180);
            assert_eq!(request.peer_data()[..4], *b"who?");
            assert_eq!(request.peer_addr().ip(), IpAddr::from(ADDRESS));
            assert!(request.is_on(&server.context));
            let answer = AnswerData::new(b"me").unwrap();
            request.accept(&theirs, answer).unwrap();
        });
        let resolved = client.find(service.local_addr());
        assert!(resolved.is_on(&client.context));
        let data = ResolveData::new(b"who?").unwrap();
        resolved.private_data(data).ask().unwrap()
    });
    assert_eq!(peer.qp_num, theirs.qp_num());
    assert_eq!(peer.qkey, DATAGRAM_QKEY);
    assert_eq!(peer.private_data().len(), 136);
    assert_eq!(peer.private_data()[..3], *b"me\0");

    // What was told is enough to send there.
    let mut ours = client.datagrams(0);
    let way = client.pd.create_ah(&peer.address).unwrap();
    let [mut message] = client.pd.buffers(64).unwrap();
    message[..5].copy_from_slice(b"hello");
    let work = Work::send().memory((message, 5));
    ours.post(work.to(&way, peer.qp_num, peer.qkey)).unwrap();
    let completion = server.cq.poll().unwrap().expect("a message");
    let finished = theirs.complete(completion).unwrap();
    assert_eq!(finished.bytes().unwrap()[40..], *b"hello");

    drop(service);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_service_that_refuses_or_is_not_there_says_so() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let service = server.service();
    let at = service.local_addr();
    let ask = |at| {
        let refused = client.find(at).ask().unwrap_err();
        let CmError::Rejected(rejection) = refused else {
            panic!("{refused}");
        };
        rejection
    };
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            let busy = AnswerData::new(b"busy").unwrap();
            request(&service).reject(busy).unwrap();
            drop(request(&service));
        });
        let refused = ask(at);
        assert_eq!(ask(at).status, EventStatus::Refused(2), "dropped");
        refused
    });
    assert_eq!(refused.status, EventStatus::Refused(2));
    assert_eq!(refused.private_data()[..5], *b"busy\0");
    let nobody = ask(SocketAddr::from((ADDRESS, at.port() + 1)));
    assert_eq!(nobody.status, EventStatus::Refused(1));

    // One that says nothing.
    let start = Instant::now();
    let limit = Duration::from_millis(50);
    let silent = client.connector(at).timeout(limit).resolve_datagrams();
    let silent = silent.unwrap().ask().unwrap_err();
    assert!(
        matches!(silent, CmError::TimedOut(Step::Connect)),
        "{silent}"
    );
    assert!(start.elapsed() >= limit);
    assert!(AnswerData::new(&[0; 137]).is_err());
    assert!(ResolveData::new(&[0; 181]).is_err());
}

#[test]
fn unusable_answers_and_timers_are_refused() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let service = server.service();
    let other = server.datagrams(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let refused = request(&service).accept(&other, AnswerData::EMPTY);
            let CmError::Failed(error) = refused.unwrap_err() else {
                panic!("another error");
            };
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("qkey"), "{error}");
        });
        // That refused the peer.
        let refused = client.find(service.local_addr()).ask().unwrap_err();
        assert!(matches!(refused, CmError::Rejected(_)), "{refused}");
    });
    // Datagrams have no such timer.
    let timer = uverbs::time::AckTimeout::code(14).unwrap();
    let refused = client.connector(service.local_addr()).ack_timeout(timer);
    let CmError::Failed(error) = refused.resolve_datagrams().unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(error.errno(), Some(uverbs::error::Errno::INVAL));
}

#[test]
fn a_group_is_joined_and_left() {
    let bench = Bench::newest();
    let mut side = Side::new(&bench);
    let group = side.group("239.1.2.3").build().unwrap();
    assert_eq!(group.qkey(), DATAGRAM_QKEY);
    assert_eq!(
        group.gid(),
        Gid::from(std::net::Ipv4Addr::new(239, 1, 2, 3))
    );
    assert_eq!(group.address().grh.unwrap().dgid, group.gid());
    assert_eq!(group.pkey(), 0xffff);
    assert!(group.is_on(&side.context));

    let mut queue = side.datagrams(group.qkey());
    group.attach(&mut queue).unwrap();
    let way = side.pd.create_ah(&group.address()).unwrap();
    let [mut message, room] = side.pd.buffers(64).unwrap();
    message[..3].copy_from_slice(b"all");
    queue.recv(room, 7).unwrap();
    let work = Work::send().memory((message, 3));
    let work = work.to(&way, MULTICAST_QPN, group.qkey());
    queue.post(work).unwrap();
    let mut heard = 0;
    while let Some(completion) = side.cq.poll().unwrap() {
        let finished = queue.complete(completion).unwrap();
        if finished.user_data() == 7 {
            assert_eq!(finished.bytes().unwrap()[40..], *b"all");
            heard += 1;
        }
    }
    assert_eq!(heard, 1);
    group.detach(&mut queue).unwrap();
    let mut stranger = side.datagrams(1);
    let refused = group.attach(&mut stranger).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);

    let sending = side.group("239.1.2.3").send_only().build().unwrap();
    let refused = sending.attach(&mut queue).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidState);
    sending.leave().unwrap();
    drop(group);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn a_group_that_cannot_be_joined_says_why() {
    let bench = Bench::newest();
    let side = Side::new(&bench);
    let refused = |builder: cm::GroupBuilder| match builder.build().unwrap_err() {
        CmError::Failed(error) => error,
        other => panic!("{other}"),
    };
    let alone = refused(side.group("10.0.0.1"));
    assert_eq!(alone.kind(), ErrorKind::InvalidInput);
    let nowhere = refused(side.group("239.1.2.3").source([0, 0, 0, 0].into()));
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn tasks_ask_answer_and_join() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let service = server.service();
    let queue = server.datagrams(DATAGRAM_QKEY);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ours = AsyncEventChannel::new(client.channel.clone()).unwrap();
        let theirs = AsyncEventChannel::new(server.channel.clone()).unwrap();
        let answer = async {
            let request = theirs.datagram_request(&service).await.unwrap();
            request.accept(&queue, AnswerData::EMPTY).unwrap();
        };
        let ask = async {
            let connector = client.connector(service.local_addr());
            let resolved = ours.resolve_datagrams(connector).await.unwrap();
            ours.ask(resolved).await.unwrap()
        };
        let ((), peer) = Box::pin(crate::tasks::join(answer, ask)).await;
        assert_eq!(peer.qp_num, queue.qp_num());

        // One that is dropped while it waits leaves nothing.
        let connector = client.connector(service.local_addr());
        let resolved = ours.resolve_datagrams(connector).await.unwrap();
        let soon = Duration::from_millis(20);
        let waiting = tokio::time::timeout(soon, ours.ask(resolved));
        assert!(waiting.await.is_err());

        let mut group: Group = ours.join(client.group("239.4.5.6")).await.unwrap();
        let nothing = tokio::time::timeout(soon, ours.group_event(&mut group));
        assert!(nothing.await.is_err());
        group.leave().unwrap();
    });
    drop(service);
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}
