//! Connections by address on real kernels: both ends in this process, on the one device.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "a test fails by panicking, and forks"
)]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use rustix::time::{ClockId, clock_gettime};
use syscalls::{Sysno, syscall};
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{
    self, AcceptData, CmError, ConnectData, Connection, ConnectionEvent, EventChannel, Listener,
    RejectData, RejectReason, Request, Resolved, Step,
};
use uverbs::error::Errno;
use uverbs::owned::Finished;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, ErrorKind, PreparedQueuePair, ProtectionDomain, QpState};

/// The address of `v0`, on which the device is.
const ADDRESS: [u8; 4] = [10, 1, 0, 1];
const PATIENCE: Duration = Duration::from_secs(30);

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
            cq: context.create_cq(1024).unwrap(),
        }
    }

    fn listen(&self) -> Listener {
        let at = SocketAddr::from((ADDRESS, 0));
        cm::listen(at).channel(&self.channel).build().unwrap()
    }

    fn connector(&self, to: SocketAddr) -> cm::Connector {
        cm::connect(to).channel(&self.channel).timeout(PATIENCE)
    }

    fn resolve(&self, to: SocketAddr) -> Resolved {
        self.connector(to).resolve().unwrap()
    }

    fn prepare(&self) -> PreparedQueuePair<Rc> {
        let builder = self.pd.queue_pair(Rc, &self.cq, &self.cq);
        builder.build().unwrap()
    }

    fn finish(&mut self, connection: &mut Connection) -> Finished {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "no completion");
            let Some(completion) = self.cq.poll().unwrap() else {
                continue;
            };
            if let Ok(finished) = connection.queue_pair().complete(completion) {
                return finished;
            }
        }
    }
}

fn request(listener: &Listener) -> Request {
    listener
        .accept_timeout(PATIENCE)
        .unwrap()
        .expect("a request")
        .timeout(PATIENCE)
}

fn connected(client: &Side, server: &Side, listener: &Listener) -> (Connection, Connection) {
    thread::scope(|scope| {
        let passive = scope.spawn(|| request(listener).accept(server.prepare()).unwrap());
        let resolved = client.resolve(listener.local_addr());
        (
            resolved.connect(client.prepare()).unwrap(),
            passive.join().unwrap(),
        )
    })
}

/// How long this thread has run, on whatever processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn rxe_by_address_exchanges_data_and_ends() {
    let (mut client, mut server) = (Side::new(), Side::new());
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
fn rxe_by_address_says_why_there_is_no_connection() {
    let (client, server) = (Side::new(), Side::new());
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
    let silent = client
        .connector("10.1.0.77:1".parse().unwrap())
        .timeout(limit);
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
fn rxe_by_address_tells_the_peer_of_what_is_dropped_and_does_not_wait() {
    const COUNT: usize = 1000;
    const THREADS: usize = 4;
    const EACH: usize = COUNT / THREADS;
    let (client, server) = (Side::new(), Side::new());
    let listener = server.listen();
    let start = Instant::now();
    let accept = || request(&listener).accept(server.prepare()).unwrap();
    let connect = || {
        let resolved = client.resolve(listener.local_addr());
        resolved.connect(client.prepare()).unwrap()
    };
    let (ours, theirs) = thread::scope(|scope| {
        let theirs =
            [(); THREADS].map(|()| scope.spawn(|| (0..EACH).map(|_| accept()).collect::<Vec<_>>()));
        let ours = [(); THREADS]
            .map(|()| scope.spawn(|| (0..EACH).map(|_| connect()).collect::<Vec<_>>()));
        let ours: Vec<_> = ours
            .into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect();
        let theirs: Vec<_> = theirs
            .into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect();
        println!(
            "FIGURE: {COUNT} live connections after {:?}",
            start.elapsed()
        );
        (ours, theirs)
    });
    assert_eq!((ours.len(), theirs.len()), (COUNT, COUNT));
    let (mut times, mut own) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    for connection in ours {
        let (start, before) = (Instant::now(), processor_time());
        drop(connection);
        times.push(start.elapsed());
        own.push(processor_time().saturating_sub(before));
    }
    let all = begin.elapsed();
    let all_own: Duration = own.iter().sum();
    times.sort();
    own.sort();
    let [half, most] = [COUNT / 2, COUNT * 95 / 100];
    println!(
        "FIGURE: {COUNT} connections dropped: {all:?}, median {:?}, of 95 % at most {:?}, the \
         longest {:?}; of the thread's own processor time {all_own:?}, {:?}, {:?}, {:?}",
        times[half],
        times[most],
        times[COUNT - 1],
        own[half],
        own[most],
        own[COUNT - 1]
    );
    // Destroying them takes the kernel about as long as making them. A busy host takes its time,
    // and an emulated processor that it stops counts that as its own.
    assert!(own[most] < Duration::from_millis(1), "{:?}", own[most]);
    assert!(all < Duration::from_secs(1), "{all:?}");
    for connection in &theirs {
        let event = connection.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
    }
    println!("FIGURE: the peers had heard after {:?}", begin.elapsed());
    let start = Instant::now();
    drop((theirs, listener));
    let (client_channel, server_channel) = (client.channel.leaked(), server.channel.leaked());
    drop((client, server));
    assert!(start.elapsed() < PATIENCE);
    assert_eq!((client_channel, server_channel), (0, 0));
}

#[test]
fn rxe_by_address_has_many_tasks_on_one_channel() {
    const COUNT: usize = 50;
    let (client, server) = (Side::new(), Side::new());
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

#[test]
fn rxe_by_address_belongs_to_its_process_and_user() {
    println!("\nthe kernel may say: changed security contexts");
    let (client, server) = (Side::new(), Side::new());
    let listener = server.listen();
    let (active, passive) = connected(&client, &server, &listener);
    // Of this thread alone: what libraries call changes all threads.
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: three numbers.
            unsafe { syscall!(Sysno::setresuid, 1000, 1000, 1000) }.expect("another user");
            let refused = client
                .connector(listener.local_addr())
                .resolve()
                .unwrap_err();
            let CmError::Failed(error) = refused else {
                panic!("{refused}")
            };
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            assert_eq!(error.errno(), Some(Errno::ACCESS));
            assert!(error.known_hint().is_some());
            // A channel of its own is no privilege: the node's mode decides.
            if let Ok(own) = EventChannel::open() {
                let resolved = cm::connect(listener.local_addr()).channel(&own).resolve();
                assert!(resolved.is_ok(), "{resolved:?}");
            }
        });
    });
    // SAFETY: the child calls nothing that needs another thread, and exits without returning.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let forked = |error: &uverbs::Error| error.kind() == ErrorKind::Forked;
            let event = active.link().try_event().unwrap_err();
            let refused = client
                .connector(listener.local_addr())
                .resolve()
                .unwrap_err();
            let is_forked = matches!(&refused, CmError::Failed(error) if forked(error));
            // The parent's connections stay.
            drop((active, listener));
            let fine = forked(&event) && is_forked;
            // SAFETY: ends the process.
            unsafe { nix::libc::_exit(i32::from(!fine)) }
        }
        ForkResult::Parent { child } => {
            let status = waitpid(child, None).unwrap();
            assert_eq!(status, WaitStatus::Exited(child, 0));
        }
    }
    assert_eq!(
        passive.event(Some(Duration::from_millis(200))).unwrap(),
        None
    );
    drop(active);
    let event = passive.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
}
