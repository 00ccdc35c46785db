//! Receives that meet page faults, on a device that follows the list in the ring.

use super::*;

/// A device, and the poller that it writes to.
struct Device {
    ring: SharedRing,
    /// The next request of the list, and the number of requests taken.
    at: u32,
    taken: u32,
}

impl Device {
    fn new(max_wr: u32, most: u32) -> Self {
        Self {
            ring: ring(max_wr, 3, Some(most)),
            at: 0,
            taken: 0,
        }
    }

    fn put(&mut self, number: u32) -> Result<(), PostError> {
        let scatter = sges(number, 1 + number as usize % 2);
        let wr_id = number.into();
        self.ring.put(&RecvRequest {
            wr_id,
            scatter: &scatter,
        })
    }

    fn post(&mut self, number: u32) {
        self.put(number).unwrap();
        self.ring.submit().unwrap();
    }

    /// Takes the next request: its index, and its number by its contents.
    fn take(&mut self) -> Option<(u16, u32)> {
        if self.taken == self.ring.handed_over() {
            return None;
        }
        let index = self.at;
        let number = self.ring.word(index, 1, 4);
        for unit in 1..=1 + number % 2 {
            let sge = [0, 4, 12].map(|at| self.ring.word(index, unit, at));
            assert_eq!(sge, [number + 1, number, number << 8]);
        }
        let end = self.ring.word(index, 2 + number % 2, 4);
        assert_eq!(end, 0x100);
        self.at = self.ring.behind(index);
        self.taken += 1;
        Some((u16::try_from(index).unwrap(), number))
    }

    fn fault(&self, index: u16) -> Option<()> {
        self.ring.tracker.faulted(index)
    }

    fn complete(&self, index: u16) -> Option<u64> {
        self.ring.tracker.completed(index)
    }
}

#[test]
fn a_faulted_receive_is_reposted_last_in_another_slot() {
    let mut device = Device::new(3, 64);
    assert_eq!(device.ring.sizes.max_wr(), 3);
    device.post(7);
    device.post(8);
    let (index, _) = device.take().unwrap();
    device.fault(index).unwrap();
    let (second, number) = device.take().unwrap();
    assert_eq!((number, device.complete(second)), (8, Some(8)));
    let (third, number) = device.take().unwrap();
    assert_eq!((number, device.take()), (7, None));
    assert_ne!(third, index);
    // It rests while it may still be read.
    for number in 20..24 {
        device.post(number);
        let (index_of, found) = device.take().unwrap();
        assert_eq!(found, number);
        assert_ne!(index_of, index);
        device.complete(index_of).unwrap();
    }
    assert_eq!(device.complete(third), Some(7));
}

#[test]
fn a_full_queue_has_room_for_what_faults() {
    // With as many at rest, and with none.
    for most in [64, 4] {
        let mut device = Device::new(3, most);
        assert_eq!(device.ring.sizes.spare, if most == 64 { 4 } else { 0 });
        for number in 0..3 {
            device.post(number);
        }
        for _ in 0..50 {
            let all = [(); 3].map(|()| device.take().unwrap());
            for (index, _) in all {
                device.fault(index).unwrap();
            }
            assert_eq!(device.put(9), Err(PostError::QueueFull));
        }
        let mut all = [(); 3].map(|()| device.take().unwrap());
        assert_eq!(device.take(), None);
        for (index, number) in all {
            assert_eq!(device.complete(index), Some(number.into()));
        }
        all.sort_unstable_by_key(|(_, number)| *number);
        assert_eq!(all.map(|(_, number)| number), [0, 1, 2]);
        let room = (0..9).take_while(|_| device.put(9).is_ok()).count();
        assert_eq!(room, 3);
    }
}

#[test]
fn faults_wait_for_the_end_of_a_batch() {
    for abort in [true, false] {
        let mut device = Device::new(7, 64);
        device.post(1);
        let (index, _) = device.take().unwrap();
        device.put(2).unwrap();
        device.fault(index).unwrap();
        assert_eq!(device.take(), None);
        let expected = if abort {
            device.ring.abort();
            vec![1]
        } else {
            device.ring.submit().unwrap();
            vec![2, 1]
        };
        let taken: Vec<u32> = std::iter::from_fn(|| device.take())
            .map(|(_, n)| n)
            .collect();
        assert_eq!(taken, expected);
    }
}

/// A forgotten batch ends with the queue's handle; queue pairs may keep the queue alive for longer.
#[test]
fn a_forgotten_batch_ends_with_its_handle() {
    let mut device = Device::new(7, 64);
    device.post(1);
    let (index, _) = device.take().unwrap();
    device.put(2).unwrap();
    let (tracker, record) = (
        Arc::clone(&device.ring.tracker),
        Arc::clone(&device.ring.record),
    );
    let kept = device.ring.keep_mapped();
    tracker.faulted(index).unwrap();
    assert_eq!(record.load(RECORD), 1);
    drop(device);
    assert_eq!(record.load(RECORD), 2);
    assert_eq!(tracker.faulted(1), Some(()), "its second time");
    assert_eq!(record.load(RECORD), 3);
    drop(kept);
    assert_eq!(tracker.faulted(2), Some(()), "nothing is left to be done");
    assert_eq!(record.load(RECORD), 3);
}

