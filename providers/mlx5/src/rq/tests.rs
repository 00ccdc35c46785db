#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use uverbs_core::Op;
use uverbs_core::hw::{PagePool, Pages, Part, Records};
use uverbs_core::types::{LocalKey, Sge};

use super::*;
use crate::tests::{bytes_of, shorter};
use crate::tracker::RecvTracker;
use crate::tracker::Request;

struct Queue {
    ring: ReceiveRing,
    record: Arc<Record>,
    tracker: Arc<QueuePairTracker>,
    sizes: sizes::Receive,
}

impl ReceiveRing {
    /// The receives that the device was told of.
    pub(crate) fn handed_over(&self) -> u32 {
        self.record.load(0)
    }
}

fn queue(max_wr: u32, max_sge: u32) -> Queue {
    let limits = sizes::Limits {
        max_sq_desc: 1024,
        max_rq_desc: 512,
        max_send_blocks: 32768,
        max_recv_wr: 32768,
    };
    let sizes = sizes::Receive::new(Op::CreateQueuePair, &limits, max_wr, max_sge).unwrap();
    let part = Part::from(Pages::new(sizes.bytes() as usize).unwrap());
    let record = Arc::new(Records::new(64, &PagePool::default()).take().unwrap());
    let receives = Receives::Own(RecvTracker::new(sizes.count));
    let tracker = Arc::new(QueuePairTracker::new(0, receives));
    let mut ring = ReceiveRing::new(Parts {
        ring: UnitRing::new(part, sizes.bytes() / 16).unwrap(),
        sizes,
        fork: ForkToken::current(),
        tracker: Arc::clone(&tracker),
        record: Arc::clone(&record),
    });
    ring.set_ready(true);
    Queue {
        ring,
        record,
        tracker,
        sizes,
    }
}

