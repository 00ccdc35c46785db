//! Resizing completion queues that hold completions.

use uverbs::{CompletionQueue, ErrorKind, QpType, SendRequest};
use verbs_tests::{Pair, drain, nothing, open, raw};

/// Sends `wr_ids` from a to b and leaves the completions in the queues; all of them have arrived.
fn fill(pair: &mut Pair, wr_ids: std::ops::Range<u64>) {
    for wr_id in wr_ids.clone() {
        raw::recv(&mut pair.b.qp, wr_id, &[]).unwrap();
        let request = SendRequest::send(&[]).wr_id(wr_id).signaled();
        raw::send(&mut pair.a.qp, &[request]).unwrap();
    }
    // Sends complete after their receives; the last one after a short time.
    drain(&mut pair.b.cq, wr_ids.count());
    std::thread::sleep(std::time::Duration::from_millis(20));
}

fn take(cq: &mut CompletionQueue, wr_ids: std::ops::Range<u64>) {
    for expected in wr_ids {
        let done = verbs_tests::next(cq);
        assert_eq!((done.wr_id, done.is_success()), (expected, true));
    }
}

#[test]
fn an_empty_queue_grows_and_shrinks() {
    let mut cq = open().create_cq(10).unwrap();
    for entries in [100, 1000, 5, 1, 32_767, 7] {
        cq.resize(entries).unwrap();
        assert!(cq.entries() >= entries);
        assert!(cq.entries() < (entries + 1) * 2);
        assert!(cq.poll().unwrap().is_none());
    }
}

#[test]
fn completions_stay_in_their_order() {
    let mut pair = Pair::new(QpType::Rc);
    fill(&mut pair, 0..20);
    take(&mut pair.a.cq, 0..3);
    pair.a.cq.resize(1000).unwrap();
    take(&mut pair.a.cq, 3..6);
    // Twice, with completions inside: this crashes rdma-core 56.
    pair.a.cq.resize(500).unwrap();
    pair.a.cq.resize(17).unwrap();
    take(&mut pair.a.cq, 6..9);
    fill(&mut pair, 20..25);
    pair.a.cq.resize(300).unwrap();
    take(&mut pair.a.cq, 9..25);
    nothing(&mut pair.a.cq);
    fill(&mut pair, 25..60);
    take(&mut pair.a.cq, 25..60);
}

#[test]
fn a_ring_that_has_wrapped_is_moved_whole() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.cq.resize(7).unwrap();
    for round in 0..8 {
        let from = round * 12;
        fill(&mut pair, from..from + 5);
        take(&mut pair.a.cq, from..from + 5);
        fill(&mut pair, from + 5..from + 12);
        pair.a
            .cq
            .resize(if round % 2 == 0 { 15 } else { 7 })
            .unwrap();
        take(&mut pair.a.cq, from + 5..from + 12);
    }
    nothing(&mut pair.a.cq);
}

#[test]
fn fewer_entries_than_completions_are_refused_and_nothing_is_lost() {
    let mut pair = Pair::new(QpType::Rc);
    fill(&mut pair, 0..40);
    let before = pair.a.cq.entries();
    for entries in [1, 20, 39] {
        let error = pair.a.cq.resize(entries).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{entries}: {error}");
        assert_eq!(pair.a.cq.entries(), before);
    }
    take(&mut pair.a.cq, 0..10);
    pair.a.cq.resize(30).unwrap();
    take(&mut pair.a.cq, 10..40);
    nothing(&mut pair.a.cq);
}

#[test]
fn sizes_that_are_impossible() {
    let context = open();
    let max = context.device_attr().max_cqe;
    let mut cq = context.create_cq(10).unwrap();
    assert_eq!(cq.resize(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    for entries in [max + 1, u32::MAX] {
        assert_eq!(
            cq.resize(entries).unwrap_err().kind(),
            ErrorKind::LimitExceeded
        );
    }
    cq.resize(max).unwrap();
}

#[test]
fn a_queue_is_resized_while_completions_arrive() {
    let mut pair = Pair::new(QpType::Rc);
    let mut posted = 0;
    let mut taken = 0;
    for round in 0..200_u64 {
        for _ in 0..8 {
            raw::recv(&mut pair.b.qp, posted, &[]).unwrap();
            let request = SendRequest::send(&[]).wr_id(posted).signaled();
            raw::send(&mut pair.a.qp, &[request]).unwrap();
            posted += 1;
        }
        // At most 16 are inside.
        let entries = [20, 100, 33, 500][round as usize % 4];
        pair.a.cq.resize(entries).unwrap();
        take(&mut pair.a.cq, taken..taken + 8);
        taken += 8;
        drain(&mut pair.b.cq, 8);
    }
    assert_eq!(taken, posted);
    nothing(&mut pair.a.cq);
}
