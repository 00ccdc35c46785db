//! A device in miniature writes entries into a ring; what polling makes of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use uverbs_driver::types::{WcFlags, WcOpcode, WcStatus};

use super::*;
use crate::table::Owner;
use crate::tracker::{Receives, RecvTracker};

const QPN: u32 = 0x1234;

struct Device {
    consumer: Consumer,
    trackers: Arc<Trackers>,
    /// The next entry that the device writes.
    produced: u64,
}

impl Device {
    fn new(log: u32, size: u32) -> Self {
        let ring = Arc::new(CqRing::new(log, size, 0).unwrap());
        let trackers = Arc::<Trackers>::default();
        Self {
            consumer: Consumer::new(&ring, &trackers, false),
            trackers,
            produced: 0,
        }
    }

    fn pair(&self, recv: Receives) -> (u32, Arc<QueuePairTracker>) {
        let pair = Arc::new(QueuePairTracker::new(8, recv));
        pair.set_number(QPN);
        let number = self.trackers.add(Owner::QueuePair(Arc::clone(&pair)));
        (number.unwrap(), pair)
    }

    /// Writes an entry as the device does: the byte that says it is there comes last.
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
        ring.units.set_word(first + 3, 1, tail.to_be());
        self.produced += 1;
    }

    fn poll(&mut self) -> Option<WorkCompletion> {
        self.consumer.next().unwrap()
    }
}

const NOTHING: [u64; 6] = [0; 6];

#[test]
fn requests_come_back_through_many_turns_of_the_ring() {
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
            done.invalidated.map(uverbs_driver::types::RemoteKey::raw)
        ),
        (7, Some(0x505))
    );
}

#[test]
fn errors_have_both_their_words() {
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
fn f25_a_former_life_and_a_queue_that_is_gone_are_passed_over() {
    let mut device = Device::new(3, 64);
    let shared = Arc::new(crate::tracker::SrqTracker::new(4));
    let (number, pair) = device.pair(Receives::Shared(Arc::clone(&shared)));
    shared.posted(2, 40);
    pair.send.posted(0, 1, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    device.write(opcode::RECEIVE, number, 2, NOTHING);
    pair.restart(device.produced, device.produced);
    pair.send.posted(0, 2, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 2);
    let mut free = Vec::new();
    shared.take_free(|index| free.push(index));
    assert_eq!(free, [2], "its receive goes back to the shared queue");

    shared.posted(3, 41);
    device.write(opcode::RECEIVE, number, 3, NOTHING);
    device.trackers.remove(number);
    assert_eq!(device.poll(), None);
    shared.take_free(|index| free.push(index));
    assert_eq!(free, [2, 3], "also when nobody is left");
}

#[test]
fn a_new_queue_with_an_old_number_is_another_one() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::None);
    pair.send.posted(0, 7, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 7);
    device.trackers.remove(number);
    let (other, pair) = device.pair(Receives::None);
    pair.send.posted(1, 8, 1, WcOpcode::Send);
    device.write(opcode::REQUEST, other, 1, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 8);
}

#[test]
fn f24_an_impossible_entry_is_told_once() {
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

/// Polls as its user asks: one by one through the short way, the long way, or as many at once.
fn polled(device: &mut Device, way: usize) -> Vec<Result<WorkCompletion, PollError>> {
    let mut results = Vec::new();
    loop {
        let consumer = &mut device.consumer;
        let result = match way {
            0 => consumer.next(),
            1 => match consumer.take_usual() {
                Next::Usual(done) => Ok(Some(done)),
                Next::Other => consumer.next(),
                Next::None => Ok(None),
            },
            slots => {
                // What was in the slots before must not show.
                let mut out = vec![GARBAGE; slots - 1];
                match consumer.fill(&mut out) {
                    Ok(0) => Ok(None),
                    Ok(count) => {
                        results.extend(out.into_iter().take(count).map(Ok));
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match result {
            Ok(None) => return results,
            Ok(Some(done)) => results.push(Ok(done)),
            Err(error) => results.push(Err(error)),
        }
    }
}

const GARBAGE: WorkCompletion = WorkCompletion {
    wr_id: u64::MAX,
    status: WcStatus::General,
    opcode: WcOpcode::Driver3,
    vendor_err: 1,
    byte_len: 2,
    imm: Some(3),
    invalidated: Some(uverbs_driver::types::RemoteKey::from_raw(4)),
    qp_num: 5,
    src_qp: 6,
    flags: WcFlags::all(),
    pkey_index: 7,
    slid: 8,
    sl: 9,
    dlid_path_bits: 10,
};

/// Lets a device write entries of these kinds, about these queues and requests, and polls them in one of the ways.
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
            let (number, pair) = &pairs[queue as usize % pairs.len()];
            // Some are not under way.
            let after = pair.sent_tail() + u32::from(counter % 5);
            let opcode = WcOpcode::from_raw(u32::from(counter / 8 % 8));
            let wr_id = u64::from(after) + 1000;
            pair.send.posted((counter & 7).into(), wr_id, after, opcode);
            if turn == 3 && counter == 0 {
                pair.restart(device.produced, device.produced);
            }
            device.write(kind, *number, counter, middle);
        }
        results.extend(polled(&mut device, way));
        if turn == 5 {
            device.trackers.remove(pairs[0].0);
        }
    }
    results
}

proptest! {
    /// One by one or many at once, over any entries: the same completions, and the same complaints.
    #[test]
    fn f24_all_ways_of_polling_agree(
        long: bool,
        script in proptest::collection::vec(
            (prop_oneof![3 => Just(0), 2 => Just(2), 1 => 0..16_u32], 0..3_u32, 0..64_u16, any::<[u64; 6]>()),
            0..40,
        ),
        slots in 1..6_usize,
    ) {
        let size = if long { 128 } else { 64 };
        let all = play(size, &script, 0);
        prop_assert_eq!(&all, &play(size, &script, 1));
        prop_assert_eq!(&all, &play(size, &script, 1 + slots));
    }

    /// Whatever bytes the device writes: no panic, an end, and no memory taken for numbers that nobody has.
    #[test]
    fn f24_any_bytes_can_be_polled(words in proptest::collection::vec(any::<u64>(), 64), by_device: bool) {
        let ring = Arc::new(CqRing::new(3, 64, 0).unwrap());
        let trackers = Arc::<Trackers>::default();
        let mut consumer = Consumer::new(&ring, &trackers, by_device);
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
