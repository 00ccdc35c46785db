//! A miniature device that writes completions one by one, or several as one; polling must give the
//! same results.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use uverbs_core::PollError;
use uverbs_core::types::{WcOpcode, WorkCompletion};

use super::*;
use crate::cq::poll::{Consumer, Own, Usual};
use crate::cqe::CqShared;
use crate::tracker::table::{Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, RecvTracker};

const QPN: u32 = 0x321;
/// log₂ of the ring.
const LOG: u32 = 5;
const RING: u32 = 1 << LOG;

/// A ring and the state of its queue pair, number 0.
struct Device {
    ring: Arc<CqRing>,
    consumer: Consumer,
    pair: Arc<QueuePairTracker>,
    produced: u64,
    requests: u32,
    messages: u32,
}

impl Device {
    fn new(size: u32, results: Option<Results>) -> Self {
        let ring = CqRing::alone(LOG, size, 3).unwrap().compressed(results);
        let ring = Arc::new(ring);
        let trackers = Arc::<Trackers>::default();
        let recv = Receives::Own(RecvTracker::new(RING));
        let pair = Arc::new(QueuePairTracker::new(RING, recv));
        pair.set_number(QPN);
        trackers.add(Owner::QueuePair(Arc::clone(&pair))).unwrap();
        Self {
            consumer: Consumer::new(&CqShared::new(&ring), &trackers, false),
            ring,
            pair,
            produced: 0,
            requests: 0,
            messages: 0,
        }
    }

    /// The entry of the next request, a read of `length` bytes, or of the next message.
    fn entry(&mut self, request: bool, length: u32) -> Words {
        let (kind, counter) = if request {
            let index = self.requests % RING;
            self.requests += 1;
            let wr_id = u64::from(self.requests) << 8;
            self.pair
                .send
                .posted(index, wr_id, self.requests, WcOpcode::RdmaRead);
            (opcode::REQUEST, index)
        } else {
            let Receives::Own(queue) = &self.pair.recv else {
                panic!("a queue of its own");
            };
            queue.posted(self.messages % RING, self.messages.into());
            self.messages += 1;
            (opcode::RECEIVE, self.messages - 1)
        };
        let mut words = [0; 8];
        words[1] = u64::from(!length);
        words[3] = 0x777 << 32;
        words[4] = 9;
        words[LENGTH] = length.into();
        words[6] = 55;
        words[TAIL] = u64::from(0x10 << 24 | QPN) << 32
            | u64::from(counter & 0xffff) << 16
            | u64::from(kind) << 4;
        words
    }

    fn write_all(&self, position: u64, words: &Words) {
        let first = self.ring.first(position);
        for (unit, pair) in (0..).zip(words.as_chunks::<2>().0) {
            self.ring.units.put(first + unit, pair.map(u64::to_be));
        }
    }

    /// Writes entries that have everything in common; several become one compressed entry.
    fn write(&mut self, entries: &[Words], compress: bool) {
        let owner = |position| u64::from(self.ring.owner(self.ring.place(position)));
        let start = self.produced;
        self.produced += entries.len() as u64;
        if !compress || entries.len() < 2 {
            for (position, words) in (start..).zip(entries) {
                let mut words = *words;
                words[TAIL] |= owner(position);
                self.write_all(position, &words);
            }
            return;
        }
        let mini = |words: &Words| {
            let tail = Tail(words[TAIL]);
            let other = if tail.opcode() == opcode::REQUEST {
                u64::from(tail.counter()) << 16 | words[TAIL] >> 56 << 8
            } else {
                words[1] & 0xffff_ffff
            };
            other << 32 | words[LENGTH]
        };
        for (group, eight) in (0_u64..).zip(entries.chunks(8)) {
            // The unused part of an array has its former contents.
            let mut minis = [u64::MAX; 8];
            for (slot, words) in minis.iter_mut().zip(eight) {
                *slot = mini(words);
            }
            self.write_all(start + (group * 8).max(1), &minis);
        }
        let mut title = entries[0];
        title[LENGTH] = entries.len() as u64;
        title[TAIL] |= u64::from(format::COMPRESSED) << 2 | owner(start);
        self.write_all(start, &title);
    }

