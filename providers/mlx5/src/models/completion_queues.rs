//! Concurrent queries of a completion queue while it is polled, and when it is destroyed.

use std::sync::Arc;

use super::explore;
use super::world::{Cq, Pair, Srq, Way, numbers};
use crate::cqe::opcode;
use crate::sync::thread;
use crate::tracker::Receives;
use crate::tracker::table::Trackers;

/// The device writes around the ring, as far as there is room, and a queue pair is reset: its new
/// incarnation begins after its former entries, and not after later ones.
#[test]
fn the_start_of_an_incarnation_is_found_while_the_ring_wraps() {
    explore("a reset while the ring comes round", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 1, false);
        let mut pair = Pair::new(&cq, 7, Receives::None);
        let mut poller = cq.poller();
        let mut others = Pair::new(&cq, 8, Receives::None);
        let polls = thread::spawn(move || {
            let done = poller.poll(2, Way::Short);
            (poller, done)
        });
        let mut old = Vec::new();
        let index = pair.post(10);
        if cq.write_round(opcode::REQUEST, &pair, index) {
            old.push(10);
        }
        let mut written = Vec::new();
        for wr_id in [30, 31] {
            let index = others.post(wr_id);
            if cq.write_round(opcode::REQUEST, &others, index) {
                written.push(wr_id);
            }
        }
        pair.reset();
        let index = pair.post(20);
        if cq.write_round(opcode::REQUEST, &pair, index) {
            written.push(20);
        }
        let (mut poller, done) = polls.join().unwrap();
        let all = [numbers(&done), numbers(&poller.rest())].concat();
        let present: Vec<u64> = all.iter().copied().filter(|wr_id| *wr_id != 10).collect();
        assert_eq!(present, written, "{all:?}");
        assert!(all.iter().filter(|wr_id| **wr_id == 10).count() <= old.len());
    });
}

/// The same, where entries are taken and overwritten during the search: an entry of the incarnation
/// that ends waits behind an entry of another queue pair.
#[test]
fn the_start_of_an_incarnation_is_found_while_entries_are_overwritten() {
    explore("a reset while entries are written over", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 1, false);
        let mut pair = Pair::new(&cq, 7, Receives::None);
        let mut others = Pair::new(&cq, 8, Receives::None);
        let index = others.post(30);
        assert!(cq.write_round(opcode::REQUEST, &others, index));
        let index = pair.post(10);
        assert!(cq.write_round(opcode::REQUEST, &pair, index));
        let mut poller = cq.poller();
        let polls = thread::spawn(move || {
            let done = poller.poll(2, Way::Short);
            (poller, done)
        });
        let writes = {
            let cq = Arc::clone(&cq);
            thread::spawn(move || {
                let index = others.post(31);
                (cq.write_round(opcode::REQUEST, &others, index), others)
            })
        };
        pair.reset();
        let index = pair.post(20);
        let mut written = vec![30];
        let (wrote, _others) = writes.join().unwrap();
        if wrote {
            written.push(31);
        }
        if cq.write_round(opcode::REQUEST, &pair, index) {
            written.push(20);
        }
        let (mut poller, done) = polls.join().unwrap();
        let rest = numbers(&poller.rest());
        assert!(!rest.contains(&10), "its life was over");
        let all = [numbers(&done), rest].concat();
        let present: Vec<u64> = all.iter().copied().filter(|wr_id| *wr_id != 10).collect();
        assert_eq!(present, written, "{all:?}");
    });
}

/// Two completions arrive in a compressed entry, which the poller expands while a queue pair is
/// reset.
#[test]
fn the_start_of_an_incarnation_is_found_while_an_entry_is_expanded() {
    for reset in [false, true] {
        let what = if reset { "a reset" } else { "others' reset" };
        explore(
            &format!("{what} while one entry becomes two"),
            Some(3),
            move || {
                let trackers = Arc::<Trackers>::default();
                let cq = Cq::compressed(&trackers, 2);
                let mut pair = Pair::new(&cq, 7, Receives::None);
                let mut others = Pair::new(&cq, 8, Receives::None);
                let (one, two) = (pair.post(10), pair.post(11));
                cq.write_as_one(&pair, [one, two]);
                let mut poller = cq.poller();
                let polls = thread::spawn(move || {
                    let done = poller.poll(2, Way::Short);
                    (poller, done)
                });
                let resets = if reset { &mut pair } else { &mut others };
                resets.reset();
                assert!(resets.send(&cq, 20));
                let (mut poller, done) = polls.join().unwrap();
                let all = [numbers(&done), numbers(&poller.rest())].concat();
                match (reset, &all[..]) {
                    (_, [10, 11, 20]) | (true, [20] | [10, 20]) => {}
                    _ => panic!("{all:?}"),
                }
            },
        );
    }
}

/// A completion queue is destroyed with waiting entries, while requests of the shared queue are
/// posted, polled in another completion queue, and queried.
#[test]
fn receives_left_in_a_destroyed_completion_queue_are_returned() {
    explore("a completion queue goes", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cqs = [(); 2].map(|()| Cq::new(&trackers, 2, false));
        let mut srq = Srq::new(3);
        let pairs = cqs.each_ref().map(|cq| Pair::new(cq, 7, srq.receives()));
        for (wr_id, at) in [(10, 0), (11, 1), (12, 0)] {
            assert!(srq.post(wr_id));
            srq.message(&cqs[at], &pairs[at]);
        }
        let mut gone = cqs[0].poller();
        let mut reported = numbers(&gone.poll(1, Way::Short));
        drop(gone);
        let left = cqs[0].left();
        let [first, second] = pairs;
        let number = first.index;
        let ends = thread::spawn(move || {
            // The kernel destroys the queue pair, then the completion queue.
            first.gone();
            drop(left);
        });
        let mut poller = cqs[1].poller();
        let polls = thread::spawn(move || {
            let done = poller.poll(1, Way::Short);
            (poller, done)
        });
        let mut posted = vec![10, 11, 12];
        reported.extend(srq.unreported());
        if srq.post(13) {
            posted.push(13);
            srq.message(&cqs[1], &second);
        }
        ends.join().unwrap();
        let (mut poller, done) = polls.join().unwrap();
        reported.extend(numbers(&[done, poller.rest()].concat()));
        reported.extend(srq.unreported());
        reported.sort_unstable();
        assert_eq!(reported, posted);
        assert_eq!(srq.room(), 3);
        let next = Pair::new(&cqs[1], 8, Receives::None);
        assert_eq!(next.index, number, "nothing carries it");
    });
}
