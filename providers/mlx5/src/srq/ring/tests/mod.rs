//! A device that follows the list, and completes requests in any order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use uverbs_core::Op;
use uverbs_core::hw::{PagePool, Pages, Part, Records};
use uverbs_core::types::{LocalKey, Sge, SrqAttr};

use super::*;
use crate::tests::shorter;

mod faults;

/// A ring for `max_wr` requests of `max_sge` scatter/gather entries. With `faults` they may meet
/// page faults, and the ring has up to that many slots.
pub(crate) fn ring(max_wr: u32, max_sge: u32, faults: Option<u32>) -> SharedRing {
    let attr = SrqAttr {
        max_wr,
        max_sge,
        limit: 0,
    };
    let op = Op::CreateSharedReceiveQueue;
    let sizes = Sizes::new(op, faults.unwrap_or(32768), 512, &attr, faults.is_some()).unwrap();
    let part = Part::from(Pages::new(sizes.units() as usize * 16).unwrap());
    let ring = UnitRing::new(part, sizes.units()).unwrap();
    let record = Arc::new(Records::new(64, &PagePool::default()).take().unwrap());
    let fork = ForkToken::current();
    SharedRing::new(ring, sizes, fork, record, faults.is_some())
}

/// For models of devices.
impl SharedRing {
    /// The request that was put last.
    pub(crate) fn last_put(&self) -> u32 {
        self.list.at(self.end.wrapping_sub(1))
    }

    /// The request that the list names after `index`.
    pub(crate) fn behind(&self, index: u32) -> u32 {
        self.word(index, 0, 0) & 0xffff
    }

    /// The number of submitted requests, as reported to the device.
    pub(crate) fn handed_over(&self) -> u32 {
        self.record.load(RECORD)
    }

    /// The requests that are in the list and not submitted, and those at rest; the number at rest.
    fn places(&self) -> (Vec<u32>, u32) {
        let reposts = self.reposts.as_ref().unwrap();
        let (end, linked, resting) = reposts.look();
        let (end, linked) = if self.turn {
            (self.end, self.linked)
        } else {
            (end, linked)
        };
        let count = u32::try_from(resting.len()).unwrap();
        (
            (end..linked)
                .map(|place| self.list.at(place))
                .chain(resting)
                .collect(),
            count,
        )
    }

    /// Four bytes of a unit of a request.
    fn word(&self, index: u32, unit: u32, at: usize) -> u32 {
        let unit = self.ring.get((index << self.sizes.shift) + unit);
        let bytes = unit.map(u64::to_ne_bytes);
        let bytes = bytes.as_flattened();
        u32::from_be_bytes(*bytes[at..].first_chunk().unwrap())
    }
}

struct Queue {
    ring: SharedRing,
    record: Arc<Record>,
    tracker: Arc<SrqTracker>,
    sizes: Sizes,
}

fn queue(max_wr: u32, max_sge: u32) -> Queue {
    let ring = ring(max_wr, max_sge, None);
    Queue {
        record: Arc::clone(&ring.record),
        tracker: Arc::clone(&ring.tracker),
        sizes: ring.sizes,
        ring,
    }
}

impl Queue {
    fn word(&self, index: u32, unit: u32, at: usize) -> u32 {
        self.ring.word(index, unit, at)
    }

    /// The request that the list names after `index`.
    fn behind(&self, index: u32) -> u32 {
        self.ring.behind(index)
    }
}

