//! A device that is removed while it is used: waits end, buffers are returned, drops succeed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::{Bench, Loopback, PATIENCE, ways};
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::owned::{self, Memory};
use uverbs::{ErrorKind, QpState};
use uverbs_fake::{AfterRemoval, Profile};

/// `IB_EVENT_DEVICE_FATAL`.
const DEVICE_FATAL: u32 = 8;
/// The time within which every wait has to end. Miri is never prompt.
const PROMPTLY: Duration = if cfg!(miri) {
    PATIENCE
} else {
    Duration::from_millis(100)
};
/// How often that is measured on a busy machine.
const TRIES: usize = if cfg!(miri) { 2 } else { 20 };

/// Repeats a test: at least half of the times, the wait in it has to end promptly.
fn promptly(mut end: impl FnMut() -> Duration) {
    let mut took: Vec<_> = (0..TRIES).map(|_| end()).collect();
    took.sort();
    assert!(took[TRIES / 2] < PROMPTLY, "{took:?}");
}

const REMOVALS: [AfterRemoval; 2] = [AfterRemoval::DestroySucceeds, AfterRemoval::DestroyFails];

#[test]
fn f01_a_thread_that_waits_for_events_is_woken() {
    let mut removals = REMOVALS.into_iter().cycle();
    promptly(|| {
        let after = removals.next().unwrap();
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiter = {
            let context = context.clone();
            thread::spawn(move || {
                let first = context.async_event(None);
                sender.send(()).unwrap();
                (first, context.async_event(None))
            })
        };
        thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        bench.fake.remove_device(after);
        receiver.recv_timeout(PATIENCE).expect("the event");
        let took = start.elapsed();
        let (first, second) = waiter.join().unwrap();
        let first = first.unwrap().expect("an event");
        assert_eq!(first.event, AsyncEventType::from_raw(DEVICE_FATAL));
        assert_eq!(first.source, EventSource::Device);
        assert_eq!(second.unwrap_err().kind(), ErrorKind::DeviceRemoved);
        took
    });
}

#[test]
fn f01_a_thread_that_waits_for_completions_is_woken() {
    promptly(|| {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let channel = context.create_completion_channel().unwrap();
        let waiter = {
            let channel = channel.clone();
            thread::spawn(move || (channel.event(None), Instant::now()))
        };
        thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        bench.fake.remove_device(AfterRemoval::DestroySucceeds);
        let (answer, end) = waiter.join().unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::DeviceRemoved);
        end.saturating_duration_since(start)
    });
}

#[test]
fn f01_buffers_in_flight_come_back_and_nothing_leaks() {
    for after in REMOVALS {
        for path in ways() {
            let bench = Bench::new(Profile::v6_12(), path);
            let context = bench.context().unwrap();
            let mut looped = Loopback::new(&context).unwrap();
            bench.fake.freeze(true);
            let [message, room] = looped.buffers::<2>(16).unwrap();
            looped.qp.recv(room, 1).unwrap();
            looped.qp.send(message, 16, 2).unwrap();
            assert!(looped.finish(1).unwrap().is_empty());
            bench.fake.remove_device(after);

            let what = format!("{after:?} by {path:?}");
            let [spare] = spare(&mut looped);
            if let Some(spare) = spare {
                // Its doorbell is refused; the buffer stays with the queue until that is destroyed.
                assert!(looped.qp.send(spare, 16, 3).is_err(), "{what}");
            }
            let Loopback { qp, cq, pd } = looped;
            let memory = qp
                .destroy()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let buffers = memory
                .iter()
                .filter(|memory| matches!(memory, Memory::Buffer(..)))
                .count();
            assert!(buffers >= 2, "{what}: {buffers}");
            drop((memory, cq, pd));
            assert_eq!(context.leaked(), 0, "{what}");
        }
    }
}

/// A buffer that was registered before the device was removed: none can be registered afterwards.
fn spare(looped: &mut Loopback) -> [Option<owned::Buffer>; 1] {
    [looped.buffers::<1>(16).ok().map(|[buffer]| buffer)]
}

#[test]
fn f01_commands_say_that_the_device_is_gone() {
    for path in ways() {
        let bench = Bench::new(Profile::v7_2(), path);
        let context = bench.context().unwrap();
        let mut looped = Loopback::new(&context).unwrap();
        bench.fake.remove_device(AfterRemoval::DestroySucceeds);
        // Once the event has been read, the library knows.
        context.try_async_event().unwrap();
        let _ = context.try_async_event();
        for error in [
            context.query_port(1).map(drop).unwrap_err(),
            context.alloc_pd().map(drop).unwrap_err(),
            context.create_cq(4).map(drop).unwrap_err(),
            looped.qp.query().map(drop).unwrap_err(),
            looped
                .qp
                .modify(&uverbs::attr::QpAttr::to(QpState::Error))
                .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{path:?}: {error}");
        }
        assert!(bench.fake.open().is_err());
        drop(looped);
        assert_eq!(context.leaked(), 0);
    }
}

#[test]
fn f01_an_unreported_removal_is_discovered_by_the_destroy() {
    for path in ways() {
        let bench = Bench::new(Profile::v7_2(), path);
        let context = bench.context().unwrap();
        let looped = Loopback::new(&context).unwrap();
        bench.fake.remove_device(AfterRemoval::DestroyFails);
        drop(looped);
        assert_eq!(context.leaked(), 0, "{path:?}");
    }
}

#[test]
fn a_removed_device_does_not_write_to_returned_memory() {
    for after in REMOVALS {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let mut looped = Loopback::new(&context).unwrap();
        let [room] = looped.buffers::<1>(4096).unwrap();
        looped.qp.recv(room, 1).unwrap();
        let mut srq = owned::SharedReceiveQueue::new(looped.pd.create_srq(4, 1).unwrap());
        let [shared] = looped.buffers::<1>(4096).unwrap();
        srq.recv(shared, 2).unwrap();
        assert_eq!(bench.fake.scribble(1), 2 * 4096);

        bench.fake.remove_device(after);
        let mut memory = looped.qp.destroy().unwrap();
        memory.extend(srq.destroy().unwrap());
        let buffers = memory.into_iter().filter_map(Memory::into_buffer);
        let mut buffers: Vec<_> = buffers.collect();
        assert_eq!(buffers.len(), 2);
        for buffer in &mut buffers {
            buffer.fill(2);
        }
        assert_eq!(bench.fake.scribble(3), 0, "{after:?}");
        assert!(
            buffers
                .iter()
                .all(|buffer| buffer.iter().all(|byte| *byte == 2))
        );
        // Nor where there is no memory any more.
        drop(buffers);
        assert_eq!(bench.fake.scribble(4), 0, "{after:?}");
    }
}
