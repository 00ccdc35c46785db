//! Connections that are made.

use std::sync::Arc;
use std::thread;

use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{self, AcceptData, ConnectData, ConnectionEvent};
use uverbs::owned::Memory;
use uverbs::recorder::Collector;
use uverbs::time::{RnrRetry, RnrTimer};
use uverbs::transport::Rc;
use uverbs::{AccessFlags, ErrorKind, QpState, QueuePairBuilder};

use crate::eventually;
use crate::side::{Side, connected, request};

#[test]
fn both_sides_hear_of_each_other_and_exchange_messages() {
    let bench = Bench::newest();
    let (mut client, mut server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let at = listener.local_addr();
    assert_ne!(at.port(), 0);
    let (mut active, mut passive) = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            assert_eq!(request.local_addr(), at);
            assert_eq!(request.peer_addr().ip(), at.ip());
            assert_eq!(request.peer_data()[..6], *b"hello\0");
            assert_eq!(request.peer_data().len(), 56);
            assert!(request.is_on(&server.context));
            let data = AcceptData::framed(b"welcome").unwrap();
            let builder = request.queue_pair(&server.pd, &server.cq, &server.cq);
            let prepared = builder.gid_index(1).build().unwrap();
            let mut attached = request.private_data(data).attach(prepared).unwrap();
            // Before anybody can send.
            let buffer = server.buffer();
            attached.queue_pair().recv(buffer, 7).unwrap();
            attached.accept().unwrap()
        });
        let resolved = client.resolve(at);
        assert_eq!(resolved.peer_addr(), at);
        assert_eq!(resolved.local_addr().ip(), at.ip());
        assert!(resolved.is_on(&client.context));
        assert_eq!(resolved.route().path_count, 1);
        let data = ConnectData::new(b"hello").unwrap();
        let active = resolved.private_data(data).connect(client.prepare());
        (active.unwrap(), passive.join().unwrap())
    });
    assert_eq!(active.private_data().len(), 196);
    assert_eq!(cm::unframed(active.private_data()), Some(&b"welcome"[..]));
    assert_eq!(active.peer_addr(), passive.local_addr());
    assert_eq!(active.local_addr(), passive.peer_addr());

    let mut message = client.buffer();
    message[..5].copy_from_slice(b"first");
    active.queue_pair().send(message, 5, 1).unwrap();
    let received = server.finish(&mut passive);
    assert_eq!((received.user_data(), received.len()), (7, 5));
    let memory = received.into_memory();
    let Memory::Buffer(buffer, _) = memory else {
        panic!("{memory:?}")
    };
    assert_eq!(buffer[..5], *b"first");
    assert!(client.finish(&mut active).status().is_success());

    let (ended, answered) = thread::scope(|scope| {
        let ended = scope.spawn(|| active.disconnect(PATIENCE));
        let event = passive.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
        assert!(passive.link().is_over());
        let answered = passive.disconnect(PATIENCE);
        (ended.join().unwrap(), answered)
    });
    ended.unwrap();
    answered.unwrap();
    assert_eq!(active.queue_pair().state(), QpState::Error);
    for end in [&active, &passive] {
        let event = end.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::TimewaitExit));
    }
    drop((active, passive, listener));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
    assert_eq!(client.channel.leaked() + server.channel.leaked(), 0);
}

#[test]
fn a_queue_pair_is_connected_with_its_own_settings_and_the_lesser_depths() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let timer = RnrTimer::code(9).unwrap();
    let (mut active, mut passive) = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            let builder = request.queue_pair(&server.pd, &server.cq, &server.cq);
            let builder = builder.gid_index(1).max_rd_atomic(2).max_dest_rd_atomic(2);
            request.accept(builder.build().unwrap()).unwrap()
        });
        let resolved = client.resolve(listener.local_addr());
        let builder = resolved.queue_pair(&client.pd, &client.cq, &client.cq);
        let builder = builder.gid_index(1).min_rnr_timer(timer).allow_remote_rw();
        let builder = builder.rnr_retry(RnrRetry::new(5).unwrap());
        let builder = builder.max_rd_atomic(4).max_dest_rd_atomic(1);
        let active = resolved.connect(builder.build().unwrap()).unwrap();
        (active, passive.join().unwrap())
    });
    let (ours, theirs) = (
        active.queue_pair().query().unwrap(),
        passive.queue_pair().query().unwrap(),
    );
    assert_eq!(ours.state, QpState::ReadyToSend);
    assert_eq!(theirs.state, QpState::ReadyToSend);
    assert_eq!(ours.min_rnr_timer, timer);
    assert_eq!(theirs.min_rnr_timer, RnrTimer::default());
    assert!(
        ours.access
            .contains(AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE)
    );
    assert!(!theirs.access.contains(AccessFlags::REMOTE_WRITE));
    assert_eq!(ours.dest_qpn, passive.queue_pair().qp_num());
    assert_eq!(theirs.dest_qpn, active.queue_pair().qp_num());
    assert_eq!(ours.sq_psn, theirs.rq_psn);
    assert_eq!(theirs.sq_psn, ours.rq_psn);
    // The passive side wanted 2, the active one serves 1; and the other way round 4 and 2.
    assert_eq!((theirs.max_rd_atomic, theirs.max_dest_rd_atomic), (1, 2));
    assert_eq!(ours.max_dest_rd_atomic, 1);
}

