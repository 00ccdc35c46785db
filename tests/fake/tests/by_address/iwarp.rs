//! Connections of iWARP, where the driver moves the queue pairs and messages have a length.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use fake_tests::connections::ADDRESS;
use fake_tests::{Bench, PATIENCE};
use uverbs::QpState;
use uverbs::cm::{
    self, AcceptData, CmError, ConnectData, ConnectionEvent, EventStatus, RejectData,
};
use uverbs::error::Errno;
use uverbs_core::types::{NodeType, TransportType};
use uverbs_fake::{CallKind, Effect, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_MODIFY_QP;
use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_ACCEPT, RDMA_USER_CM_CMD_CONNECT, RDMA_USER_CM_CMD_INIT_QP_ATTR,
};

use crate::side::{Side, connected, request};

fn bench() -> Bench {
    let bench = Bench::newest();
    bench.fake.speak_iwarp();
    bench
}

/// How often the kernel was called so.
fn count(bench: &Bench, is_wanted: impl Fn(CallKind) -> bool) -> usize {
    let seen = bench.fake.seen();
    seen.iter().filter(|seen| is_wanted(seen.call)).count()
}

#[test]
fn its_driver_moves_the_queue_pairs_and_data_flow_both_ways() {
    let bench = bench();
    let info = bench.fake.device_info();
    let transport = info.node_type.and_then(NodeType::transport);
    assert_eq!(transport, Some(TransportType::Iwarp));
    let (mut client, mut server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (mut active, mut passive) = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            assert_eq!(request.peer_data(), b"hello", "with its length");
            assert_eq!(request.peer_qp_num(), 0, "which is not sent");
            let data = AcceptData::new(b"welcome").unwrap();
            let mut attached = request.private_data(data).attach(server.prepare()).unwrap();
            let buffer = server.buffer();
            attached.queue_pair().recv(buffer, 7).unwrap();
            attached.accept().unwrap()
        });
        let resolved = client.resolve(listener.local_addr());
        assert_eq!(resolved.route().path_count, 0);
        let data = ConnectData::new(b"hello").unwrap();
        let active = resolved.private_data(data).connect(client.prepare());
        (active.unwrap(), passive.join().unwrap())
    });
    assert_eq!(active.private_data(), b"welcome");
    for end in [&mut active, &mut passive] {
        assert_eq!(end.queue_pair().state(), QpState::ReadyToSend);
    }
    let of_cm = |command| count(&bench, |call| call == CallKind::Cm(command));
    assert_eq!(of_cm(RDMA_USER_CM_CMD_CONNECT), 1);
    assert_eq!(of_cm(RDMA_USER_CM_CMD_ACCEPT), 1, "and no confirmation");
    let modified = count(&bench, |call| match call {
        CallKind::Invoked(number) | CallKind::Written(number) => {
            number & 0xff == IB_USER_VERBS_CMD_MODIFY_QP
        }
        _ => false,
    });
    assert_eq!(modified, 2, "each was moved to INIT alone");

    let mut message = client.buffer();
    message[..5].copy_from_slice(b"first");
    active.queue_pair().send(message, 5, 1).unwrap();
    let received = server.finish(&mut passive);
    assert_eq!((received.user_data(), received.len()), (7, 5));
    assert!(client.finish(&mut active).status().is_success());
    let buffer = client.buffer();
    active.queue_pair().recv(buffer, 2).unwrap();
    passive.queue_pair().send(server.buffer(), 3, 8).unwrap();
    assert_eq!(client.finish(&mut active).len(), 3);

    active.disconnect(PATIENCE).unwrap();
    let event = passive.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
    assert!(passive.link().is_over());
    passive.disconnect(PATIENCE).unwrap();
}

#[test]
fn refusals_say_so_by_an_errno_and_give_the_queue_pair_back() {
    let bench = bench();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let nobody = client.resolve(SocketAddr::from((ADDRESS, 4791)));
    let nobody = nobody.connect(client.prepare()).unwrap_err();
    let listener = server.listen();
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            let data = RejectData::new(b"no").unwrap();
            request(&listener).reject(data).unwrap();
        });
        let resolved = client.resolve(listener.local_addr());
        resolved.connect(client.prepare()).unwrap_err()
    });
    for (failed, said) in [(nobody, &b""[..]), (refused, b"no")] {
        let CmError::Rejected(rejection) = &failed.cause else {
            panic!("{failed}")
        };
        assert_eq!(rejection.status, EventStatus::Failed(Errno::CONNREFUSED));
        assert_eq!(rejection.private_data(), said);
        let prepared = failed.prepared.unwrap();
        assert_eq!(prepared.into_raw().state(), QpState::Reset);
    }
}

#[test]
fn a_peer_that_is_dropped_is_noticed_and_ids_are_destroyed() {
    let bench = bench();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (active, passive) = connected(&client, &server, &listener);
    drop(active);
    let event = passive.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
    drop((passive, listener));
    crate::eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn streams_run_over_it() {
    let bench = bench();
    let streams = || {
        let side = Side::new(&bench);
        let streams = side.pd.streams().gid_index(1).channel(&side.channel);
        streams.connections(2).keepalive(None).build().unwrap()
    };
    let (client, server) = (streams(), streams());
    let listener = server.listen(SocketAddr::from((ADDRESS, 0))).unwrap();
    let to = listener.local_addr();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept_timeout(PATIENCE).unwrap().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            stream.shutdown().unwrap();
        });
        let connector = cm::connect(to).timeout(PATIENCE);
        let mut stream = client.connect(connector).unwrap();
        let sent: Vec<u8> = (0..100_000u32).map(|at| at.to_le_bytes()[0]).collect();
        stream.write_all(&sent).unwrap();
        stream.shutdown().unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(back == sent, "{} bytes came back", back.len());
    });
}

/// A kernel without a path for a queue pair that nobody else moves.
#[test]
fn a_queue_pair_that_was_not_moved_is_no_connection() {
    const PATH: u32 = 1 << 7;
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let without_path = Arc::new(|_: u16, bytes: &mut [u8]| {
        if let Some(mask) = bytes.first_chunk_mut() {
            *mask = (u32::from_ne_bytes(*mask) & !PATH).to_ne_bytes();
        }
    });
    let failed = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            let when = When::Cm(RDMA_USER_CM_CMD_INIT_QP_ATTR);
            bench.inject(when, Effect::Rewrite(without_path));
            // As far as the peer is concerned, it is connected.
            let accepting = scope.spawn(|| request.accept(server.prepare()).unwrap_err());
            crate::eventually("no reply", || {
                count(&bench, |call| call == CallKind::Cm(RDMA_USER_CM_CMD_ACCEPT)) > 0
            });
            bench.fake.clear_faults();
            accepting.join().unwrap()
        });
        let resolved = client.resolve(listener.local_addr());
        drop(resolved.connect(client.prepare()));
        passive.join().unwrap()
    });
    assert!(failed.to_string().contains("was not moved"), "{failed}");
    assert!(failed.prepared.is_some());
}
