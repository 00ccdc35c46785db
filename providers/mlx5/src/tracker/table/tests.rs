//! Numbers that are released and reused, while completions that carry them are waiting.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use uverbs_core::Op;

use super::*;
use crate::cqe::opcode;
use crate::cqe::ring::CqRing;
use crate::tracker::RecvTracker;
use crate::tracker::registration::{Registered, Reports};

const OP: Op = Op::CreateQueuePair;

fn pair(recv: Receives) -> Owner {
    Owner::QueuePair(Arc::new(QueuePairTracker::new(1, recv)))
}

fn owner() -> Owner {
    pair(Receives::None)
}

/// A completion queue of four entries, and how many its device has written.
struct Cq {
    shared: Arc<CqShared>,
    produced: u64,
}

impl Cq {
    fn new() -> Self {
        let ring = Arc::new(CqRing::alone(2, 64, 0).unwrap());
        Self {
            shared: CqShared::new(&ring),
            produced: 0,
        }
    }

    /// Makes the device write an entry with this word, its own number and this counter.
    fn write(&mut self, kind: u32, user_index: u32, qpn: u32, counter: u16) {
        let ring = self.shared.lock();
        let first = ring.first(self.produced);
        let index = u64::from(user_index) << 32;
        ring.units.put(first + 2, [index.to_be(), 0]);
        let owner = self.produced >> 2 & 1;
        let tail = u64::from(qpn) << 32 | u64::from(counter) << 16 | u64::from(kind) << 4 | owner;
        ring.units.set_word(first + 3, 1, tail.to_be());
        self.produced += 1;
    }

    fn reports(&self) -> Reports {
        Reports {
            sends: Some(Arc::clone(&self.shared)),
            receives: Some(Arc::clone(&self.shared)),
        }
    }

    /// The owner of the entry at `position`, by the device's number.
    fn owner(&self, trackers: &Trackers, position: u64) -> Option<Owner> {
        let ring = Arc::clone(&self.shared.lock());
        let look = ring.look_at(position).unwrap();
        let cq = Arc::downgrade(&self.shared);
        trackers.find_device(&cq, position, &Entry::new(look.block, look.tail))
    }
}

fn registered(trackers: &Arc<Trackers>, cq: &Cq, owner: Owner) -> Registered {
    let registered = Registered::new(OP, trackers, owner).unwrap();
    registered.created(cq.reports())
}

#[test]
fn an_unused_number_is_reused_and_the_epoch_advances() {
    let trackers = Trackers::default();
    let [a, b] = [
        trackers.add(owner()).unwrap(),
        trackers.add(owner()).unwrap(),
    ];
    assert_eq!((a, b, trackers.epoch()), (0, 1, 0));
    trackers.remove(a, [None, None]);
    assert_eq!(trackers.epoch(), 1);
    assert!(trackers.find(a).is_none() && trackers.find(b).is_some());
    assert!(trackers.find(77).is_none());
    assert_eq!(trackers.add(owner()), Some(a));
    assert!(trackers.find(a).is_some());
}

#[test]
fn a_number_is_not_reused_before_its_completions_were_polled() {
    let trackers = Arc::<Trackers>::default();
    let mut cq = Cq::new();
    let queue = Arc::new(SrqTracker::new(4));
    let first = registered(&trackers, &cq, pair(Receives::Shared(Arc::clone(&queue))));
    let number = first.user_index();
    cq.write(opcode::REQUEST, number + 1, 0, 0);
    cq.write(opcode::RECEIVE, number, 0, 0);
    cq.write(opcode::REQUEST, number + 1, 0, 0);
    drop(first);
    assert!(matches!(trackers.find(number), Some(Owner::Gone(_))));
    for taken in 0..3 {
        cq.shared.take(taken);
        let other = registered(&trackers, &cq, owner());
        assert_ne!(other.user_index(), number, "{taken} of 3 were taken");
    }
    cq.shared.take(3);
    let epoch = trackers.epoch();
    let others: Vec<_> = (0..3).map(|_| trackers.add(owner()).unwrap()).collect();
    assert!(others.contains(&number), "{others:?}");
    assert!(trackers.epoch() > epoch, "what caches hold of it is old");
    assert_eq!(Arc::strong_count(&queue), 1, "nothing is kept for it");
}

#[test]
fn a_number_is_free_once_its_completion_queue_is_destroyed() {
    let trackers = Arc::<Trackers>::default();
    let mut cq = Cq::new();
    let first = registered(&trackers, &cq, owner());
    let number = first.user_index();
    cq.write(opcode::REQUEST, number, 0, 0);
    drop(first);
    assert_ne!(trackers.add(owner()), Some(number));
    drop(cq);
    assert_eq!(trackers.add(owner()), Some(number));
}

#[test]
fn a_number_that_was_never_used_is_free_at_once() {
    let trackers = Arc::<Trackers>::default();
    let refused = Registered::new(OP, &trackers, owner()).unwrap();
    let number = refused.user_index();
    drop(refused);
    assert_eq!(trackers.add(owner()), Some(number));
}

