//! A miniature device writes entries into a ring, which are then polled.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::HashMap;

use proptest::prelude::*;
use uverbs_core::Op;
use uverbs_core::types::{WcFlags, WcOpcode, WcStatus};

use super::*;
use crate::sync::barrier;
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, Owner};
use crate::tracker::{Receives, RecvTracker, SrqTracker};

mod faults;
mod scattered;
mod ways;

use ways::{WAYS, polled};

const QPN: u32 = 0x1234;

struct Device {
    consumer: Consumer,
    shared: Arc<CqShared>,
    trackers: Arc<Trackers>,
    registered: HashMap<u32, Registered>,
    /// The next entry that the device writes.
    produced: u64,
}

impl Device {
    fn new(log: u32, size: u32) -> Self {
        let shared = CqShared::new(&Arc::new(CqRing::alone(log, size, 0).unwrap()));
        let trackers = Arc::<Trackers>::default();
        Self {
            consumer: Consumer::new(&shared, &trackers, false),
            shared,
            trackers,
            registered: HashMap::new(),
            produced: 0,
        }
    }

    fn pair(&mut self, recv: Receives) -> (u32, Arc<QueuePairTracker>) {
        self.enter(QueuePairTracker::new(8, recv))
    }

    /// Creates a queue pair.
    fn enter(&mut self, pair: QueuePairTracker) -> (u32, Arc<QueuePairTracker>) {
        let pair = Arc::new(pair);
        pair.set_number(QPN);
        pair.restart(self.shared.produced(), self.shared.produced());
        let owner = Owner::QueuePair(Arc::clone(&pair));
        let registered = Registered::new(Op::CreateQueuePair, &self.trackers, owner).unwrap();
        let registered = registered.created(Reports {
            sends: Some(Arc::clone(&self.shared)),
            receives: Some(Arc::clone(&self.shared)),
        });
        let number = registered.user_index();
        self.registered.insert(number, registered);
        (number, pair)
    }

    /// Removes the queue pair.
    fn remove(&mut self, number: u32) {
        self.registered.remove(&number).unwrap();
    }

    /// Writes an entry as the device does: the byte that makes it valid is written last.
    fn write(&mut self, kind: u32, user_index: u32, counter: u16, middle: [u64; 6]) {
        let ring = &self.consumer.ring;
        let first = ring.first(self.produced);
        ring.units.put(first, [0, 0]);
        ring.units
            .put(first + 1, [middle[0].to_be(), middle[1].to_be()]);
        let queue = u64::from(user_index) << 32 | middle[2];
        ring.units
            .put(first + 2, [queue.to_be(), middle[3].to_be()]);
        ring.units.set_word(first + 3, 0, middle[4].to_be());
        let owner = (ring.count(self.produced) / u64::from(ring.entries())) & 1;
        let tail = u64::from(QPN) << 32 | u64::from(counter) << 16 | u64::from(kind) << 4 | owner;
        // The request was written before the device read it, and the entry before its owner bit.
        barrier::to_device();
        ring.units.set_word(first + 3, 1, tail.to_be());
        self.produced += 1;
    }

    fn poll(&mut self) -> Option<WorkCompletion> {
        let done = self.consumer.next();
        self.shared.take(self.consumer.position());
        done.unwrap()
    }
}

const NOTHING: [u64; 6] = [0; 6];

#[test]
fn requests_complete_through_many_wraps_of_the_ring() {
    for size in [64, 128] {
        let mut device = Device::new(2, size);
        let (number, pair) = device.pair(Receives::None);
        for round in 0..40_u32 {
            assert_eq!(device.poll(), None);
            let index = round & 7;
            pair.send
                .posted(index, u64::from(round) + 100, round + 1, WcOpcode::RdmaRead);
            let counter = (round & 0xffff) as u16;
            device.write(opcode::REQUEST, number, counter, [0, 0, 0, 77, 0, 0]);
            let done = device.poll().unwrap();
            assert_eq!((done.wr_id, done.qp_num), (u64::from(round) + 100, QPN));
            assert_eq!((done.opcode, done.byte_len), (WcOpcode::RdmaRead, 77));
            assert_eq!(pair.sent_tail(), round + 1);
        }
    }
}

