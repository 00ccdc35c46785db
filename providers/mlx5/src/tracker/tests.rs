//! Posted requests, and what their completions return.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use uverbs_core::types::WcOpcode;

use super::*;

fn sender(blocks: u32) -> QueuePairTracker {
    QueuePairTracker::new(blocks, Receives::None)
}

fn wr_id(found: Request<Sent>) -> Request<u64> {
    match found {
        Request::Of(sent) => Request::Of(sent.wr_id),
        Request::Former => Request::Former,
        Request::Unknown => Request::Unknown,
    }
}

#[test]
fn a_completion_frees_what_was_posted_before_it() {
    let tracker = sender(8);
    tracker.send.posted(0, 10, 1, WcOpcode::Send);
    tracker.send.posted(1, 11, 2, WcOpcode::RdmaWrite);
    tracker.send.posted(5, 12, 3, WcOpcode::RdmaRead);
    let sent = Sent {
        wr_id: 12,
        kind: SentKind::of(WcOpcode::RdmaRead),
    };
    assert_eq!(tracker.sent(0, 8 + 5), Request::Of(sent));
    assert_eq!(tracker.sent_tail(), 3);
    assert_eq!(sender(0).sent(0, 3), Request::Unknown);
}

#[test]
fn streams_may_overtake_each_other() {
    let tracker = sender(4).unordered();
    tracker.send.posted(0, 10, 1, WcOpcode::Send);
    tracker.send.posted(1, 11, 2, WcOpcode::RdmaRead);
    for index in [1, 0] {
        let expected = Request::Of(10 + u64::from(index));
        assert_eq!(wr_id(tracker.sent(0, index)), expected);
        assert_eq!(tracker.sent_tail(), 2);
    }
}

#[test]
fn receives_complete_in_order() {
    let tracker = QueuePairTracker::new(0, Receives::Own(RecvTracker::new(2)));
    let Receives::Own(queue) = &tracker.recv else {
        panic!("a queue of its own");
    };
    queue.posted(0, 7);
    queue.posted(1, 8);
    assert_eq!(tracker.received(0, 0), Request::Of(7));
    queue.posted(0, 9);
    assert_eq!(tracker.received(1, 1), Request::Of(8));
    assert_eq!(tracker.received(2, 2), Request::Of(9));
    assert_eq!(tracker.received_tail(), 3);
    assert_eq!(sender(1).received(0, 0), Request::Unknown);
}

#[test]
fn shared_receives_come_back_in_any_order() {
    let tracker = SrqTracker::new(70);
    tracker.post(69, 1);
    tracker.post(3, 2);
    assert_eq!(tracker.completed(69), Some(1));
    assert_eq!(tracker.completed(3), Some(2));
    assert_eq!(tracker.completed(70), None);
    assert_eq!(tracker.taken(), (vec![3, 69], vec![]));
    assert_eq!(tracker.taken(), (vec![], vec![]));
}

#[test]
fn incarnations_are_distinguished() {
    let shared = Arc::new(SrqTracker::new(4));
    shared.post(0, 70);
    shared.post(1, 71);
    let tracker = QueuePairTracker::new(4, Receives::Shared(shared));
    tracker.send.posted(0, 1, 1, WcOpcode::Send);
    assert_eq!(wr_id(tracker.sent(4, 0)), Request::Of(1));
    tracker.restart(5, 9);
    assert_eq!(tracker.sent_tail(), 0);
    tracker.send.posted(0, 2, 1, WcOpcode::Send);
    assert_eq!(tracker.sent(4, 0), Request::Former);
    assert_eq!(wr_id(tracker.sent(5, 0)), Request::Of(2));
    assert_eq!(tracker.received(8, 0), Request::Former);
    assert_eq!(tracker.received(8, 0), Request::Unknown, "it is over");
    assert_eq!(tracker.received(9, 1), Request::Of(71));
}

#[test]
fn a_shared_receive_belongs_to_the_incarnation_that_used_it() {
    let shared = Arc::new(SrqTracker::new(4));
    shared.post(1, 71);
    let tracker = QueuePairTracker::new(4, Receives::Shared(shared));
    tracker.restart(5, 9);
    assert_eq!(tracker.received_shared(8, 1), None);
    assert_eq!(tracker.received_shared(9, 1), Some(71));
    assert_eq!(tracker.received_shared(9, 1), None, "it is over");
}

/// A reset, and new requests in the old slots, between any two steps of a poll.
#[test]
fn a_poll_that_a_reset_overtakes_completes_nothing() {
    for steps_before in 0..3 {
        let tracker = QueuePairTracker::new(4, Receives::Own(RecvTracker::new(4)));
        let Receives::Own(queue) = &tracker.recv else {
            panic!("a queue of its own");
        };
        let post = |first: u64| {
            for index in 0..4 {
                let wr_id = first + u64::from(index);
                tracker.send.posted(index, wr_id, index + 1, WcOpcode::Send);
                queue.posted(index, wr_id);
            }
        };
        tracker.restart(0, 0);
        post(10);
        assert_eq!(wr_id(tracker.sent(0, 0)), Request::Of(10));
        assert_eq!(tracker.received(0, 0), Request::Of(10));
        let reset = |now| {
            if now {
                tracker.restart(2, 2);
                post(20);
            }
        };
        reset(steps_before == 0);
        let (mut sends, mut receives) = (tracker.sends(), tracker.receives().unwrap());
        reset(steps_before == 1);
        sends.completed(1);
        receives.completed();
        reset(steps_before == 2);
        assert!(!sends.end(1) && !receives.end(1));
        assert_eq!((tracker.sent_tail(), tracker.received_tail()), (0, 0));
        for index in 0..4 {
            let (at, expected) = (2 + u64::from(index), 20 + u64::from(index));
            assert_eq!(wr_id(tracker.sent(at, index)), Request::Of(expected));
            assert_eq!(tracker.received(at, index), Request::Of(expected));
        }
        assert_eq!((tracker.sent_tail(), tracker.received_tail()), (4, 4));
    }
}