    /// All completions, polled in one of the ways.
    fn poll(&mut self, way: usize) -> Vec<WorkCompletion> {
        let mut all = Vec::new();
        loop {
            let mut out = vec![WorkCompletion::default(); way.max(1)];
            let count = match way {
                0 => match self.consumer.take_usual() {
                    Usual::Taken(done) => {
                        out[0] = done;
                        1
                    }
                    Usual::None => 0,
                    Usual::Other => {
                        out[0] = self.consumer.next().unwrap().unwrap();
                        1
                    }
                },
                _ => self.consumer.fill::<Own, _>(&mut out).unwrap(),
            };
            if count == 0 {
                return all;
            }
            all.extend(out.into_iter().take(count));
        }
    }
}

/// Runs of completions of one kind: whether of requests, and how many. All are written before any
/// is polled.
type Turn = Vec<(bool, u32)>;

fn play(
    size: u32,
    results: Results,
    script: &[Turn],
    compress: bool,
    way: usize,
) -> Vec<WorkCompletion> {
    let mut device = Device::new(size, compress.then_some(results));
    let mut all = Vec::new();
    for turn in script {
        let mut room = RING;
        for &(request, count) in turn {
            let count = count.min(room);
            room -= count;
            let entries: Vec<Words> = (0..count)
                .map(|_| {
                    let length = 100 + device.requests + device.messages;
                    device.entry(request, length)
                })
                .collect();
            device.write(&entries, compress);
        }
        all.extend(device.poll(way));
        assert_eq!(device.consumer.position(), device.produced);
    }
    all
}

proptest! {
    #[test]
    fn compressed_entries_are_polled_like_uncompressed_ones(
        long: bool,
        hash: bool,
        script in prop::collection::vec(prop::collection::vec((any::<bool>(), 0..=RING), 1..4), 1..12),
        way in 0..7_usize,
    ) {
        let size = if long { 128 } else { 64 };
        let results = if hash { Results::Hash } else { Results::Checksum };
        let expected = play(size, results, &script, false, 0);
        prop_assert_eq!(play(size, results, &script, true, way), expected);
    }

    /// Whatever the device writes, polling does not panic and comes to an end.
    #[test]
    fn f24_any_arrays_can_be_polled(
        words in prop::collection::vec(any::<[u64; 8]>(), RING as usize),
        titles in prop::collection::vec((0..RING, 0..40_u64, 0..16_u64), 0..8),
        long: bool,
    ) {
        let mut device = Device::new(if long { 128 } else { 64 }, Some(Results::Checksum));
        for (position, words) in (0..).zip(&words) {
            device.write_all(position, words);
        }
        for (at, count, kind) in titles {
            let mut title = [0; 8];
            title[LENGTH] = count;
            title[TAIL] = kind << 4 | 3 << 2;
            device.write_all(at.into(), &title);
        }
        let mut polls = 0;
        loop {
            let before = device.consumer.position();
            let done = device.consumer.next();
            let stays = device.consumer.position() == before;
            if stays || matches!(done, Ok(None)) {
                prop_assert!(!matches!(done, Ok(Some(_))));
                break;
            }
            polls += 1;
            prop_assert!(polls <= 2 * RING, "no more than two turns");
        }
        for position in 0..RING.into() {
            if let Some(tail) = device.ring.tail(position) {
                let count = device.ring.stands_for(position, tail);
                prop_assert!((1..=RING.into()).contains(&count));
            }
        }
    }
}

#[test]
fn expansion_writes_all_entries_that_the_title_stands_for() {
    let mut device = Device::new(64, Some(Results::Hash));
    let entries: Vec<Words> = (0..11).map(|at| device.entry(false, at)).collect();
    device.write(&entries, true);
    let tail = device.ring.tail(0).unwrap();
    assert_eq!(device.ring.stands_for(0, tail), 11);
    assert!(device.ring.expand(0));
    assert_eq!(
        device.ring.stands_for(0, tail),
        1,
        "asked by one who saw the title"
    );
    for (position, expected) in (0_u64..).zip(&entries) {
        let words = device.ring.words(position);
        let owner = u64::from(device.ring.owner(device.ring.place(position)));
        assert_eq!(words[TAIL], expected[TAIL] | owner);
        assert_eq!(words[..TAIL], expected[..TAIL]);
    }
    assert!(device.ring.tail(11).is_none());
    assert!(!device.ring.expand(0), "it is none any more");
}