#[test]
fn messages_say_where_they_come_from() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::Own(RecvTracker::new(4)));
    let Receives::Own(queue) = &pair.recv else {
        panic!("a queue of its own");
    };
    queue.posted(0, 5);
    queue.posted(1, 6);
    queue.posted(2, 7);
    // Path bits 3, LID 0x21; a route, service level 4, queue pair 0x777; key slot 9; 64 bytes.
    let from = (1 << 28 | 4 << 24 | 0x777) << 32;
    device.write(
        opcode::RECEIVE,
        number,
        0,
        [3 << 48 | 0x21, from, 9, 64, 0, 0],
    );
    device.write(
        opcode::RECEIVE_WRITE_IMM,
        number,
        1,
        [0, 0, 0xabcd, 8, 0, 0],
    );
    device.write(
        opcode::RECEIVE_INVALIDATE,
        number,
        2,
        [0, 0, 0x505, 8, 0, 0],
    );
    let done = device.poll().unwrap();
    assert_eq!(
        (done.wr_id, done.src_qp, done.slid, done.sl),
        (5, 0x777, 0x21, 4)
    );
    assert_eq!(
        (done.dlid_path_bits, done.pkey_index, done.byte_len),
        (3, 9, 64)
    );
    assert_eq!(done.flags, WcFlags::GRH);
    let done = device.poll().unwrap();
    assert_eq!(
        (done.wr_id, done.imm, done.opcode),
        (6, Some(0xabcd), WcOpcode::RecvRdmaWithImm)
    );
    let done = device.poll().unwrap();
    assert_eq!(
        (
            done.wr_id,
            done.invalidated.map(uverbs_core::types::RemoteKey::raw)
        ),
        (7, Some(0x505))
    );
}

#[test]
fn errors_have_their_syndrome_and_its_text() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::None);
    pair.send.posted(3, 9, 1, WcOpcode::RdmaWrite);
    device.write(opcode::REQUEST_ERROR, number, 3, [0, 0, 0, 0, 0x8813, 0]);
    let done = device.poll().unwrap();
    assert_eq!(
        (done.wr_id, done.status, done.vendor_err),
        (9, WcStatus::RemoteAccess, 0x88)
    );
}

#[test]
fn f25_entries_of_former_incarnations_and_destroyed_queue_pairs_are_skipped() {
    let mut device = Device::new(3, 64);
    let shared = Arc::new(SrqTracker::new(4));
    let (number, pair) = device.pair(Receives::Shared(Arc::clone(&shared)));
    shared.post(2, 40);
    pair.send.posted(0, 1, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    device.write(opcode::RECEIVE, number, 2, NOTHING);
    pair.restart(device.produced, device.produced);
    pair.send.posted(0, 2, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 2);
    assert_eq!(
        shared.taken(),
        (vec![2], vec![40]),
        "its receive goes back to the shared queue"
    );

    shared.post(3, 41);
    device.write(opcode::RECEIVE, number, 3, NOTHING);
    device.remove(number);
    assert_eq!(device.poll(), None);
    assert_eq!(
        shared.taken(),
        (vec![3], vec![41]),
        "also when nobody is left"
    );
}

#[test]
fn the_entry_after_a_skipped_one_is_found_through_many_wraps_of_the_ring() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::None);
    for round in 0..20 {
        for wr_id in [2 * round, 2 * round + 1] {
            pair.restart(device.produced, device.produced);
            pair.send.posted(0, wr_id, 1, WcOpcode::Send);
            device.write(opcode::REQUEST, number, 0, NOTHING);
        }
        assert_eq!(device.poll().map(|done| done.wr_id), Some(2 * round + 1));
    }
}

#[test]
fn a_new_queue_with_an_old_number_is_another_one() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::None);
    pair.send.posted(0, 7, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 7);
    device.remove(number);
    let (other, pair) = device.pair(Receives::None);
    pair.send.posted(1, 8, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, other, 1, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 8);
}

/// A poller that remembered the queue pair as gone skipped entries of the next one with its number.
#[test]
fn a_tombstone_is_dropped_when_its_number_is_reused() {
    let mut device = Device::new(3, 64);
    let queues = [(); 2].map(|()| Arc::new(SrqTracker::new(4)));
    let (number, _) = device.pair(Receives::Shared(Arc::clone(&queues[0])));
    queues[0].post(2, 40);
    device.write(opcode::RECEIVE, number, 2, NOTHING);
    device.remove(number);
    assert_eq!(device.poll(), None);
    assert!(device.consumer.owners.known.len() > number as usize);
    // Some number is reused, sooner or later this one.
    for round in 0.. {
        let (other, pair) = device.pair(Receives::Shared(Arc::clone(&queues[1])));
        queues[1].post(round & 3, 7);
        pair.send.posted(1, 8, 1, WcOpcode::Send);
        device.write(opcode::REQUEST, other, 1, NOTHING);
        device.write(opcode::RECEIVE, other, (round & 3) as u16, NOTHING);
        assert_eq!(device.poll().map(|done| done.wr_id), Some(8));
        assert_eq!(device.poll().map(|done| done.wr_id), Some(7));
        assert_eq!(queues[1].taken(), (vec![round & 3], vec![]));
        if other == number {
            break;
        }
        assert!(round < 10_000);
    }
}