fn sges(number: u32, count: usize) -> Vec<Sge> {
    (0..count)
        .map(|at| Sge {
            address: u64::from(number) << 8,
            // Every third entry is empty.
            length: if at % 3 == 2 { 0 } else { number + 1 },
            key: LocalKey::from_raw(number),
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Puts a request with this many scatter/gather entries.
    Put(usize),
    Ring,
    Abort,
    /// The device uses one up; it completes as one of those under way.
    Complete(usize),
    /// The same, for a queue pair that is gone.
    UseUp(usize),
    /// Takes the requests that were used up that way.
    Ask,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_usize).prop_map(Step::Put),
        2 => Just(Step::Ring),
        1 => Just(Step::Abort),
        4 => any::<usize>().prop_map(Step::Complete),
        1 => any::<usize>().prop_map(Step::UseUp),
        1 => Just(Step::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_come_back_in_any_order(max_wr in 1..80_u32, steps in prop::collection::vec(step(), 1..shorter(400))) {
        let mut queue = queue(max_wr, 3);
        let max_sge = queue.sizes.max_sge as usize;
        let (mut put, mut submitted, mut used) = (0_u32, 0_u32, 0_u32);
        let mut requested: Vec<usize> = Vec::new();
        let mut device_at = 0;
        let mut under_way: Vec<(u32, u32)> = Vec::new();
        let mut outstanding = 0;
        let mut unreported = Vec::new();
        for step in steps {
            match step {
                Step::Put(count) => {
                    let scatter = sges(put, count);
                    let request = RecvRequest { wr_id: put.into(), scatter: &scatter };
                    let result = queue.ring.put(&request);
                    if outstanding == queue.sizes.max_wr() {
                        prop_assert_eq!(result, Err(PostError::QueueFull));
                    } else if count > max_sge {
                        let refused = matches!(result, Err(PostError::TooManySges { .. }));
                        prop_assert!(refused);
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        requested.truncate(put as usize);
                        requested.push(count);
                        put += 1;
                        outstanding += 1;
                    }
                }
                Step::Ring => {
                    queue.ring.submit().unwrap();
                    submitted = put;
                    prop_assert_eq!(queue.record.load(0), submitted & 0xffff);
                }
                Step::Abort => {
                    queue.ring.abort();
                    outstanding -= put - submitted;
                    put = submitted;
                }
                Step::Ask => {
                    let mut reported = Vec::new();
                    queue.ring.take_unreported(&mut |wr_id| reported.push(wr_id));
                    reported.sort_unstable();
                    unreported.sort_unstable();
                    prop_assert_eq!(&reported, &unreported);
                    unreported.clear();
                }
                Step::Complete(which) | Step::UseUp(which) => {
                    // A caller who wants the numbers takes them in time.
                    let reported = matches!(step, Step::Complete(_)) || unreported.len() > max_wr as usize;
                    // The device takes the next request of the list, and reads its link.
                    if used < submitted {
                        let number = used;
                        let real = sges(number, requested[number as usize]);
                        let real: Vec<&Sge> = real.iter().filter(|sge| sge.length != 0).collect();
                        for (sge, unit) in real.iter().zip(1..) {
                            prop_assert_eq!(queue.word(device_at, unit, 0), sge.length);
                            prop_assert_eq!(queue.word(device_at, unit, 4), sge.key.raw());
                        }
                        if real.len() < max_sge {
                            let unit = u32::try_from(real.len()).unwrap() + 1;
                            prop_assert_eq!(queue.word(device_at, unit, 0), 0);
                            prop_assert_eq!(queue.word(device_at, unit, 4), 0x100);
                        }
                        under_way.push((device_at, number));
                        device_at = queue.behind(device_at);
                        used += 1;
                    }
                    if !under_way.is_empty() {
                        let (index, number) = under_way.swap_remove(which % under_way.len());
                        let index = u16::try_from(index).unwrap();
                        if reported {
                            prop_assert_eq!(queue.tracker.completed(index), Some(number.into()));
                        } else {
                            prop_assert_eq!(queue.tracker.used_up(index), Some(()));
                            unreported.push(u64::from(number));
                        }
                        outstanding -= 1;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a device reports as used up, no request is in the list twice, or in the list while
    /// it is under way.
    #[test]
    fn nothing_is_linked_twice(
        max_wr in 1..20_u32,
        steps in prop::collection::vec((0..8, 0..24_u16), 1..shorter(200)),
    ) {
        let mut queue = queue(max_wr, 1);
        let sge = sges(1, 1);
        let mut reported = 0;
        for (step, index) in steps {
            match step {
                0..3 => {
                    let wr_id = u64::from(index);
                    let _ = queue.ring.put(&RecvRequest { wr_id, scatter: &sge });
                }
                3 => queue.ring.submit().unwrap(),
                4 => queue.ring.abort(),
                5 => {
                    let _ = queue.tracker.used_up(index);
                }
                6 => queue.ring.take_unreported(&mut |_| reported += 1),
                _ => {
                    let _ = queue.tracker.completed(index);
                }
            }
            let (list, end) = (&queue.ring.list, queue.ring.end);
            let mut linked: Vec<u32> = (end..queue.ring.linked).map(|place| list.at(place)).collect();
            linked.sort_unstable();
            let count = linked.len();
            linked.dedup();
            prop_assert_eq!(count, linked.len());
            prop_assert!((1..=queue.sizes.count as usize).contains(&count));
        }
    }
}

/// A caller who never takes the numbers loses no room, and no more of them are kept than the queue
/// has requests.
#[test]
fn unreported_numbers_that_are_not_taken_are_forgotten() {
    let mut queue = queue(3, 1);
    let sge = sges(1, 1);
    for wr_id in 0..100 {
        let index = queue.ring.list.at(queue.ring.end) as u16;
        let scatter = &sge;
        queue.ring.put(&RecvRequest { wr_id, scatter }).unwrap();
        queue.ring.submit().unwrap();
        assert_eq!(queue.tracker.used_up(index), Some(()));
    }
    let mut reported = Vec::new();
    queue
        .ring
        .take_unreported(&mut |wr_id| reported.push(wr_id));
    assert!((4..=8).contains(&reported.len()), "{reported:?}");
    assert_eq!(reported.last(), Some(&99));
    queue
        .ring
        .take_unreported(&mut |wr_id| panic!("{wr_id} is reported twice"));
}

/// A link that was overwritten misleads the device, but not this side.
#[test]
fn broken_links_are_not_followed() {
    let mut queue = queue(7, 1);
    for unit in 0..16 {
        queue.ring.ring.put(unit, [u64::MAX; 2]);
    }
    let sge = sges(1, 1);
    let request = RecvRequest {
        wr_id: 1,
        scatter: &sge,
    };
    for _ in 0..100 {
        let _ = queue.ring.put(&request);
        let _ = queue.tracker.completed(3);
    }
    queue.ring.submit().unwrap();
}