/// The device reuses a number before the destruction of its former queue was recorded.
#[test]
fn a_late_destroy_does_not_affect_the_next_queue_with_the_number() {
    let trackers = Arc::<Trackers>::default();
    let mut cq = Cq::new();
    let number = DeviceNumber::QueuePair(5);
    let queues = [4, 8].map(|count| Arc::new(SrqTracker::new(count)));
    let [first, second] = queues.each_ref().map(|queue| {
        let owner = pair(Receives::Shared(Arc::clone(queue)));
        cq.write(opcode::REQUEST, 0, 5, 0);
        Registered::by_device(OP, &trackers, number, owner, cq.reports()).unwrap()
    });
    cq.write(opcode::RECEIVE, 9, 5, 0);
    let whose = |cq: &Cq, position| match cq.owner(&trackers, position) {
        Some(Owner::QueuePair(pair)) => match &pair.recv {
            Receives::Shared(queue) => (true, queues.iter().position(|it| Arc::ptr_eq(it, queue))),
            _ => panic!("a shared one"),
        },
        Some(Owner::Gone(queue)) => (false, queues.iter().position(|it| Arc::ptr_eq(it, &queue))),
        Some(Owner::Srq(_)) => panic!("a queue pair"),
        None => (false, None),
    };
    assert_eq!(whose(&cq, 0), (false, None), "it was before both");
    assert_eq!(whose(&cq, 1), (true, Some(0)));
    assert_eq!(whose(&cq, 2), (true, Some(1)));
    drop(first);
    assert_eq!(whose(&cq, 1), (false, Some(0)), "a tombstone");
    assert_eq!(whose(&cq, 2), (true, Some(1)), "the successor stays");
    drop(second);
    assert_eq!(whose(&cq, 1), (false, Some(0)));
    assert_eq!(whose(&cq, 2), (false, Some(1)));
    // Positions of another completion queue have no meaning.
    let mut other = Cq::new();
    other.write(opcode::RECEIVE, 9, 5, 0);
    assert_eq!(whose(&other, 0), (false, None));
    // Nothing is kept for entries that were taken.
    cq.shared.take(3);
    assert_eq!(trackers.add(owner()), Some(0));
    assert_eq!(trackers.add(owner()), Some(1));
    assert!(queues.iter().all(|queue| Arc::strong_count(queue) == 1));
    assert!(trackers.read().by_device.is_empty());
}

/// A target gets its number when it becomes ready to receive, and messages may arrive before that
/// is recorded here. They name the shared queue of which they used up a request: not the one of the
/// former queue with the number.
#[test]
fn completions_before_a_number_is_recorded_use_up_nothing_of_its_former_queue() {
    let trackers = Arc::<Trackers>::default();
    let mut cq = Cq::new();
    let number = DeviceNumber::QueuePair(5);
    let [old, new] = [8, 9].map(|number| {
        let queue = Arc::new(SrqTracker::new(4));
        queue.set_number(number);
        queue.post(0, number.into());
        queue
    });
    let owner = |queue: &Arc<SrqTracker>| pair(Receives::Shared(Arc::clone(queue)));
    let first = Registered::by_device(OP, &trackers, number, owner(&old), cq.reports()).unwrap();
    cq.write(opcode::RECEIVE, 8, 5, 0);
    // The next one is moved to ready, the former one is destroyed, and the device reuses its
    // number.
    let since = cq.reports().produced();
    cq.write(opcode::RECEIVE, 8, 5, 1);
    drop(first);
    cq.write(opcode::RECEIVE, 9, 5, 0);
    let whose = |position| match cq.owner(&trackers, position) {
        Some(Owner::QueuePair(pair)) => match &pair.recv {
            Receives::Shared(queue) if Arc::ptr_eq(queue, &new) => "new",
            _ => "another pair's",
        },
        Some(Owner::Gone(queue)) if Arc::ptr_eq(&queue, &old) => "old",
        Some(_) => "another's",
        None => "nobody's",
    };
    assert_eq!([0, 1, 2].map(whose), ["old", "old", "nobody's"]);
    let reports = cq.reports();
    let _second =
        Registered::by_device_since(OP, &trackers, number, owner(&new), reports, since).unwrap();
    assert_eq!([0, 1, 2].map(whose), ["old", "old", "new"]);
}

/// Queue pairs and shared receive queues of XRC are numbered separately; receives of a shared queue
/// carry both numbers.
#[test]
fn shared_queues_have_numbers_of_their_own() {
    let trackers = Arc::<Trackers>::default();
    let mut cq = Cq::new();
    let note =
        |number, owner| Registered::by_device(OP, &trackers, number, owner, cq.reports()).unwrap();
    let _pair = note(
        DeviceNumber::QueuePair(5),
        pair(Receives::Own(RecvTracker::new(1))),
    );
    let queue = Owner::Srq(Arc::new(SrqTracker::new(1)));
    let xrc = note(DeviceNumber::Srq(5), queue);
    for (kind, shared, number, found) in [
        (opcode::REQUEST, 0, 5, Some(true)),
        (opcode::REQUEST, 5, 5, Some(true)),
        (opcode::RECEIVE, 0, 5, Some(true)),
        (opcode::RECEIVE, 5, 5, Some(false)),
        (opcode::RECEIVE, 5, 77, Some(false)),
        (opcode::RECEIVE_ERROR, 5, 77, Some(false)),
        (opcode::RECEIVE, 6, 5, Some(true)),
        (opcode::RECEIVE, 6, 77, None),
        (opcode::REQUEST, 5, 77, None),
    ] {
        let position = cq.produced;
        cq.write(kind, shared, number, 0);
        let owner = cq.owner(&trackers, position);
        let is_pair = owner.map(|owner| matches!(owner, Owner::QueuePair(_)));
        assert_eq!(is_pair, found, "kind {kind}, {shared}, {number}");
        cq.shared.take(cq.produced);
    }
    drop(xrc);
    let position = cq.produced;
    cq.write(opcode::RECEIVE, 5, 5, 0);
    assert!(matches!(
        cq.owner(&trackers, position),
        Some(Owner::QueuePair(_))
    ));
}