/// Entries of a queue pair that is gone free nothing in the shared queue of the next one with its
/// number, and complete none of its requests.
#[test]
fn entries_of_a_destroyed_queue_pair_are_not_those_of_its_successor() {
    let mut device = Device::new(3, 64);
    let queues = [(); 2].map(|()| Arc::new(SrqTracker::new(4)));
    for queue in &queues {
        queue.post(2, 40);
    }
    let (number, _) = device.pair(Receives::Shared(Arc::clone(&queues[0])));
    device.write(opcode::RECEIVE, number, 2, NOTHING);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    device.remove(number);
    let mut pairs = Vec::new();
    for _ in 0..10 {
        let (_, pair) = device.pair(Receives::Shared(Arc::clone(&queues[1])));
        pair.send.posted(0, 9, 1, WcOpcode::Send);
        pairs.push(pair);
    }
    assert_eq!(device.poll(), None);
    assert_eq!(queues[0].taken(), (vec![2], vec![40]));
    assert_eq!(queues[1].taken(), (vec![], vec![]));
    assert!(pairs.iter().all(|pair| pair.sent_tail() == 0));
}

/// Requests whose entries were not polled go back when the completion queue is destroyed, once, and
/// this is reported.
#[test]
fn receives_left_in_a_destroyed_completion_queue_are_returned() {
    let mut device = Device::new(2, 64);
    let queue = Arc::new(SrqTracker::new(8));
    for index in 0..6 {
        queue.post(index, u64::from(index) + 40);
    }
    let left = Left::new(&device.shared, &device.trackers, false, ());
    let (first, _) = device.pair(Receives::Shared(Arc::clone(&queue)));
    let (second, _) = device.pair(Receives::Shared(Arc::clone(&queue)));
    for (number, index) in [(first, 0), (second, 1), (first, 2), (second, 3)] {
        device.write(opcode::RECEIVE, number, index, NOTHING);
    }
    assert_eq!(device.poll().unwrap().wr_id, 40);
    device.remove(first);
    // Taken by the poller: nothing that continues takes it a second time.
    drop(left);
    device.remove(second);
    let mut reported = Vec::new();
    queue.take_unreported(|wr_id| reported.push(wr_id));
    assert_eq!(reported, [41, 42, 43]);
    assert_eq!(queue.taken(), (vec![0, 1, 2, 3], vec![]));
    let again = device.pair(Receives::None).0;
    assert!(again == first || again == second, "no number rests");
}

/// A device that completes requests that are not under way.
#[test]
fn completions_of_requests_that_are_not_posted_are_errors() {
    let mut device = Device::new(3, 64);
    let queue = Arc::new(SrqTracker::new(4));
    let (number, _) = device.pair(Receives::Shared(Arc::clone(&queue)));
    let (gone, _) = device.pair(Receives::Shared(Arc::clone(&queue)));
    queue.post(1, 40);
    queue.post(2, 41);
    device.write(opcode::RECEIVE, gone, 2, NOTHING);
    device.write(opcode::RECEIVE, gone, 2, NOTHING);
    device.remove(gone);
    for index in [1, 1, 3, 4] {
        device.write(opcode::RECEIVE, number, index, NOTHING);
    }
    // The first entry of a queue that is gone is skipped.
    assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    assert_eq!(device.poll().unwrap().wr_id, 40);
    for _ in 0..3 {
        assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    }
    assert_eq!(queue.taken(), (vec![1, 2], vec![41]));
    // Once taken back, they are as if never posted.
    device.write(opcode::RECEIVE, number, 1, NOTHING);
    assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    assert_eq!(queue.taken(), (vec![], vec![]));
}

