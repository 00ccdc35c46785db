//! A queue pair posts and is reset, while its completions are polled.

use std::sync::Arc;

use super::explore;
use super::world::{BLOCKS, Cq, Pair, Way, numbers, own};
use crate::sync::thread;
use crate::tracker::Receives;
use crate::tracker::table::Trackers;

/// Posts more than the ring has room for: a slot is reused once its completion was polled.
#[test]
fn a_send_slot_is_reused_once_its_completion_was_polled() {
    for way in [Way::Short, Way::Long, Way::Many] {
        explore(
            &format!("a place of the send ring comes again, {way:?}"),
            None,
            move || {
                let trackers = Arc::<Trackers>::default();
                let cq = Cq::new(&trackers, 2, false);
                let mut pair = Pair::new(&cq, 7, Receives::None);
                let mut poller = cq.poller();
                let polls = thread::spawn(move || {
                    let done = poller.poll(3, way);
                    (poller, done)
                });
                let posted: Vec<u64> = (1..=3).filter(|wr_id| pair.send(&cq, *wr_id)).collect();
                let (mut poller, mut done) = polls.join().unwrap();
                done.extend(poller.rest());
                assert_eq!(numbers(&done), posted);
                assert_eq!(pair.tracker.sent_tail() as usize, posted.len());
            },
        );
    }
}

#[test]
fn a_receive_slot_is_reused_once_its_completion_was_polled() {
    for way in [Way::Short, Way::Many] {
        explore(
            &format!("a place of the receive ring comes again, {way:?}"),
            None,
            move || {
                let trackers = Arc::<Trackers>::default();
                let cq = Cq::new(&trackers, 2, false);
                let mut pair = Pair::new(&cq, 7, own());
                let mut poller = cq.poller();
                let polls = thread::spawn(move || {
                    let done = poller.poll(3, way);
                    (poller, done)
                });
                let posted: Vec<u64> = (1..=3).filter(|wr_id| pair.receive(&cq, *wr_id)).collect();
                let (mut poller, mut done) = polls.join().unwrap();
                done.extend(poller.rest());
                assert_eq!(numbers(&done), posted);
                assert_eq!(pair.tracker.received_tail() as usize, posted.len());
            },
        );
    }
}

/// The steps of a thread on a queue pair whose incarnation is being polled: a request, a reset, a
/// request in the same slot.
fn reset(recv: fn() -> Receives, post: fn(&mut Pair, &Cq, u64) -> bool, way: Way) {
    let trackers = Arc::<Trackers>::default();
    let cq = Cq::new(&trackers, 2, false);
    let mut pair = Pair::new(&cq, 7, recv());
    let mut poller = cq.poller();
    // The poller has seen the incarnation that ends.
    assert!(post(&mut pair, &cq, 10));
    assert_eq!(numbers(&poller.rest()), [10]);
    let polls = thread::spawn(move || {
        let done = poller.poll(2, way);
        (poller, done)
    });
    assert!(post(&mut pair, &cq, 11));
    pair.reset();
    // In the slot of the first, and of the second.
    assert!(post(&mut pair, &cq, 20));
    assert!(post(&mut pair, &cq, 21));
    let (mut poller, before) = polls.join().unwrap();
    let rest = numbers(&poller.rest());
    assert!(!rest.contains(&11), "its life was over");
    let all = [numbers(&before), rest].concat();
    let present: Vec<u64> = all.iter().copied().filter(|wr_id| *wr_id != 11).collect();
    assert_eq!(present, [20, 21], "{all:?}");
    assert!(all.iter().filter(|wr_id| **wr_id == 11).count() <= 1);
    let tails = (pair.tracker.sent_tail(), pair.tracker.received_tail());
    assert!(tails == (2, 0) || tails == (0, 2), "{tails:?}");
}

#[test]
fn a_queue_pair_is_reset_while_it_is_polled() {
    for way in [Way::Short, Way::Long, Way::Many] {
        explore(
            &format!("a reset between sends, {way:?}"),
            Some(3),
            move || {
                reset(|| Receives::None, Pair::send, way);
            },
        );
        explore(
            &format!("a reset between receives, {way:?}"),
            Some(3),
            move || {
                reset(own, Pair::receive, way);
            },
        );
    }
}

/// A request that was posted and not carried out leaves nothing behind, and two resets are
/// equivalent to one.
#[test]
fn resets_leave_nothing_behind() {
    explore("two resets", Some(3), || {
        let trackers = Arc::<Trackers>::default();
        let cq = Cq::new(&trackers, 2, false);
        let mut pair = Pair::new(&cq, 7, Receives::None);
        let mut poller = cq.poller();
        let polls = thread::spawn(move || {
            let done = poller.poll(2, Way::Short);
            (poller, done)
        });
        assert!(pair.send(&cq, 10));
        pair.post(11);
        pair.reset();
        pair.post(20);
        pair.reset();
        for wr_id in 0..u64::from(BLOCKS) {
            assert!(pair.send(&cq, 30 + wr_id));
        }
        let (mut poller, before) = polls.join().unwrap();
        let mut all = numbers(&before);
        all.extend(numbers(&poller.rest()));
        assert!(matches!(all[..], [30, 31] | [10, 30, 31]), "{all:?}");
        assert_eq!(pair.tracker.sent_tail(), BLOCKS);
    });
}
