//! Numbers of the device, which the kernel may reuse at any time: devices whose completions carry
//! no other numbers.

use std::sync::Arc;

use super::explore;
use super::world::{Cq, Kernel, Pair, Srq, Way, numbers};
use crate::sync::thread;
use crate::tracker::table::Trackers;

const QPN: u32 = 5;

/// One thread destroys a queue pair, and records that late; another creates one, which may get its
/// number, and reports to `cqs[other]`; a third polls.
fn destroyed_late(other: usize, way: Way) {
    let trackers = Arc::<Trackers>::default();
    let cqs = [(); 2].map(|()| Cq::new(&trackers, 2, true));
    let kernel = Arc::new(Kernel::default());
    let mut srqs = [Srq::new(1), Srq::new(1)];
    assert!(kernel.create());
    let first = Pair::new(&cqs[0], QPN, srqs[0].receives());
    assert!(srqs[0].post(10));
    srqs[0].message(&cqs[0], &first);
    let mut poller = cqs[0].poller();
    let polls = thread::spawn(move || {
        let done = poller.poll(2, way);
        (poller, done)
    });
    let [mut old, mut new] = srqs;
    let creates = {
        let (cq, kernel) = (Arc::clone(&cqs[other]), Arc::clone(&kernel));
        thread::spawn(move || {
            let second = kernel.create().then(|| {
                let mut second = Pair::new(&cq, QPN, new.receives());
                assert!(new.post(20));
                new.message(&cq, &second);
                assert!(second.send(&cq, 21));
                second
            });
            (second, new)
        })
    };
    kernel.destroy();
    first.gone();
    let (second, mut new) = creates.join().unwrap();
    let (mut poller, done) = polls.join().unwrap();
    let mut done = numbers(&[done, poller.rest()].concat());
    if other == 1 {
        done.extend(numbers(&cqs[1].poller().rest()));
    }
    let (before, after): (Vec<u64>, Vec<u64>) = done.iter().partition(|wr_id| **wr_id < 20);
    assert_eq!([before, old.unreported()].concat(), [10]);
    assert_eq!(new.unreported(), []);
    assert_eq!((old.room(), new.room()), (1, 1));
    if let Some(second) = second {
        assert_eq!(after, [20, 21], "it is there");
        assert_eq!(second.tracker.sent_tail(), 1);
    } else {
        assert_eq!(after, []);
    }
}

#[test]
fn a_number_is_reused_before_its_destroy_was_recorded() {
    for way in [Way::Short, Way::Many] {
        explore(
            &format!("the device's number comes again before its end was noted, {way:?}"),
            Some(2),
            move || destroyed_late(0, way),
        );
    }
    explore(
        "the device's number comes again for another completion queue",
        Some(3),
        || destroyed_late(1, Way::Short),
    );
}

/// A reset affects one queue pair, whose number stays the same.
#[test]
fn a_queue_pair_is_reset_while_it_is_polled() {
    explore("a reset, by the device's number", None, || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 2, true);
        let mut srq = Srq::new(3);
        let mut pair = Pair::new(&cq, QPN, srq.receives());
        let mut poller = cq.poller();
        let polls = thread::spawn(move || {
            let done = poller.poll(2, Way::Short);
            (poller, done)
        });
        assert!(srq.post(10) && srq.post(20));
        srq.message(&cq, &pair);
        pair.reset();
        srq.message(&cq, &pair);
        let (mut poller, done) = polls.join().unwrap();
        let rest = numbers(&poller.rest());
        assert!(!rest.contains(&10), "its life was over");
        let mut all = [numbers(&done), rest, srq.unreported()].concat();
        all.sort_unstable();
        assert_eq!(all, [10, 20]);
        assert_eq!(srq.room(), 3);
    });
}
