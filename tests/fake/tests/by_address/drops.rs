//! What is dropped or forgotten, at any step.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{ChannelOptions, ConnectionEvent, RejectReason};
use uverbs::discover::CharDevice;
use uverbs::error::Errno;
use uverbs::kernel::{Call, Kernel, Reply};
use uverbs_fake::FakeKernel;
use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_CMD_DESTROY_ID;

use crate::eventually;
use crate::side::{Side, connected, request};

#[test]
fn peers_of_dropped_requests_and_connections_are_notified() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let consumer = Some(RejectReason::Consumer);
    drop(client.resolve(listener.local_addr()));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(request(&listener));
            drop(request(&listener).attach(server.prepare()).unwrap());
        });
        for _ in 0..2 {
            let resolved = client.resolve(listener.local_addr());
            let refused = resolved.connect(client.prepare()).unwrap_err();
            assert_eq!(refused.cause.reason(), consumer, "{refused}");
        }
    });
    let (active, passive) = connected(&client, &server, &listener);
    drop(active);
    let event = passive.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
    // Otherwise the next connection may get the numbers of this one.
    drop(passive);
    let over = || bench.fake.connection_ids() == 1;
    eventually("it is not over", over);
    // With its queue pair, or after it.
    let (active, passive) = connected(&client, &server, &listener);
    let (queue_pair, link) = passive.into_parts();
    drop(queue_pair);
    assert_eq!(active.link().try_event().unwrap(), None);
    drop(link);
    let event = active.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
    drop(active);
    eventually("it is not over", over);
    // Requests that nobody took, whether they were read or not.
    let attached = client
        .resolve(listener.local_addr())
        .attach(client.prepare());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| attached.unwrap().connect().unwrap_err());
        thread::sleep(Duration::from_millis(20));
        drop(listener);
        assert_eq!(waiting.join().unwrap().cause.reason(), consumer);
    });
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
#[expect(clippy::mem_forget, reason = "safe programs may")]
fn forgotten_requests_and_connections_block_no_others() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (active, passive) = connected(&client, &server, &listener);
    std::mem::forget(active);
    std::mem::forget(client.resolve(listener.local_addr()));
    thread::scope(|scope| {
        scope.spawn(|| {
            let resolved = client.resolve(listener.local_addr());
            assert!(resolved.connect(client.prepare()).is_err());
        });
        let request = request(&listener);
        drop(request);
    });
    // Their events are nobody's, and others' arrive.
    drop(passive);
    thread::sleep(Duration::from_millis(20));
    let (active, passive) = connected(&client, &server, &listener);
    drop(passive);
    let event = active.event(Some(PATIENCE)).unwrap();
    assert_eq!(event, Some(ConnectionEvent::Disconnected));
}

/// A kernel that takes its time to destroy an id.
#[derive(Debug)]
struct Slow(FakeKernel, Duration);

#[expect(unsafe_code, reason = "passes the promise on")]
// SAFETY: the descriptors are the fake's.
unsafe impl Kernel for Slow {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        if let Call::Cm(command) = &call
            && command.command == RDMA_USER_CM_CMD_DESTROY_ID
        {
            thread::sleep(self.1);
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { self.0.call(fd, call) }
    }

    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> uverbs::Result<()> {
        self.0.check_connection_manager(fd, number)
    }
}

#[test]
fn a_drop_does_not_wait_for_the_kernel() {
    const SLOW: Duration = Duration::from_millis(100);
    let bench = Bench::newest();
    let (mut client, server) = (Side::new(&bench), Side::new(&bench));
    let kernel = Arc::new(Slow(bench.fake.clone(), SLOW));
    let fd = bench.fake.open_connection_manager().unwrap();
    client.channel = ChannelOptions::new().over(kernel, fd).unwrap();
    let listener = server.listen();
    let ends: Vec<_> = (0..4)
        .map(|_| connected(&client, &server, &listener))
        .collect();
    let (links, others): (Vec<_>, Vec<_>) = ends
        .into_iter()
        .map(|(active, passive)| (active.into_parts(), passive))
        .unzip();
    let start = Instant::now();
    drop(links);
    drop(client.channel.clone());
    let took = start.elapsed();
    assert!(took < SLOW, "{took:?}");
    // The channel goes as well, and its thread does the rest.
    drop(client);
    assert!(start.elapsed() < SLOW * 2, "{:?}", start.elapsed());
    for other in &others {
        let event = other.event(Some(PATIENCE)).unwrap();
        assert_eq!(event, Some(ConnectionEvent::Disconnected));
    }
    drop((others, listener));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn ids_that_the_kernel_does_not_destroy_are_counted() {
    let bench = Bench::newest();
    let (client, server) = (Side::new(&bench), Side::new(&bench));
    let listener = server.listen();
    let (active, passive) = connected(&client, &server, &listener);
    let op = uverbs::error::Op::CmDestroyId;
    bench.fake.refuse(op, Errno::ACCESS).unwrap();
    drop((active, passive));
    eventually("they are not counted", || {
        client.channel.leaked() + server.channel.leaked() == 2
    });
}
