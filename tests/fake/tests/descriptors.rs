//! The descriptors of the fake kernel behave like those of the real one: they are closed with their
//! last copy, are readable exactly while an event is pending, and hang up when the device is gone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fake_tests::Bench;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uverbs::{ErrorKind, OpenOptions};
use uverbs_core::error::Errno;
use uverbs_fake::{AfterRemoval, Effect, Source, When};

/// `IB_EVENT_CQ_ERR`.
const CQ_ERR: u32 = 0;

/// The result of `poll(2)` for a descriptor. Miri has no `poll(2)`; there only the results of reads
/// are checked.
fn assert_polled(fd: BorrowedFd<'_>, wanted: PollFlags) {
    if !cfg!(miri) {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap();
        assert_eq!(fds[0].revents(), wanted);
    }
}

#[test]
fn a_file_is_closed_with_its_last_copy() {
    let bench = Bench::newest();
    let fd = bench.fake.open().unwrap();
    let copy = fd.try_clone().unwrap();
    let context = OpenOptions::new()
        .kernel(Arc::new(bench.fake.clone()))
        .over(bench.fake.device_info(), fd)
        .unwrap();
    let channel = context.create_completion_channel().unwrap();
    let events = channel.as_fd().try_clone_to_owned().unwrap();
    assert_eq!(bench.fake.objects().event_files, 2);
    drop((context, channel));
    let left = bench.fake.objects();
    assert_eq!((left.contexts, left.event_files), (1, 1));
    drop(events);
    let left = bench.fake.objects();
    assert_eq!((left.contexts, left.event_files), (1, 0));
    drop(copy);
    assert_eq!(bench.fake.objects().total(), 0);
}

#[test]
fn what_a_process_leaves_open_goes_with_its_file() {
    let bench = Bench::newest();
    let other = bench.context().unwrap();
    for _ in 0..3 {
        let context = bench.context().unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(8).unwrap();
        bench.inject(When::Always, Effect::Fail(Errno::NOMEM));
        drop((pd, cq));
        bench.fake.clear_faults();
        let left = bench.fake.objects();
        assert_eq!((left.contexts, left.pds, left.cqs), (2, 1, 1));
        assert_eq!(context.leaked(), 2);
        drop(context);
        let left = bench.fake.objects();
        assert_eq!((left.contexts, left.pds, left.cqs), (1, 0, 0));
    }
    drop(other);
    assert_eq!(bench.fake.objects().total(), 0);
}

#[test]
fn a_descriptor_is_readable_exactly_while_an_event_waits() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let fd = context.event_fd().unwrap();
    for round in 1..4 {
        assert_polled(fd, PollFlags::empty());
        let cq = context.create_cq(8).unwrap();
        bench.fake.raise(Source::Cq(round), CQ_ERR);
        bench.fake.raise(Source::Cq(round), CQ_ERR);
        assert_polled(fd, PollFlags::IN);
        context.try_async_event().unwrap();
        assert_polled(fd, PollFlags::IN);
        if round == 2 {
            context.try_async_event().unwrap();
        }
        // The other one is discarded unread with its queue.
        drop(cq);
        assert_polled(fd, PollFlags::empty());
        let error = context.try_async_event().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn f01_a_channel_is_hung_up_when_the_device_is_gone() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let channel = context.create_completion_channel().unwrap();
    bench.fake.remove_device(AfterRemoval::DestroySucceeds);
    assert_polled(channel.as_fd(), PollFlags::HUP);
    assert_eq!(
        channel.try_event().unwrap_err().kind(),
        ErrorKind::DeviceRemoved
    );
    drop((channel, context));
    assert_eq!(bench.fake.objects().total(), 0);
}
