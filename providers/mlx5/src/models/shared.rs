//! A shared receive queue: one thread posts to it, others poll its completions.

use std::sync::Arc;

use super::explore;
use super::world::{Cq, Pair, Srq, Way, numbers};
use crate::cqe::opcode;
use crate::sync::thread;
use crate::tracker::table::Trackers;

/// Two queue pairs receive from it, in two completion queues. Requests are posted as long as there
/// is room.
#[test]
fn two_pollers_free_what_one_thread_posts() {
    explore("two pollers of one shared queue", None, || {
        let trackers = Arc::<Trackers>::default();
        let cqs = [(); 2].map(|()| Cq::new(&trackers, 2, false));
        let mut srq = Srq::new(3);
        let pairs = cqs.each_ref().map(|cq| Pair::new(cq, 7, srq.receives()));
        for wr_id in [10, 11, 12] {
            assert!(srq.post(wr_id));
        }
        for (cq, pair) in cqs.iter().zip(&pairs) {
            srq.message(cq, pair);
        }
        let polls = cqs.each_ref().map(|cq| {
            let mut poller = cq.poller();
            thread::spawn(move || {
                let done = poller.poll(2, Way::Short);
                (poller, done)
            })
        });
        let mut posted = vec![10, 11, 12];
        for wr_id in [13, 14] {
            if srq.post(wr_id) {
                posted.push(wr_id);
            }
        }
        while !srq.list.is_empty() {
            srq.message(&cqs[0], &pairs[0]);
        }
        let done = polls.map(|polls| {
            let (mut poller, done) = polls.join().unwrap();
            numbers(&[done, poller.rest()].concat())
        });
        let mut done = done.concat();
        done.sort_unstable();
        assert_eq!(done, posted);
        assert_eq!(srq.unreported(), []);
        assert_eq!(srq.room(), 3);
    });
}

/// A queue pair is reset, or destroyed, while its receives are polled, posted again, and queried.
fn ended(resets: bool) {
    let trackers = Arc::<Trackers>::default();
    let cq = Cq::new(&trackers, 2, false);
    let mut srq = Srq::new(1);
    let mut pair = Pair::new(&cq, 7, srq.receives());
    let mut poller = cq.poller();
    assert!(srq.post(10));
    srq.message(&cq, &pair);
    let polls = thread::spawn(move || {
        let done = poller.poll(2, Way::Short);
        (poller, done)
    });
    let mut other = if resets {
        pair.reset();
        pair
    } else {
        pair.gone();
        Pair::new(&cq, 8, srq.receives())
    };
    let mut reported = srq.unreported();
    let mut posted = vec![10];
    // A free request may be one that has not been reported.
    if srq.post(11) {
        posted.push(11);
        srq.message(&cq, &other);
    }
    reported.extend(srq.unreported());
    other.reset();
    let (mut poller, done) = polls.join().unwrap();
    reported.extend(numbers(&[done, poller.rest()].concat()));
    reported.extend(srq.unreported());
    reported.sort_unstable();
    assert_eq!(reported, posted);
    assert_eq!(srq.room(), 1);
}

#[test]
fn unreported_requests_are_returned_once() {
    explore("a reset, and what it leaves unreported", Some(3), || {
        ended(true);
    });
    explore("an end, and what it leaves unreported", Some(3), || {
        ended(false);
    });
}

/// Two requests whose completions are no longer taken are skipped, while others are posted in their
/// slots, and their numbers are queried.
#[test]
fn unreported_requests_are_returned_before_their_slots_are_reused() {
    explore("a place of what is unreported comes again", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 2, false);
        let mut srq = Srq::new(3);
        let pair = Pair::new(&cq, 7, srq.receives());
        for wr_id in [10, 11, 12] {
            assert!(srq.post(wr_id));
        }
        // The second is completed first, so that there is room for two.
        let first = srq.list.remove(0);
        srq.message(&cq, &pair);
        let mut poller = cq.poller();
        assert_eq!(numbers(&poller.rest()), [11]);
        cq.write(opcode::RECEIVE, &pair, first);
        srq.message(&cq, &pair);
        pair.gone();
        let polls = thread::spawn(move || {
            let done = poller.poll(1, Way::Short);
            (poller, done)
        });
        let posted = [13, 14].map(|wr_id| srq.post(wr_id));
        let mut reported = srq.unreported();
        let (mut poller, done) = polls.join().unwrap();
        assert!(done.is_empty() && poller.rest().is_empty());
        reported.extend(srq.unreported());
        reported.sort_unstable();
        assert_eq!(reported, [10, 12]);
        let under_way = posted.iter().filter(|posted| **posted).count();
        assert_eq!(srq.room() + under_way, 3);
    });
}

/// A device completes requests that it should not, in two completion queues at the same time:
/// nothing is in the list twice.
#[test]
fn an_index_completed_twice_frees_its_slot_once() {
    explore("a device that completes an index twice", None, || {
        let trackers = Arc::<Trackers>::default();
        let cqs = [(); 2].map(|()| Cq::new(&trackers, 2, false));
        let mut srq = Srq::new(1);
        let pairs = cqs.each_ref().map(|cq| Pair::new(cq, 7, srq.receives()));
        assert!(srq.post(10));
        let index = srq.list[0];
        for (cq, pair) in cqs.iter().zip(&pairs) {
            cq.write(opcode::RECEIVE, pair, index);
        }
        let polls = cqs.each_ref().map(|cq| {
            let mut poller = cq.poller();
            thread::spawn(move || numbers(&poller.poll_anything(1)))
        });
        let again = srq.post(11) | srq.post(12);
        let done = polls.map(|polls| polls.join().unwrap()).concat();
        assert!(!done.is_empty());
        if !again {
            assert_eq!(done, [10], "it was under way once");
        }
        assert!(srq.room() <= 1);
    });
}