impl Queue {
    /// The segments of the request at `index`: length, key, address.
    fn segments(&self, index: u32) -> Vec<(u32, u32, u64)> {
        let stride = 1_usize << self.sizes.shift;
        let at = (index % self.sizes.count) as usize * stride;
        let bytes = &bytes_of(&self.ring.ring)[at..at + stride];
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        bytes
            .chunks(16)
            .map(|unit| {
                let narrow = |bytes| u32::try_from(number(bytes)).unwrap();
                (narrow(&unit[..4]), narrow(&unit[4..8]), number(&unit[8..]))
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests(
        max_wr in 1..20_u32,
        max_sge in 0..6_u32,
        script in prop::collection::vec((prop::collection::vec(0..3_u32, 0..9), 0..4_u8), 1..shorter(120)),
    ) {
        let mut queue = queue(max_wr, max_sge);
        let (mut put, mut submitted, mut done) = (0_u32, 0_u32, 0_u32);
        for (lengths, then) in script {
            let scatter: Vec<Sge> = lengths
                .iter()
                .zip(1_u64..)
                .map(|(length, at)| Sge {
                    address: at << 40 | u64::from(put),
                    length: *length,
                    key: LocalKey::from_raw(*length + 7),
                })
                .collect();
            let request = RecvRequest { wr_id: u64::from(put) | 1 << 63, scatter: &scatter };
            let result = queue.ring.put(&request);
            if put - done == queue.sizes.count {
                prop_assert_eq!(result, Err(PostError::QueueFull));
            } else if scatter.len() > queue.sizes.max_sge as usize {
                let refused = matches!(result, Err(PostError::TooManySges { .. }));
                prop_assert!(refused);
            } else {
                prop_assert_eq!(result, Ok(()));
                let mut expected: Vec<(u32, u32, u64)> = scatter
                    .iter()
                    .filter(|sge| sge.length != 0)
                    .map(|sge| (sge.length, sge.key.raw(), sge.address))
                    .collect();
                if expected.len() < queue.sizes.max_sge as usize {
                    expected.push((0, 0x100, 0));
                }
                let found = queue.segments(put);
                prop_assert_eq!(&found[..expected.len()], &expected[..]);
                put += 1;
            }
            match then {
                0 => {
                    queue.ring.abort();
                    put = submitted;
                }
                1 => {
                    queue.ring.submit().unwrap();
                    submitted = put;
                    prop_assert_eq!((queue.record.load(0), queue.record.load(1)), (submitted & 0xffff, 0));
                }
                2 if done < submitted => {
                    prop_assert_eq!(queue.tracker.received(0, 0), Request::Of(u64::from(done) | 1 << 63));
                    done += 1;
                }
                _ => {}
            }
        }
    }
}

/// A raw packet queue receives before it is ready to: its requests are shown later.
#[test]
fn held_requests_are_shown_later() {
    let mut queue = queue(4, 1);
    queue.ring.hold(true);
    let request = RecvRequest {
        wr_id: 1,
        scatter: &[],
    };
    queue.ring.put(&request).unwrap();
    queue.ring.submit().unwrap();
    assert_eq!(queue.record.load(0), 0);
    queue.ring.hold(false);
    assert_eq!(queue.record.load(0), 1);
}

#[test]
fn states_and_lengths() {
    let mut queue = queue(4, 2);
    let half = Sge {
        address: 0,
        length: 1 << 30,
        key: LocalKey::from_raw(1),
    };
    let request = RecvRequest {
        wr_id: 1,
        scatter: &[half, half],
    };
    let result = queue.ring.put(&request);
    assert!(matches!(result, Err(PostError::MessageTooLong { .. })));
    queue.ring.set_ready(false);
    assert_eq!(queue.ring.put(&request), Err(PostError::WrongState));
}

/// The typed end writes what the ring does, and what is not submitted was never there.
#[test]
#[allow(unsafe_code, reason = "posts requests to a ring that no device reads")]
fn typed_batches() {
    use uverbs_core::contract::{Receiver as _, RecvBatch as _};

    for max_sge in [1, 3] {
        let (mut one, mut other) = (queue(4, max_sge), queue(4, max_sge));
        let sge = |length| Sge {
            address: 0x1000 + u64::from(length),
            length,
            key: LocalKey::from_raw(9),
        };
        let lists: [&[Sge]; 6] = [
            &[],
            &[sge(0)],
            &[sge(64)],
            &[sge(1), sge(2)],
            &[sge(1 << 31)],
            &[sge(64); 4],
        ];
        for (scatter, wr_id) in lists.into_iter().chain(lists).zip(5..) {
            let request = RecvRequest { wr_id, scatter };
            let put = one.ring.post(&[request]).map_err(|(_, error)| error);
            let mut receiver = Receiver::new(&mut other.ring);
            let mut dropped = receiver.batch();
            // SAFETY: no device reads the ring; so below.
            let first = unsafe { dropped.push(&request) };
            drop(dropped);
            // SAFETY: as above.
            assert_eq!(unsafe { receiver.post(&request) }, put, "{scatter:?}");
            assert_eq!(first, put);
            assert_eq!(other.record.load(0), one.record.load(0));
            assert_eq!(bytes_of(&other.ring.ring), bytes_of(&one.ring.ring));
        }
        let mut receiver = Receiver::new(&mut other.ring);
        let mut batch = receiver.batch();
        let request = RecvRequest {
            wr_id: 1,
            scatter: &[],
        };
        // SAFETY: as above.
        while unsafe { batch.push(&request) }.is_ok() {}
        // SAFETY: as above.
        let put = unsafe { batch.push(&request) };
        assert_eq!(put, Err(PostError::QueueFull));
        batch.submit().unwrap();
        let submitted = other.record.load(0);
        assert_eq!(submitted, other.sizes.count);
        for _ in 0..submitted {
            assert!(matches!(other.tracker.received(0, 0), Request::Of(_)));
        }
        assert_eq!(other.tracker.received_tail(), submitted);
    }
}

#[test]
fn requests_whose_messages_come_in_completions_are_submitted_like_others() {
    let Queue { ring, record, .. } = queue(4, 1);
    let mut scattered = ScatteredRing::new(ring);
    let scatter = [Sge {
        address: 0x1000,
        length: 64,
        key: LocalKey::from_raw(5),
    }];
    for wr_id in 0..3 {
        let scatter = &scatter;
        scattered.put(&RecvRequest { wr_id, scatter }).unwrap();
        assert_eq!(record.load(RECEIVE_RECORD), 0);
    }
    scattered.submit().unwrap();
    assert_eq!(record.load(RECEIVE_RECORD), 3);
}

#[test]
fn the_place_of_a_queue_is_its_whole_ring() {
    let queue = queue(100, 3);
    let place = queue.ring.place();
    assert_eq!(place.count, queue.sizes.count);
    assert_eq!(
        u64::from(place.count * place.stride),
        u64::from(queue.sizes.bytes())
    );
    assert_eq!(place.stride, 64, "three entries, and what ends the list");
}

/// What a list puts in few steps is what one after another puts, and ends where more is needed.
#[test]
fn a_list_is_put_up_to_what_is_not_usual() {
    let sge = |length| Sge {
        address: 0x1000,
        length,
        key: LocalKey::from_raw(7),
    };
    let (usual, empty, two) = ([sge(64)], [sge(0)], [sge(64), sge(8)]);
    for (odd, max_sge) in [(&empty[..], 1), (&two[..], 2), (&[][..], 3)] {
        let list = [&usual[..], &usual, odd, &usual];
        let (mut one, mut other) = (queue(8, max_sge), queue(8, max_sge));
        let at = std::cell::Cell::new(0);
        let request = |at: usize| RecvRequest {
            wr_id: at as u64,
            scatter: list[at],
        };
        other.ring.put_list(
            || (at.get() < 4).then(|| request(at.get())),
            || {
                at.set(at.get() + 1);
            },
        );
        assert_eq!(at.get(), 2);
        for number in 0..2 {
            one.ring.put(&request(number)).unwrap();
        }
        assert_eq!(bytes_of(&one.ring.ring), bytes_of(&other.ring.ring));
        assert_eq!(
            (one.ring.end, one.ring.pending),
            (other.ring.end, other.ring.pending)
        );
        other.ring.submit().unwrap();
        assert_eq!(other.record.load(0), 2);
        for number in 0..2 {
            assert_eq!(other.tracker.received(0, 0), Request::Of(number));
        }
    }
}

#[test]
fn few_steps_need_room_a_ready_queue_and_the_process_that_made_it() {
    let scatter = [Sge {
        address: 0x1000,
        length: 64,
        key: LocalKey::from_raw(7),
    }];
    let request = RecvRequest {
        wr_id: 5,
        scatter: &scatter,
    };
    let mut queue = queue(2, 1);
    queue.ring.set_ready(false);
    assert!(!queue.ring.post_usual(request));
    queue.ring.set_ready(true);
    queue.ring.hold(true);
    assert!(
        !queue.ring.post_usual(request),
        "the device must not see it"
    );
    queue.ring.hold(false);
    queue.ring.fork = ForkToken::of_no_process();
    assert!(!queue.ring.post_usual(request));
    queue
        .ring
        .put_list(|| Some(request), || panic!("it was put"));
    queue.ring.fork = ForkToken::current();
    queue.ring.put(&request).unwrap();
    assert!(!queue.ring.post_usual(request), "another one is pending");
    queue.ring.submit().unwrap();
    let count = queue.sizes.count;
    for _ in 1..count {
        assert!(queue.ring.post_usual(request));
    }
    assert_eq!(queue.record.load(0), count);
    assert!(!queue.ring.post_usual(request), "there is no room");
    let put = std::cell::Cell::new(0);
    assert_eq!(queue.tracker.received(0, 0), Request::Of(5));
    let one_more = || (put.get() < 5).then_some(request);
    queue.ring.put_list(one_more, || put.set(put.get() + 1));
    assert_eq!(put.get(), 1, "as many as there is room for");
    queue.ring.submit().unwrap();
    assert_eq!(queue.record.load(0), count + 1);
}
