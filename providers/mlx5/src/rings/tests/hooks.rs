//! Queues with observers.

use std::sync::Arc;

use uverbs_core::hw::{BlockRing, PagePool, Pages, Part, Records, UnitRing};
use uverbs_core::rings::{Collector, Entry, Observer, QueueKind, Value, Watch, Watched};
use uverbs_core::sys::{ForkToken, Mapping};
use uverbs_core::types::{
    AtomicCap, LocalKey, Operation, Payload, QpType, RecvRequest, SendFlags, SendRequest, Sge,
};

use crate::cq::poll::Consumer;
use crate::cqe::CqShared;
use crate::cqe::Results;
use crate::cqe::ring::CqRing;
use crate::doorbell::Doorbell;
use crate::rings::Route;
use crate::rq::{self, ReceiveRing};
use crate::sq::{self, SendRing};
use crate::srq::ring::SharedRing;
use crate::tracker::srq::sizes::Sizes;
use crate::tracker::{QueuePairTracker, Receives, RecvTracker};
use crate::wqe::operations::Operations;
use crate::wqe::sizes::{self, Overhead};

const QPN: u32 = 0x118;

fn watched(queue: QueueKind) -> (Arc<Collector>, Option<Watched>) {
    let collector = Arc::new(Collector::new());
    let watch = Watch::new(Arc::clone(&collector) as Arc<dyn Observer>);
    (collector, Some(Arc::new(watch).queue(queue, QPN)))
}

/// The index of each entry, its kind, and its value of `field`.
fn reported(collector: &Collector, field: &str) -> Vec<(u32, &'static str, String)> {
    let value = |entry: &Entry| {
        let found = entry.fields.iter().find(|(name, _)| *name == field);
        found.map_or_else(String::new, |(_, value)| format!("{value:?}"))
    };
    let entries = collector.take();
    entries
        .iter()
        .map(|entry| (entry.index, entry.kind, value(entry)))
        .collect()
}

fn limits() -> sizes::Limits {
    sizes::Limits {
        max_sq_desc: 1024,
        max_rq_desc: 512,
        max_send_blocks: 32768,
        max_recv_wr: 32768,
    }
}

fn record() -> Arc<uverbs_core::hw::Record> {
    Arc::new(Records::new(64, &PagePool::default()).take().unwrap())
}

fn sge(length: u32) -> Sge {
    Sge {
        address: 0x1000,
        length,
        key: LocalKey::from_raw(1),
    }
}

fn number(value: u64) -> String {
    format!("{:?}", Value::Number(value))
}

#[test]
fn send_requests_are_reported_when_they_are_submitted() {
    let caps = uverbs_core::types::QpCaps {
        max_send_wr: 4,
        max_send_sge: 4,
        ..Default::default()
    };
    let op = uverbs_core::Op::CreateQueuePair;
    let sizes = sizes::Send::new(op, &limits(), &caps, Overhead::CONNECTED, 0).unwrap();
    let part = Part::from(Pages::new(sizes.bytes() as usize).unwrap());
    let registers = Arc::new(Mapping::anonymous(4096).unwrap());
    let tracker = Arc::new(QueuePairTracker::new(sizes.blocks, Receives::None));
    let mut ring = SendRing::new(sq::Parts {
        ring: BlockRing::new(part, sizes.blocks).unwrap(),
        sizes,
        operations: Operations::of(QpType::Rc, AtomicCap::Device),
        qpn: QPN,
        signal_all: false,
        kind: QpType::Rc,
        fork: ForkToken::current(),
        tracker,
        record: record(),
        doorbell: Doorbell::for_tests(&registers, 0),
    });
    ring.set_ready(true);
    let (collector, queue) = watched(QueueKind::Send);
    ring.watch(queue, Route::Connected);
    let long = [sge(1), sge(2), sge(3), sge(4)];
    let send = |payload| SendRequest {
        wr_id: 0,
        operation: Operation::Send,
        payload,
        flags: SendFlags::SIGNALED,
        destination: None,
    };
    let one = [sge(64)];
    ring.put(&send(Payload::Gather(&one))).unwrap();
    assert_eq!(collector.take(), [], "not rung");
    ring.put(&send(Payload::Gather(&long))).unwrap();
    ring.submit().unwrap();
    let first = |index, length| (index, "SEND", number(length));
    assert_eq!(reported(&collector, "length"), [first(0, 64), first(1, 1)]);
    // It takes two blocks.
    ring.put(&send(Payload::Gather(&one))).unwrap();
    ring.abort();
    ring.submit().unwrap();
    assert_eq!(collector.take(), [], "taken back");
    ring.post(&[send(Payload::Gather(&one))]).unwrap();
    assert_eq!(reported(&collector, "length"), [first(3, 64)]);
}