#[test]
fn sums_take_the_place_of_hashes() {
    let mut device = Device::new(64, Some(Results::Checksum));
    let mut entries: Vec<Words> = (0..2).map(|at| device.entry(false, at)).collect();
    entries[0][1] = 0xabcd_0000;
    entries[1][1] = 0x1234_5678;
    device.write(&entries, true);
    assert!(device.ring.expand(0));
    let sums = [0, 1].map(|at| {
        (
            device.ring.words(at)[1],
            device.ring.words(at)[2] >> 16 & 0xffff,
        )
    });
    assert_eq!(sums, [(0, 0xabcd), (0, 0x1234)]);
}

#[test]
fn f24_impossible_titles_are_reported() {
    for (count, kind) in [
        (0, opcode::RECEIVE),
        (1, opcode::RECEIVE),
        (RING + 1, opcode::RECEIVE),
        (u32::MAX, opcode::REQUEST),
        (2, opcode::REQUEST_ERROR),
        (2, opcode::RESIZE),
    ] {
        let mut device = Device::new(64, Some(Results::Hash));
        let entries: Vec<Words> = (0..3).map(|at| device.entry(false, at)).collect();
        device.write(&entries[..1], true);
        device.write(&entries[1..], true);
        let mut title = device.ring.words(1);
        title[LENGTH] = count.into();
        title[TAIL] = title[TAIL] & !0xf0 | u64::from(kind) << 4;
        device.write_all(1, &title);
        let mut out = [WorkCompletion::default(); 4];
        assert_eq!(device.consumer.fill::<Own, _>(&mut out), Ok(1));
        for _ in 0..3 {
            assert_eq!(
                device.consumer.fill::<Own, _>(&mut out),
                Err(PollError::Corrupt),
                "{count} {kind}"
            );
            assert_eq!(
                device.consumer.next(),
                Err(PollError::Corrupt),
                "{count} {kind}"
            );
        }
        assert_eq!(
            device.consumer.position(),
            1,
            "where the next one is, nobody knows"
        );
    }
}

/// A compressed entry in a queue without compression is malformed, like other such entries.
#[test]
fn f24_an_unexpected_title_is_reported_once() {
    let mut device = Device::new(64, None);
    let entries: Vec<Words> = (0..2).map(|at| device.entry(false, at)).collect();
    device.write(&entries, true);
    assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    assert_eq!(device.consumer.position(), 1);
}

#[test]
fn a_compressed_entry_stands_for_as_many_as_it_says() {
    let mut device = Device::new(64, Some(Results::Checksum));
    let mut entries: Vec<_> = (0..3).map(|_| device.entry(true, 8)).collect();
    device.write(&entries, true);
    let tail = device.ring.tail(0).unwrap();
    assert_eq!(device.ring.stands_for(0, tail), 3);
    // The other half of the word says something else.
    entries[0][LENGTH] = 9 << 32 | 3;
    entries[0][TAIL] |= u64::from(format::COMPRESSED) << 2;
    device.write_all(0, &entries[0]);
    let tail = device.ring.tail(0).unwrap();
    assert_eq!(device.ring.stands_for(0, tail), 3);
}

#[test]
fn a_stride_takes_the_place_of_a_counter() {
    let mut title = [0; 8];
    title[TAIL] = 0x1111 << 16 | 2 << 4 | 3 << 2;
    let mini = 0xc0de_0102_0000_0040;
    let words = one(&title, mini, 1, Results::ChecksumAndStride);
    assert_eq!(Tail(words[TAIL]).counter(), 0x0102);
    assert_eq!(words[2] >> 16 & 0xffff, 0xc0de);
    assert_eq!(words[LENGTH] & 0xffff_ffff, 0x40);
    let words = one(&title, mini, 1, Results::Checksum);
    assert_eq!(Tail(words[TAIL]).counter(), 0x1112);
}
