//! A device that disappears at any moment, and one that returns, possibly with another driver.
//!
//! # Safety
//!
//! [`Leaving`] returns what the fake kernel behind it returns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code,
    reason = "a test fails by panicking, and puts itself in front of a kernel"
)]

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake_tests::{Bench, Loopback, live, live_on, thinned, ways};
use uverbs::error::Op;
use uverbs::owned::Memory;
use uverbs::{Context, Error, ErrorKind, OpenOptions, Result};
use uverbs_core::CommandPath;
use uverbs_core::error::Errno;
use uverbs_core::sys::{Call, Kernel, Reply};
use uverbs_fake::{AfterRemoval, FakeKernel, Profile};

/// A kernel whose device is taken away before its call number `at`.
#[derive(Debug)]
struct Leaving {
    fake: FakeKernel,
    at: u64,
    after: AfterRemoval,
    calls: AtomicU64,
}

// SAFETY: see the module.
unsafe impl Kernel for Leaving {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            self.fake.remove_device(self.after);
        }
        // SAFETY: the caller fulfils the obligations that the fake requires.
        unsafe { self.fake.call(fd, call) }
    }
}

fn open_leaving(
    fake: &FakeKernel,
    path: CommandPath,
    at: u64,
    after: AfterRemoval,
) -> Result<Context> {
    let fd = fake.open().unwrap();
    let kernel = Leaving {
        fake: fake.clone(),
        at,
        after,
        calls: AtomicU64::new(0),
    };
    OpenOptions::new()
        .command_path(path)
        .kernel(Arc::new(kernel))
        .over(fake.device_info(), fd)
}

/// Whether an error may be caused by a device that is gone: it says so, or EIO, or that nothing
/// completes any more.
fn is_of_removal(error: &Error) -> bool {
    error.kind() == ErrorKind::DeviceRemoved
        || error.errno() == Some(Errno::IO)
        || (error.op(), error.kind()) == (Op::PollCompletionQueue, ErrorKind::TimedOut)
}

#[test]
fn f01_the_device_goes_before_any_call() {
    for path in ways() {
        let bench = Bench::new(Profile::v6_12(), path);
        live(&bench).unwrap();
        for at in thinned(0..bench.fake.calls(), 17) {
            for after in [AfterRemoval::DestroySucceeds, AfterRemoval::DestroyFails] {
                let what = format!("before call {at} by {path:?}, {after:?}");
                let fake = FakeKernel::new(Profile::v6_12());
                let lived = open_leaving(&fake, path, at, after)
                    .and_then(|context| live_on(&fake, context));
                match lived {
                    // Only destroys were left, and objects of a device that is gone are gone, too.
                    Ok(()) => assert!(at > bench.fake.calls() / 2, "{what} went unnoticed"),
                    Err(error) => assert!(is_of_removal(&error), "{what}: {error}"),
                }
                assert_eq!(fake.objects().total(), 0, "{what}");
            }
        }
    }
}

#[test]
fn f04_a_reloaded_driver_is_another_device() {
    let before = Bench::newest();
    let old = before.context().unwrap();
    let mut looped = Loopback::new(&old).unwrap();
    let [message, room] = looped.buffers::<2>(16).unwrap();
    before.fake.freeze(true);
    looped.qp.recv(room, 1).unwrap();
    looped.qp.send(message, 16, 2).unwrap();
    before.fake.remove_device(AfterRemoval::DestroySucceeds);

    // The handles of the old device still exist while the new one is used.
    let after = Bench::new(Profile::v7_2(), CommandPath::Auto);
    for _ in 0..3 {
        live(&after).unwrap();
        assert!(old.alloc_pd().is_err());
    }
    let new = after.context().unwrap();
    let mut fresh = Loopback::new(&new).unwrap();
    let [sent, room] = fresh.buffers::<2>(16).unwrap();
    fresh.qp.recv(room, 1).unwrap();
    fresh.qp.send(sent, 16, 2).unwrap();
    // A completion of the new device belongs to nothing on the old one.
    let completion = fresh.cq.poll().unwrap().expect("a completion");
    let completion = looped.qp.complete(completion).expect_err("of another one");
    assert!(fresh.qp.complete(completion).is_ok());

    let memory = looped.qp.destroy().unwrap();
    let buffers = memory
        .iter()
        .filter(|memory| matches!(memory, Memory::Buffer(..)));
    assert_eq!(buffers.count(), 2);
    drop((memory, looped.cq, looped.pd));
    assert_eq!(old.leaked(), 0);
    drop(old);
    assert_eq!(before.fake.objects().total(), 0);
    assert_eq!(fresh.finish(1).unwrap().len(), 1);
    drop((fresh, new));
    assert_eq!(after.fake.objects().total(), 0);
}

#[test]
fn f04_an_unknown_abi_version_is_refused_before_the_first_call() {
    for version in [0, 3, 4, 77, u32::MAX] {
        let fake = FakeKernel::new(Profile::v7_2());
        let mut info = fake.device_info();
        info.abi_version = Some(version);
        let error = OpenOptions::new()
            .kernel(Arc::new(fake.clone()))
            .over(info, fake.open().unwrap())
            .map(drop)
            .unwrap_err();
        assert_eq!(
            (error.op(), error.kind()),
            (Op::OpenDevice, ErrorKind::Unsupported),
            "{error}"
        );
        let expected = format!("abi_version {version}, min 1, max 2");
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(fake.calls(), 0, "version {version}");
        assert_eq!(fake.objects().total(), 0, "version {version}");
    }
    for version in [1, 2] {
        let fake = FakeKernel::new(Profile::v7_2());
        let mut info = fake.device_info();
        info.abi_version = Some(version);
        OpenOptions::new()
            .kernel(Arc::new(fake.clone()))
            .over(info, fake.open().unwrap())
            .unwrap();
    }
}