#[test]
fn a_connection_of_an_open_channel_takes_eleven_commands() {
    let collector = Arc::new(Collector::default());
    let bench = Bench::newest();
    let recorded = bench.channel_recorded_by(collector.clone()).unwrap();
    let (mut client, server) = (Side::new(&bench), Side::new(&bench));
    client.channel = recorded;
    let listener = server.listen();
    let first = connected(&client, &server, &listener);
    collector.take();
    let second = connected(&client, &server, &listener);
    let records = collector.take();
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    assert!(lines.len() <= 11, "{lines:#?}");
    drop((first, second));
}

/// The path that the kernel found says what the port would be asked for.
#[test]
fn a_queue_pair_along_a_path_takes_no_questions_about_its_port() {
    let collector = Arc::new(Collector::new());
    let bench = Bench::newest().recorded_by(collector.clone());
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let resolved = client.resolve(listener.local_addr());
    let builder = resolved.queue_pair(&client.pd, &client.cq, &client.cq);
    let usual = client.pd.queue_pair(Rc, &client.cq, &client.cq);
    let calls = |builder: &QueuePairBuilder<'_, Rc>| {
        collector.take();
        let prepared = builder.build().unwrap();
        (prepared, collector.take().len())
    };
    let ((one, first), (two, second)) = (calls(&builder), calls(&builder));
    // The usual one asks at its first time.
    let ((_, asking), (_, again)) = (calls(&usual), calls(&usual));
    assert_eq!([first, second, asking], [again, again, again + 2]);
    let [path, _] = &resolved.route().paths;
    for prepared in [&one, &two] {
        let endpoint = prepared.endpoint();
        assert_eq!((endpoint.gid, endpoint.lid), (Some(path.source), 0));
        assert_eq!(prepared.gid(), None);
    }
    let error = builder.clone().pkey_index(u16::MAX).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let other = builder.clone().gid_index(0).build().unwrap();
    assert_eq!(other.gid().unwrap().entry.index, 0);

    // Without the connection manager they look for their GID.
    let there = one.endpoint();
    let av = two.path_to(&there).unwrap();
    let index = av.grh.unwrap().sgid_index;
    let entry = client.context.gid(1, index.into()).unwrap().unwrap();
    assert_eq!(entry.gid, path.source);
    assert_eq!(two.handshake(there).unwrap().state(), QpState::ReadyToSend);

    let (active, _passive) = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            let builder = request.queue_pair(&server.pd, &server.cq, &server.cq);
            request.accept(builder.build().unwrap()).unwrap()
        });
        (resolved.connect(one).unwrap(), passive.join().unwrap())
    });
    assert!(!active.link().is_over());
}

#[test]
fn ipv6_with_a_scope_connects_and_a_wildcard_accepts_both_families() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let any = "[::]:0".parse().unwrap();
    let listener = cm::listen(any).channel(&server.channel).build().unwrap();
    let port = listener.local_addr().port();
    // What the link-local address of the device is, the fake's table says.
    let gid = client.context.gid(1, 0).unwrap().unwrap().gid;
    let ip = std::net::Ipv6Addr::from(gid.to_bytes());
    let v6 = std::net::SocketAddrV6::new(ip, port, 0, 1);
    let v4 = std::net::SocketAddr::from((fake_tests::connections::ADDRESS, port));
    // Kept: a number of a queue pair that is used again at once makes a connection stale.
    let mut kept = Vec::new();
    for to in [v6.into(), v4] {
        let (active, passive) = thread::scope(|scope| {
            let passive = scope.spawn(|| request(&listener).accept(server.prepare()).unwrap());
            let active = client.resolve(to).connect(client.prepare()).unwrap();
            (active, passive.join().unwrap())
        });
        assert_eq!(active.peer_addr().port(), port);
        assert_eq!(passive.local_addr().port(), port);
        kept.push((active, passive));
    }
    let unscoped = std::net::SocketAddrV6::new(ip, port, 0, 0);
    let refused = client.connector(unscoped.into()).resolve().unwrap_err();
    assert!(refused.to_string().contains("EINVAL"), "{refused}");
}

#[test]
fn a_queue_pair_of_another_device_is_refused_and_given_back() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let mut info = bench.fake.device_info();
    info.index = Some(9);
    let kernel = Arc::new(bench.fake.clone());
    let other = uverbs::OpenOptions::new().kernel(kernel);
    let other = other.over(info, bench.fake.open().unwrap()).unwrap();
    let resolved = client.resolve(listener.local_addr());
    assert!(!resolved.is_on(&other));
    let pd = other.alloc_pd().unwrap();
    let cq = other.create_cq(4).unwrap();
    let prepared = pd.queue_pair(Rc, &cq, &cq).gid_index(1);
    let refused = resolved.connect(prepared.build().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("another device"), "{refused}");
    assert_eq!(refused.prepared.unwrap().into_raw().state(), QpState::Reset);
    assert!(
        listener
            .accept_timeout(std::time::Duration::ZERO)
            .unwrap()
            .is_none()
    );
}