/// A device that keeps writing entries that are to be skipped. It is driven by the requests given
/// back to the shared queue, which show that an entry was skipped; the poller, which looks in the
/// table each time, is slower.
#[test]
fn a_device_that_never_stops_blocks_no_poller() {
    const LOG: u32 = 6;
    const ENTRIES: u32 = 1 << LOG;
    const MANY: u64 = if cfg!(miri) { 500 } else { 20_000 };
    let mut device = Device::new(LOG, 64);
    let (shared, trackers) = (Arc::clone(&device.shared), Arc::clone(&device.trackers));
    let mut consumer = Consumer::new(&shared, &trackers, true);
    let queue = Arc::new(SrqTracker::new(ENTRIES));
    let recv = Receives::Shared(Arc::clone(&queue));
    let owner = Owner::QueuePair(Arc::new(QueuePairTracker::new(0, recv)));
    let reports = Reports {
        sends: None,
        receives: Some(Arc::clone(&shared)),
    };
    let number = DeviceNumber::QueuePair(QPN);
    let op = Op::CreateQueuePair;
    let gone = Registered::by_device(op, &trackers, number, owner, reports).unwrap();
    for index in 0..ENTRIES {
        queue.post(index, 1);
        device.write(opcode::RECEIVE, 0, index as u16, NOTHING);
    }
    drop(gone);
    let most = std::thread::scope(|scope| {
        scope.spawn(|| {
            while device.produced < MANY {
                for index in queue.taken().0 {
                    queue.post(index, 1);
                    device.write(opcode::RECEIVE, 0, index as u16, NOTHING);
                }
            }
        });
        let mut most = 0;
        while consumer.position() < MANY {
            let before = consumer.position();
            assert_eq!(consumer.next(), Ok(None));
            most = most.max(consumer.position() - before);
        }
        most
    });
    assert_eq!(most, ENTRIES.into(), "a full ring, and no more at once");
}

#[test]
fn f24_an_impossible_entry_is_reported_once() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::None);
    device.write(opcode::RECEIVE, number, 0, NOTHING);
    device.write(9, number, 0, NOTHING);
    pair.send.posted(0, 3, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    assert_eq!(device.poll().unwrap().wr_id, 3);
}

const GARBAGE: WorkCompletion = WorkCompletion {
    wr_id: u64::MAX,
    status: WcStatus::General,
    opcode: WcOpcode::Driver3,
    vendor_err: 1,
    byte_len: 2,
    imm: Some(3),
    invalidated: Some(uverbs_core::types::RemoteKey::from_raw(4)),
    qp_num: 5,
    src_qp: 6,
    flags: WcFlags::all(),
    pkey_index: 7,
    slid: 8,
    sl: 9,
    dlid_path_bits: 10,
};

/// Makes a device write entries of these kinds, for these queues and requests, and polls them in
/// one of the ways.
fn play(
    size: u32,
    script: &[(u32, u32, u16, [u64; 6])],
    way: usize,
) -> Vec<Result<WorkCompletion, PollError>> {
    let mut device = Device::new(2, size);
    let pairs = [
        Receives::None,
        Receives::Own(RecvTracker::new(4)),
        Receives::Own(RecvTracker::new(2)),
    ]
    .map(|recv| device.pair(recv));
    let mut results = Vec::new();
    for (turn, four) in script.chunks(4).enumerate() {
        for &(kind, queue, counter, middle) in four {
            let which = queue as usize % pairs.len();
            let (number, pair) = &pairs[which];
            // Some are not under way.
            let after = pair.sent_tail() + u32::from(counter % 5);
            let opcode = WcOpcode::from_raw(u32::from(counter / 8 % 8));
            let wr_id = u64::from(after) + [1000, 2000, 3000][which];
            pair.send.posted((counter & 7).into(), wr_id, after, opcode);
            if turn == 3 && counter == 0 {
                pair.restart(device.produced, device.produced);
            }
            device.write(kind, *number, counter, middle);
        }
        results.extend(polled(&mut device, way));
        if turn == 5 {
            device.remove(pairs[0].0);
        }
    }
    results
}

#[test]
fn completions_of_two_queue_pairs_are_told_apart() {
    for way in 0..WAYS {
        let mut device = Device::new(3, 64);
        let pairs = [Receives::None, Receives::None].map(|recv| device.pair(recv));
        for round in 0..20_u16 {
            let wr_ids = [2, 3].map(|at| 2 * u64::from(round) + at);
            for ((number, pair), wr_id) in pairs.iter().zip(wr_ids) {
                let (index, end) = (u32::from(round & 7), u32::from(round) + 1);
                pair.send.posted(index, wr_id, end, WcOpcode::Send);
                device.write(opcode::REQUEST, *number, round, NOTHING);
            }
            let done = polled(&mut device, way);
            let done: Vec<_> = done.into_iter().map(|done| done.unwrap().wr_id).collect();
            assert_eq!(done, wr_ids, "way {way}");
        }
    }
}