#[test]
fn receive_requests_are_reported_when_they_are_submitted() {
    let sizes = sizes::Receive::new(uverbs_core::Op::CreateQueuePair, &limits(), 4, 2).unwrap();
    let part = Part::from(Pages::new(sizes.bytes() as usize).unwrap());
    let receives = Receives::Own(RecvTracker::new(sizes.count));
    let mut ring = ReceiveRing::new(rq::Parts {
        ring: UnitRing::new(part, sizes.bytes() / 16).unwrap(),
        sizes,
        fork: ForkToken::current(),
        tracker: Arc::new(QueuePairTracker::new(0, receives)),
        record: record(),
    });
    ring.set_ready(true);
    let (collector, queue) = watched(QueueKind::Receive);
    ring.watch(queue);
    let sges = [[sge(7)], [sge(8)]];
    let requests = sges
        .each_ref()
        .map(|scatter| RecvRequest { wr_id: 0, scatter });
    ring.post(&requests).unwrap();
    let expected = [(0, "RECEIVE", number(7)), (1, "RECEIVE", number(8))];
    assert_eq!(reported(&collector, "length"), expected);
    ring.submit().unwrap();
    assert_eq!(collector.take(), [], "once");
}

#[test]
fn shared_receive_requests_name_the_next() {
    for faults in [false, true] {
        let attr = uverbs_core::types::SrqAttr {
            max_wr: 3,
            max_sge: 1,
            limit: 0,
        };
        let op = uverbs_core::Op::CreateSharedReceiveQueue;
        let sizes = Sizes::new(op, 1024, 512, &attr, faults).unwrap();
        let part = Part::from(Pages::new(sizes.units() as usize * 16).unwrap());
        let ring = UnitRing::new(part, sizes.units()).unwrap();
        let (collector, queue) = watched(QueueKind::SharedReceive);
        let mut ring =
            SharedRing::new(ring, sizes, ForkToken::current(), record(), faults).watched(queue);
        let scatter = [sge(7)];
        for _ in 0..2 {
            let request = RecvRequest {
                wr_id: 0,
                scatter: &scatter,
            };
            ring.put(&request).unwrap();
        }
        ring.submit().unwrap();
        let expected = [(0, "RECEIVE", number(1)), (1, "RECEIVE", number(2))];
        assert_eq!(reported(&collector, "next"), expected, "{faults}");
    }
}

/// Writes an entry as the device does.
fn write(ring: &CqRing, position: u64, words: [u64; 8]) {
    let first = ring.first(position);
    for (unit, pair) in (0..).zip(words.as_chunks::<2>().0) {
        ring.units.put(first + unit, pair.map(u64::to_be));
    }
}

#[test]
fn completions_are_reported_when_they_are_taken() {
    for size in [64, 128] {
        let ring = Arc::new(
            CqRing::alone(2, size, 0)
                .unwrap()
                .compressed(Some(Results::Hash)),
        );
        let (collector, queue) = watched(QueueKind::Completion);
        let shared = CqShared::new(&ring);
        let mut consumer = Consumer::new(&shared, &Arc::default(), false).watched(queue);
        // Of no queue: it is skipped, but reported nevertheless.
        write(&ring, 0, [0, 0, 0, 0, 9 << 32, 11, 0, 0x20]);
        consumer.report();
        assert_eq!(collector.take(), [], "not taken");
        assert_eq!(consumer.next(), Ok(None));
        consumer.report();
        consumer.report();
        let came = |index, length| (index, "RESP_SEND", number(length));
        assert_eq!(reported(&collector, "byte_count"), [came(0, 11)], "{size}");
        // A compressed entry of two: as the device wrote it, and expanded.
        write(&ring, 1, [0, 0, 0, 0, 9 << 32, 2, 0, 0x2c]);
        let minis = [21, 22, 0, 0, 0, 0, 0, 0];
        write(&ring, 2, minis);
        assert_eq!(consumer.next(), Ok(None));
        consumer.report();
        let mut entries = collector.take();
        let title = entries.remove(0);
        assert_eq!((title.index, title.kind), (1, "RESP_SEND"));
        let of_title: Vec<_> = title
            .fields
            .iter()
            .filter(|(name, _)| *name == "mini")
            .map(|(_, value)| value.clone())
            .collect();
        let element = |length: u64| Value::Bytes(length.to_be_bytes().to_vec());
        assert_eq!(of_title, [element(21), element(22)]);
        assert_eq!(title.fields[0].1, Value::Number(2));
        let lengths: Vec<_> = entries
            .iter()
            .map(|entry| (entry.index, &entry.fields[0].1))
            .collect();
        let length = Value::Number;
        assert_eq!(lengths, [(1, &length(21)), (2, &length(22))]);
    }
}

#[test]
fn a_message_inside_its_completion_is_reported_with_it() {
    let ring = Arc::new(CqRing::alone(2, 128, 0).unwrap());
    let shared = CqShared::new(&ring);
    let (collector, queue) = watched(QueueKind::Completion);
    let mut consumer = Consumer::new(&shared, &Arc::default(), false).watched(queue);
    // The whole block in front of the entry is for the message; then an entry without one.
    for (position, form) in [(0, 0x28), (1, 0x20)] {
        write(&ring, position, [0, 0, 0, 0, 9 << 32, 64, 0, form]);
    }
    assert_eq!(consumer.next(), Ok(None));
    consumer.report();
    let lengths: Vec<_> = collector
        .take()
        .iter()
        .map(|entry| entry.bytes.len())
        .collect();
    assert_eq!(lengths, [128, 64]);
}
