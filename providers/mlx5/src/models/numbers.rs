//! Our numbers, when they are reused.

use std::sync::Arc;

use super::explore;
use super::world::{Cq, Pair, Srq, Way, numbers, own};
use crate::sync::thread;
use crate::tracker::Receives;
use crate::tracker::table::Trackers;

/// The outcome of the requests of a shared queue: each is reported once.
fn reported(done: &[u64], srq: &mut Srq) -> Vec<u64> {
    let mut all = [done, &srq.unreported()].concat();
    all.sort_unstable();
    all
}

/// A queue pair is destroyed while its completions are waiting, and another is created. With
/// `known`, the former one is destroyed and polled before the threads start, so that the poller has
/// seen its tombstone.
fn recreated(known: bool, way: Way) {
    let trackers = Arc::<Trackers>::default();
    let cq = Cq::new(&trackers, 3, false);
    let mut srqs = [Srq::new(3), Srq::new(3)];
    let first = Pair::new(&cq, 7, srqs[0].receives());
    let mut poller = cq.poller();
    for wr_id in [10, 11] {
        assert!(srqs[0].post(wr_id));
        srqs[0].message(&cq, &first);
    }
    let mut first = Some(first);
    let mut seen = Vec::new();
    if known {
        first.take().unwrap().gone();
        seen = numbers(&poller.poll(1, Way::Long));
    }
    let polls = thread::spawn(move || {
        let done = poller.poll(2, way);
        (poller, done)
    });
    if let Some(first) = first {
        first.gone();
    }
    let mut second = Pair::new(&cq, 8, srqs[1].receives());
    assert!(srqs[1].post(20));
    srqs[1].message(&cq, &second);
    assert!(second.send(&cq, 21));
    let (mut poller, done) = polls.join().unwrap();
    let done = [done, poller.rest()].concat();
    for one in &done {
        assert_eq!(one.qp_num, if one.wr_id < 20 { 7 } else { 8 });
    }
    let (old, new): (Vec<u64>, Vec<u64>) = [seen, numbers(&done)]
        .concat()
        .into_iter()
        .partition(|wr_id| *wr_id < 20);
    assert_eq!(new, [20, 21]);
    assert_eq!(reported(&old, &mut srqs[0]), [10, 11]);
    assert_eq!(reported(&[], &mut srqs[1]), []);
    assert_eq!((srqs[0].room(), srqs[1].room()), (3, 3));
    assert_eq!(second.tracker.sent_tail(), 1);
}

#[test]
fn a_queue_pair_goes_and_another_is_created() {
    for way in [Way::Short, Way::Long, Way::Many] {
        for known in [false, true] {
            let tombstone = if known { "known" } else { "not known" };
            explore(
                &format!("a queue pair goes, another comes, {way:?}, tombstone {tombstone}"),
                Some(3),
                move || recreated(known, way),
            );
        }
    }
}

/// A number that is free at once is reused while a poller still has its former queue pair in its
/// cache.
#[test]
fn a_number_is_reused_at_once() {
    for way in [Way::Short, Way::Many] {
        explore(
            &format!("a number comes again at once, {way:?}"),
            None,
            move || {
                let trackers = Arc::<Trackers>::default();
                let cq = Cq::new(&trackers, 2, false);
                let mut first = Pair::new(&cq, 7, own());
                let mut poller = cq.poller();
                assert!(first.send(&cq, 10));
                assert!(first.receive(&cq, 11));
                assert_eq!(numbers(&poller.rest()), [10, 11]);
                let polls = thread::spawn(move || {
                    let done = poller.poll(2, way);
                    (poller, done)
                });
                let number = first.index;
                first.gone();
                let mut second = Pair::new(&cq, 8, own());
                assert_eq!(second.index, number, "nothing carries it");
                assert!(second.send(&cq, 20));
                assert!(second.receive(&cq, 21));
                let (mut poller, done) = polls.join().unwrap();
                let done = [done, poller.rest()].concat();
                assert_eq!(numbers(&done), [20, 21]);
                assert!(done.iter().all(|one| one.qp_num == 8));
                let tails = (second.tracker.sent_tail(), second.tracker.received_tail());
                assert_eq!(tails, (1, 1));
            },
        );
    }
}

/// Completions of a destroyed queue pair are waiting in a completion queue to which its successor
/// does not report.
#[test]
fn a_number_waits_for_every_completion_queue() {
    explore(
        "a number waits for another completion queue",
        Some(3),
        || {
            let trackers = Arc::<Trackers>::default();
            let cqs = [(); 2].map(|()| Cq::new(&trackers, 2, false));
            let mut srqs = [Srq::new(1), Srq::new(1)];
            let first = Pair::new(&cqs[0], 7, srqs[0].receives());
            assert!(srqs[0].post(10));
            srqs[0].message(&cqs[0], &first);
            let polls = cqs.each_ref().map(|cq| {
                let mut poller = cq.poller();
                thread::spawn(move || {
                    let done = poller.poll(1, Way::Short);
                    (poller, done)
                })
            });
            first.gone();
            let second = Pair::new(&cqs[1], 8, srqs[1].receives());
            assert!(srqs[1].post(20));
            srqs[1].message(&cqs[1], &second);
            let done = polls.map(|polls| {
                let (mut poller, done) = polls.join().unwrap();
                numbers(&[done, poller.rest()].concat())
            });
            assert_eq!(reported(&done[0], &mut srqs[0]), [10]);
            assert_eq!(reported(&done[1], &mut srqs[1]), [20]);
            assert_eq!(done[1], [20], "it is there");
            assert_eq!((srqs[0].room(), srqs[1].room()), (1, 1));
        },
    );
}

/// Two threads create and destroy; a third polls the queue to which both report.
#[test]
fn threads_take_and_give_numbers() {
    explore("two threads with queue pairs of their own", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 2, false);
        let mut first = Pair::new(&cq, 7, Receives::None);
        assert!(first.send(&cq, 10));
        let mut poller = cq.poller();
        let polls = thread::spawn(move || {
            let done = poller.poll(1, Way::Short);
            (poller, done)
        });
        let other = {
            let cq = Arc::clone(&cq);
            thread::spawn(move || {
                let mut second = Pair::new(&cq, 8, Receives::None);
                assert!(second.send(&cq, 20));
                second
            })
        };
        first.gone();
        let second = other.join().unwrap();
        let (mut poller, done) = polls.join().unwrap();
        let all = [numbers(&done), numbers(&poller.rest())].concat();
        assert!(matches!(all[..], [20] | [10, 20]), "{all:?}");
        assert_eq!(second.tracker.sent_tail(), 1);
    });
}
