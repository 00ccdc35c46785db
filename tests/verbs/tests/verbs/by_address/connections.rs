//! Connections.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use uverbs::QpState;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{
    self, AcceptData, CmError, ConnectData, ConnectionEvent, RejectData, RejectReason, Step,
};
use uverbs::error::Errno;
use verbs_tests::by_address::{PATIENCE, Side, address, request};

/// An address of the same network that nobody has.
fn neighbour() -> SocketAddr {
    let IpAddr::V4(address) = address() else {
        panic!("not an IPv4 address")
    };
    let [a, b, c, _] = address.octets();
    SocketAddr::from(([a, b, c, 77], 1))
}

#[test]
fn by_address_exchanges_data_and_ends() {
    let (mut client, mut server) = (Side::new(1024), Side::new(1024));
    let listener = server.listen();
    let at = listener.local_addr();
    let (mut active, mut passive) = thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let request = request(&listener);
            assert_eq!(request.peer_data()[..6], *b"hello\0");
            assert_eq!(request.peer_addr().ip(), at.ip());
            assert!(request.is_on(server.pd.context()));
            let prepared = request.queue_pair(&server.pd, &server.cq, &server.cq);
            let data = AcceptData::new(&[7; 196]).unwrap();
            let request = request.private_data(data);
            let mut attached = request.attach(prepared.build().unwrap()).unwrap();
            let [buffer] = server.pd.buffers(64).unwrap();
            attached.queue_pair().recv(buffer, 7).unwrap();
            attached.accept().unwrap()
        });
        let resolved = client.resolve(at);
        assert!(resolved.is_on(client.pd.context()));
        let opened = resolved.open().unwrap();
        assert_eq!(opened.name(), client.pd.context().name());
        let data = ConnectData::new(b"hello").unwrap();
        let active = resolved.private_data(data).connect(client.prepare());
        (active.unwrap(), passive.join().unwrap())
    });
    assert_eq!(active.private_data(), [7; 196]);
    assert_eq!(active.peer_addr(), passive.local_addr());
    let (ours, theirs) = (
        active.queue_pair().query().unwrap(),
        passive.queue_pair().query().unwrap(),
    );
    assert_eq!(
        (ours.state, theirs.state),
        (QpState::ReadyToSend, QpState::ReadyToSend)
    );
    // The connection manager's is 0, 655 ms.
    assert_eq!(ours.min_rnr_timer, uverbs::time::RnrTimer::default());

    let [mut message] = client.pd.buffers(64).unwrap();
    message[..5].copy_from_slice(b"first");
    active.queue_pair().send(message, 5, 1).unwrap();
    let received = server.finish(&mut passive);
    assert_eq!(received.bytes(), Some(&b"first"[..]));
    assert!(client.finish(&mut active).status().is_success());

    thread::scope(|scope| {
        let ended = scope.spawn(|| active.disconnect(PATIENCE));
        let event = passive.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
        passive.disconnect(PATIENCE).unwrap();
        ended.join().unwrap().unwrap();
    });
    let event = active.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::TimewaitExit));
}

#[test]
fn by_address_says_why_there_is_no_connection() {
    let (client, server) = (Side::new(1024), Side::new(1024));
    let listener = server.listen();
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            request(&listener)
                .reject(RejectData::new(b"busy").unwrap())
                .unwrap();
            drop(request(&listener));
        });
        let attach = |prepared| {
            client
                .resolve(listener.local_addr())
                .attach(prepared)
                .unwrap()
        };
        let refused = attach(client.prepare()).connect().unwrap_err();
        let again = *refused.prepared.expect("the queue pair");
        let dropped = attach(again).connect().unwrap_err();
        assert_eq!(
            dropped.cause.reason(),
            Some(RejectReason::Consumer),
            "{dropped}"
        );
        refused.cause
    });
    let CmError::Rejected(rejection) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(rejection.reason(), Some(RejectReason::Consumer));
    assert_eq!(rejection.private_data()[..5], *b"busy\0");
    let to = listener.local_addr();
    drop(listener);
    // The kernel destroys the listener on another thread.
    let nobody = loop {
        let refused = client.resolve(to).connect(client.prepare()).unwrap_err();
        if refused.cause.reason() != Some(RejectReason::Consumer) {
            break refused.cause;
        }
    };
    assert_eq!(
        nobody.reason(),
        Some(RejectReason::InvalidServiceId),
        "{nobody}"
    );
    let far = client.connector("192.0.2.1:1".parse().unwrap()).resolve();
    let CmError::Failed(error) = far.unwrap_err() else {
        panic!("another error")
    };
    assert!(
        matches!(
            error.errno(),
            Some(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NODEV)
        ),
        "{error}"
    );
    // A neighbour that does not answer.
    let limit = Duration::from_secs(1);
    let silent = client.connector(neighbour()).timeout(limit);
    let start = Instant::now();
    let silent = silent.resolve().unwrap_err();
    assert!(start.elapsed() < PATIENCE);
    assert!(
        matches!(
            silent,
            CmError::TimedOut(Step::Address) | CmError::Failed(_)
        ),
        "{silent}"
    );
    // A server that takes requests and says nothing.
    let listener = server.listen();
    let stuck = cm::connect(listener.local_addr())
        .timeout(limit)
        .resolve()
        .unwrap();
    let start = Instant::now();
    let stuck = stuck.connect(client.prepare()).unwrap_err();
    assert!(
        matches!(stuck.cause, CmError::TimedOut(Step::Connect)),
        "{stuck}"
    );
    assert!(start.elapsed() >= limit && start.elapsed() < PATIENCE);
    let late = request(&listener).accept(server.prepare()).unwrap_err();
    assert!(
        matches!(late.cause, CmError::GaveUp | CmError::Rejected(_)),
        "{late}"
    );
}

#[test]
fn by_address_has_many_tasks_on_one_channel() {
    const COUNT: usize = 50;
    let (client, server) = (Side::new(1024), Side::new(1024));
    let listener = server.listen();
    let to = listener.local_addr();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let start = Instant::now();
    let accepted = thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let accept = |_| request(&listener).accept(server.prepare()).unwrap();
            (0..COUNT).map(accept).collect::<Vec<_>>()
        });
        runtime.block_on(async {
            let channel = AsyncEventChannel::new(client.channel.clone()).unwrap();
            let connect = || async {
                let resolved = channel.resolve(client.connector(to)).await.unwrap();
                let attached = resolved.attach(client.prepare()).unwrap();
                channel.connect(attached).await.unwrap()
            };
            let mut all: Vec<_> = (0..COUNT).map(|_| Box::pin(connect())).collect();
            let mut made = Vec::new();
            std::future::poll_fn(|cx| {
                all.retain_mut(|one| match one.as_mut().poll(cx) {
                    std::task::Poll::Ready(connection) => {
                        made.push(connection);
                        false
                    }
                    std::task::Poll::Pending => true,
                });
                if all.is_empty() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            assert_eq!(made.len(), COUNT);
        });
        accepted.join().unwrap()
    });
    println!(
        "FIGURE: {COUNT} connections at a time: {:?}",
        start.elapsed()
    );
    for connection in &accepted {
        let event = connection.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
    }
}
