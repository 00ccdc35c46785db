//! Receives of a shared queue that meet page faults: pollers repost to the same list to which a
//! thread posts.

use std::sync::Arc;

use super::explore;
use super::world::{Cq, Pair, Srq, Way, numbers};
use crate::cqe::opcode;
use crate::sync::thread;
use crate::tracker::table::Trackers;

/// Messages arrive for everything in the list: returns their numbers, in order. Nothing is in two
/// places.
fn finish(srq: &mut Srq, cq: &Cq, pair: &Pair) -> Vec<u64> {
    let taken = srq.take();
    let mut places = taken.clone();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), taken.len(), "{taken:?}");
    for index in taken {
        cq.write(opcode::RECEIVE, pair, index);
    }
    let mut done = numbers(&cq.poller().rest());
    done.sort_unstable();
    done
}

/// One poller detects faults, while another thread posts, or takes back what it put.
fn faults(aborts: bool) {
    let trackers = Arc::<Trackers>::default();
    let [cq, other] = [2, 3].map(|log| Cq::new(&trackers, log, false));
    let mut srq = Srq::paged(3);
    let pair = Pair::new(&cq, 7, srq.receives());
    assert!(srq.post(10) && srq.post(11));
    for index in srq.take() {
        cq.write_fault(&pair, index);
    }
    let mut poller = cq.poller();
    let polls = thread::spawn(move || poller.poll(2, Way::Short));
    if aborts {
        srq.put_and_abort();
    } else {
        assert!(srq.post(12), "faults take no room");
    }
    assert!(polls.join().unwrap().is_empty());
    let pair = Pair::new(&other, 8, srq.receives());
    let expected: &[u64] = if aborts { &[10, 11] } else { &[10, 11, 12] };
    assert_eq!(finish(&mut srq, &other, &pair), expected);
    assert_eq!(srq.room(), 3);
}

#[test]
fn faulted_receives_are_reposted_while_others_are_posted() {
    explore("faults while requests are posted", None, || {
        faults(false);
    });
    explore("faults while requests are taken back", None, || {
        faults(true);
    });
}

/// The same with two pollers, and with a queue that is full.
#[test]
fn faulted_receives_are_reposted_by_two_pollers_to_a_full_queue() {
    explore("two pollers that find faults", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let [first, second, other] = [(); 3].map(|()| Cq::new(&trackers, 2, false));
        let mut srq = Srq::paged(3);
        let pairs = [&first, &second].map(|cq| Pair::new(cq, 7, srq.receives()));
        assert!(srq.post(10) && srq.post(11) && srq.post(12));
        let taken = srq.take();
        first.write_fault(&pairs[0], taken[0]);
        second.write_fault(&pairs[1], taken[1]);
        let polls = [&first, &second].map(|cq| {
            let mut poller = cq.poller();
            thread::spawn(move || poller.poll(1, Way::Long))
        });
        assert!(!srq.post(13), "there is no room");
        for polls in polls {
            assert!(polls.join().unwrap().is_empty());
        }
        let pair = Pair::new(&other, 8, srq.receives());
        assert_eq!(finish(&mut srq, &other, &pair), [10, 11]);
        other.write(opcode::RECEIVE, &pair, taken[2]);
        assert_eq!(
            srq.tracker.completed(u16::try_from(taken[2]).unwrap()),
            Some(12)
        );
        assert_eq!(srq.room(), 3);
    });
}

/// A device reports that one use of a request faulted, in one completion queue, and in another one
/// the same, or that it completed.
#[test]
fn an_index_reported_twice_ends_its_request_once() {
    for kind in [opcode::RECEIVE_ERROR, opcode::RECEIVE] {
        explore("a device that uses an index up twice", None, move || {
            let trackers = Arc::<Trackers>::default();
            let [first, second, other] = [(); 3].map(|()| Cq::new(&trackers, 2, false));
            let mut srq = Srq::paged(1);
            let pairs = [&first, &second].map(|cq| Pair::new(cq, 7, srq.receives()));
            assert!(srq.post(10));
            let index = srq.take()[0];
            first.write_fault(&pairs[0], index);
            if kind == opcode::RECEIVE_ERROR {
                second.write_fault(&pairs[1], index);
            } else {
                second.write(opcode::RECEIVE, &pairs[1], index);
            }
            let polls = [first, second].map(|cq| {
                let mut poller = cq.poller();
                thread::spawn(move || numbers(&poller.poll_anything(1)))
            });
            let mut done = polls.map(|polls| polls.join().unwrap()).concat();
            let pair = Pair::new(&other, 8, srq.receives());
            done.extend(finish(&mut srq, &other, &pair));
            assert_eq!(done, [10]);
            assert_eq!(srq.room(), 1);
        });
    }
}