#[test]
fn bogus_faults_repost_nothing() {
    let mut device = Device::new(3, 64);
    for number in 1..=3 {
        device.post(number);
    }
    // Not posted, or out of range.
    for index in [3, 4, 7, 8, u16::MAX] {
        assert_eq!(device.fault(index), None, "{index}");
    }
    // Completed.
    assert_eq!(device.complete(0), Some(1));
    assert_eq!(device.fault(0), None);
    // Faulted: it is at rest, or waits for the turn.
    assert_eq!(device.fault(1), Some(()));
    assert_eq!((device.fault(1), device.complete(1)), (None, None));
    assert_eq!(device.ring.tracker.used_up(1), None);
    device.put(4).unwrap();
    assert_eq!(device.fault(2), Some(()));
    assert_eq!(device.fault(2), None);
    // Completed nevertheless.
    assert_eq!(device.complete(2), Some(3));
    device.ring.submit().unwrap();
    assert_eq!(
        device.ring.handed_over(),
        5,
        "of the first and the last nothing"
    );
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put,
    Ring,
    Abort,
    Take,
    Fault(usize),
    Complete(usize),
    UseUp(usize),
    /// Anything that the device may report about an index.
    Lie(u16, u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Put),
        2 => Just(Act::Ring),
        1 => Just(Act::Abort),
        4 => Just(Act::Take),
        3 => any::<usize>().prop_map(Act::Fault),
        2 => any::<usize>().prop_map(Act::Complete),
        1 => any::<usize>().prop_map(Act::UseUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every submitted request ends once, however often it faulted; and there is always room for
    /// the promised number of requests.
    #[test]
    fn every_request_ends_once(max_wr in 1..20_u32, rests in any::<bool>(), acts in prop::collection::vec(act(), 1..shorter(300))) {
        let listed = (max_wr + 1).next_power_of_two();
        let mut device = Device::new(max_wr, if rests { 4 * listed } else { listed });
        let max_wr = device.ring.sizes.max_wr() as usize;
        let (mut next, mut put, mut open) = (0, Vec::new(), Vec::new());
        let mut taken: Vec<(u16, u32)> = Vec::new();
        let acts = acts.into_iter().chain([Act::Ring]);
        for act in acts.chain([Act::Take, Act::Complete(0)].repeat(2 * max_wr)) {
            match act {
                Act::Put => {
                    let result = device.put(next);
                    if open.len() + put.len() == max_wr {
                        prop_assert_eq!(result, Err(PostError::QueueFull));
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        put.push(next);
                        next += 1;
                    }
                }
                Act::Ring => {
                    device.ring.submit().unwrap();
                    open.append(&mut put);
                }
                Act::Abort => {
                    device.ring.abort();
                    put.clear();
                }
                Act::Take => taken.extend(device.take()),
                Act::Fault(which) if !taken.is_empty() => {
                    let (index, _) = taken.swap_remove(which % taken.len());
                    prop_assert_eq!(device.fault(index), Some(()));
                }
                Act::Complete(which) | Act::UseUp(which) if !taken.is_empty() => {
                    let (index, number) = taken.swap_remove(which % taken.len());
                    let at = open.iter().position(|open| *open == number);
                    prop_assert!(at.is_some(), "{} ends twice", number);
                    open.swap_remove(at.unwrap());
                    if matches!(act, Act::Complete(_)) {
                        prop_assert_eq!(device.complete(index), Some(number.into()));
                    } else {
                        prop_assert_eq!(device.ring.tracker.used_up(index), Some(()));
                    }
                }
                _ => {}
            }
        }
        prop_assert!(open.is_empty() && taken.is_empty());
        let room = (0..100).take_while(|_| device.put(0).is_ok()).count();
        prop_assert_eq!(room, max_wr);
    }

    /// Whatever a device reports, no request is in the list twice, or both in the list and at rest.
    #[test]
    fn no_request_is_listed_twice(
        max_wr in 1..10_u32,
        rests in any::<bool>(),
        acts in prop::collection::vec(prop_oneof![act(), (0..40_u16, 0..3_u8).prop_map(|(index, what)| Act::Lie(index, what))], 1..shorter(200)),
    ) {
        let listed = (max_wr + 1).next_power_of_two();
        let mut device = Device::new(max_wr, if rests { 4 * listed } else { listed });
        for act in acts {
            match act {
                Act::Put => drop(device.put(1)),
                Act::Ring => device.ring.submit().unwrap(),
                Act::Abort => device.ring.abort(),
                Act::Lie(index, 0) => drop(device.fault(index)),
                Act::Lie(index, 1) => drop(device.complete(index)),
                Act::Lie(index, _) => drop(device.ring.tracker.used_up(index)),
                _ => {}
            }
            let (mut all, outside) = device.ring.places();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(count, all.len());
            prop_assert_eq!(outside, device.ring.sizes.spare);
        }
    }
}