proptest! {
    /// One by one or many at once, for arbitrary entries: the same completions, and the same
    /// errors.
    #[test]
    fn f24_all_ways_of_polling_agree(
        long: bool,
        script in proptest::collection::vec(
            (prop_oneof![3 => Just(0), 2 => Just(2), 1 => 0..16_u32], 0..3_u32, 0..64_u16, any::<[u64; 6]>()),
            0..40,
        ),
        way in 1..WAYS,
    ) {
        let size = if long { 128 } else { 64 };
        let all = play(size, &script, 0);
        prop_assert_eq!(&all, &play(size, &script, way));
    }

    /// Whatever bytes the device writes: no panic, polling comes to an end, and no memory is
    /// allocated for unused numbers.
    #[test]
    fn f24_any_bytes_can_be_polled(words in proptest::collection::vec(any::<u64>(), 64), by_device: bool) {
        let ring = Arc::new(CqRing::alone(3, 64, 0).unwrap());
        let trackers = Arc::<Trackers>::default();
        let mut consumer = Consumer::new(&CqShared::new(&ring), &trackers, by_device);
        for recv in [Receives::None, Receives::Own(RecvTracker::new(2))] {
            let pair = Arc::new(QueuePairTracker::new(4, recv));
            trackers.add(Owner::QueuePair(pair));
        }
        for (at, pair) in (0_u32..).zip(words.as_chunks::<2>().0) {
            ring.units.put(at, *pair);
        }
        let mut polls = 0;
        while !matches!(consumer.next(), Ok(None)) {
            polls += 1;
            prop_assert!(polls <= 16, "a ring of 8 has no more than two turns in it");
        }
        prop_assert!(consumer.owners.known.len() <= 2);
    }
}

/// Bytes 24 to 31 of an entry: both checksums correct, of an IPv4 packet.
const RIGHT: u64 = 6 << 24 | 2 << 18;

#[test]
fn checksums_are_reported_only_by_queues_that_check_them() {
    for checked in [false, true] {
        for (headers, right) in [
            (RIGHT, true),
            (RIGHT ^ 2 << 24, false),
            (RIGHT ^ 1 << 18, false),
        ] {
            let mut device = Device::new(3, 64);
            let tracker = QueuePairTracker::new(8, Receives::Own(RecvTracker::new(4)));
            let tracker = if checked {
                tracker.checksummed()
            } else {
                tracker
            };
            let number = device
                .trackers
                .add(Owner::QueuePair(Arc::new(tracker)))
                .unwrap();
            let mut flags = Vec::new();
            let write = |device: &mut Device| {
                device.write(opcode::RECEIVE, number, 0, [0, headers, 0, 64, 0, 0]);
            };
            // One found by the slow path, one of a known queue, and one of many.
            write(&mut device);
            flags.push(device.poll().unwrap().flags);
            write(&mut device);
            match device.consumer.take_usual() {
                Usual::Taken(done) => flags.push(done.flags),
                other => panic!("{other:?}"),
            }
            write(&mut device);
            let mut slots = [WorkCompletion::default(); 2];
            assert_eq!(device.consumer.fill::<Own, _>(&mut slots), Ok(1));
            flags.push(slots[0].flags);
            let expected = if checked && right {
                WcFlags::IP_CSUM_OK
            } else {
                WcFlags::empty()
            };
            assert_eq!(flags, [expected; 3], "{headers:#x}");
        }
    }
}

/// `enum mlx5_err_cqe_syndrome` and `mlx5_handle_error_cqe`.
#[test]
fn every_syndrome_has_its_status() {
    let known = [
        (0x01, WcStatus::LocalLength),
        (0x02, WcStatus::LocalQpOperation),
        (0x04, WcStatus::LocalProtection),
        (0x05, WcStatus::Flushed),
        (0x06, WcStatus::MwBind),
        (0x10, WcStatus::BadResponse),
        (0x11, WcStatus::LocalAccess),
        (0x12, WcStatus::RemoteInvalidRequest),
        (0x13, WcStatus::RemoteAccess),
        (0x14, WcStatus::RemoteOperation),
        (0x15, WcStatus::RetryExceeded),
        (0x16, WcStatus::RnrRetryExceeded),
        (0x22, WcStatus::RemoteAborted),
    ];
    for syndrome in 0..=u8::MAX {
        let expected = known.iter().find(|(number, _)| *number == syndrome);
        let expected = expected.map_or(WcStatus::General, |(_, status)| *status);
        assert_eq!(crate::cqe::status(syndrome), expected, "{syndrome:#x}");
    }
}
