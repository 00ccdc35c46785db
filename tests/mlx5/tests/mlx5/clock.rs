//! The device's clock, and completions with its timestamps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uverbs::completion::Timestamps;
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionQueue, Context, ErrorKind, PollError, QpType, QueuePair, SendRequest, WorkCompletion,
};
use verbs_tests::{Registered, next, open, raw, requests_fail, until};

/// How far the clock of an emulated device may differ from that of its machine.
const NEAR: Duration = Duration::from_secs(600);

struct Stamped {
    qp: QueuePair,
    _peer: QueuePair,
    cq: CompletionQueue,
    memory: Registered,
}

/// A queue pair connected to another of the same device.
fn stamped(context: &Context, timestamps: Timestamps) -> Stamped {
    let builder = context.completion_queue(64).timestamps(timestamps);
    let (pd, cq) = (context.alloc_pd().unwrap(), builder.build().unwrap());
    let [a, b] = [(), ()].map(|()| {
        let builder = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .timeout(AckTimeout::code(14).unwrap())
            .access(uverbs::AccessFlags::REMOTE_WRITE);
        builder.build().unwrap()
    });
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    Stamped {
        qp: a.handshake(to_b).unwrap(),
        _peer: b.handshake(to_a).unwrap(),
        memory: Registered::remote_all(&pd, 4096),
        cq,
    }
}

impl Stamped {
    fn write(&mut self, wr_id: u64) {
        let sges = [self.memory.sge(0, 64)];
        let request = SendRequest::write(&sges, self.memory.remote(2048)).signaled();
        raw::send(&mut self.qp, &[request.wr_id(wr_id)]).unwrap();
    }

    fn next(&mut self) -> (WorkCompletion, Option<u64>) {
        until("a completion", || {
            let polled: Result<_, PollError> = self.cq.poll_stamped();
            polled.unwrap().map(|(done, stamp)| (*done, stamp))
        })
    }
}

#[test]
fn the_clock_advances_and_agrees_with_the_time_of_day() {
    let context = open();
    let clock = context.mlx5().unwrap().clock().unwrap();
    assert_eq!(clock.frequency_khz(), 1_000_000);
    assert_eq!(
        clock.frequency_khz(),
        context.device_attr().hca_core_clock_khz
    );
    let first = clock.count().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let (second, info) = (clock.count().unwrap(), clock.info().unwrap());
    assert!(second > first, "{first} {second}");
    let time = Duration::from_nanos(info.to_nanoseconds(second));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(now.abs_diff(time) < NEAR, "{now:?} {time:?} {info:?}");
    // The pages are mapped once for the context.
    let again = context.mlx5().unwrap().clock().unwrap();
    assert!(again.count().unwrap() >= second);
    // The difference of two counts corresponds to the difference in time, at 1 GHz and as the
    // kernel corrects it.
    let apart = info.to_nanoseconds(second) - info.to_nanoseconds(first);
    let counts = second - first;
    assert!(apart.abs_diff(counts) <= counts / 100, "{apart} {counts}");
}

#[test]
fn completions_are_stamped_with_counts() {
    let context = open();
    let clock = context.mlx5().unwrap().clock().unwrap();
    let mut s = stamped(&context, Timestamps::Raw);
    let mut last = 0;
    // More than the queue holds, so that entries are overwritten.
    for round in 0..100 {
        let before = clock.count().unwrap();
        s.write(round);
        let (done, stamp) = s.next();
        let after = clock.count().unwrap();
        assert!(done.is_success() && done.wr_id == round, "{done:?}");
        let stamp = stamp.unwrap();
        assert!(
            before <= stamp && stamp <= after,
            "{before} {stamp} {after}"
        );
        assert!(stamp >= last, "{last} {stamp}");
        last = stamp;
    }
    // It can also be polled without timestamps.
    s.write(7);
    assert_eq!(next(&mut s.cq).wr_id, 7);
}

#[test]
fn completions_are_stamped_with_the_time_of_day() {
    let context = open();
    let clock = context.mlx5().unwrap().clock().unwrap();
    let mut s = stamped(&context, Timestamps::WallClock);
    for round in 0..10 {
        let before = clock.count().unwrap();
        s.write(round);
        let (_, stamp) = s.next();
        let (after, info) = (clock.count().unwrap(), clock.info().unwrap());
        let (before, after) = (info.to_nanoseconds(before), info.to_nanoseconds(after));
        let stamp = stamp.unwrap();
        // The kernel may have adjusted the clock a little meanwhile.
        assert!(
            before - 1000 <= stamp && stamp <= after + 1000,
            "{before} {stamp} {after}"
        );
    }
}

#[test]
fn queues_without_timestamps_have_none_and_neither_have_failures() {
    requests_fail();
    let context = open();
    let mut s = stamped(&context, Timestamps::None);
    s.write(1);
    let (done, stamp) = s.next();
    assert!(done.is_success() && stamp.is_none(), "{done:?} {stamp:?}");
    let mut s = stamped(&context, Timestamps::Raw);
    let sges = [s.memory.sge(0, 64)];
    let remote = s.memory.remote(1 << 20);
    let request = SendRequest::write(&sges, remote).signaled();
    raw::send(&mut s.qp, &[request]).unwrap();
    let (done, stamp) = s.next();
    assert!(!done.is_success() && stamp.is_none(), "{done:?} {stamp:?}");
}

#[test]
fn stamps_go_through_a_resize() {
    let context = open();
    let mut s = stamped(&context, Timestamps::Raw);
    s.write(1);
    let (_, first) = s.next();
    for wr_id in 2..5 {
        s.write(wr_id);
    }
    std::thread::sleep(Duration::from_millis(20));
    s.cq.resize(200).unwrap();
    let mut last = first.unwrap();
    for wr_id in 2..5 {
        let (done, stamp) = s.next();
        assert_eq!(done.wr_id, wr_id);
        assert!(stamp.unwrap() >= last);
        last = stamp.unwrap();
    }
    let error = s.cq.resize(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
