//! Connections by address on rxe: many at once, other users and other processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "a test fails by panicking, and forks"
)]

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use rustix::time::{ClockId, clock_gettime};
use syscalls::{Sysno, syscall};
use uverbs::ErrorKind;
use uverbs::cm::{self, CmError, ConnectionEvent, EventChannel};
use uverbs::error::Errno;
use verbs_tests::by_address::{PATIENCE, Side, connected, request};

/// How long this thread has run, on whatever processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn rxe_by_address_tells_the_peer_of_what_is_dropped_and_does_not_wait() {
    const COUNT: usize = 1000;
    const THREADS: usize = 4;
    const EACH: usize = COUNT / THREADS;
    let (client, server) = (Side::new(1024), Side::new(1024));
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
fn rxe_by_address_belongs_to_its_process_and_user() {
    println!("\nthe kernel may say: changed security contexts");
    let (client, server) = (Side::new(1024), Side::new(1024));
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
