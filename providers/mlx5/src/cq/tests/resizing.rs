//! Resizing: which ring is polled, and with which entries.

use super::*;

/// A queue of 4 entries with completions of requests 1 and 2 in it, of which the first was taken.
fn waiting() -> (Bench, CompletionQueue, Device) {
    let bench = Bench::new();
    let mut cq = bench.create(&init(3)).unwrap();
    let mut device = Device::new(&bench.context, &cq);
    device.send(&cq, 1);
    device.send(&cq, 2);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 1);
    bench.kernel.take_calls();
    (bench, cq, device)
}

/// The device goes on in another ring, which takes an entry of this one.
fn mark(cq: &CompletionQueue, device: &mut Device) {
    device.write(cq.consumer.ring(), opcode::RESIZE, 0, 0);
    device.produced -= 1;
}

#[test]
fn completions_are_taken_over_into_the_new_ring() {
    let (bench, mut cq, mut device) = waiting();
    let old = cq.place();
    mark(&cq, &mut device);
    cq.resize(20).unwrap();
    let told: mlx5_ib_resize_cq = bench.told();
    let place = cq.place();
    assert_eq!((told.buf_addr, told.cqe_size), (place.buffer, 64));
    assert_eq!((place.count, cq.entries()), (32, 31));
    assert_eq!(place.record, old.record);
    assert_eq!(bench.kernel.take_calls().len(), 1);
    // The device counts the mark, too.
    assert_eq!(given_back(&cq), 2);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 2);
    assert_eq!(given_back(&cq), 3);
    assert_eq!(cq.poll(), Ok(None));
    for wr_id in 3..70 {
        device.send(&cq, wr_id);
        assert_eq!(cq.poll().unwrap().unwrap().wr_id, wr_id);
    }
    assert!(Arc::ptr_eq(&cq.shared.lock(), cq.consumer.ring()));
}

#[test]
fn a_queue_of_that_size_is_left_as_it_is() {
    let (bench, mut cq, _device) = waiting();
    for entries in [2, 3] {
        cq.resize(entries).unwrap();
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    for (entries, kind) in [
        (0, ErrorKind::InvalidInput),
        (1001, ErrorKind::LimitExceeded),
    ] {
        let error = cq.resize(entries).unwrap_err();
        assert_eq!(
            (error.kind(), error.op()),
            (kind, Op::ResizeCompletionQueue)
        );
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn a_queue_has_room_for_what_waits_in_it() {
    let bench = Bench::new();
    let mut cq = bench.create(&init(7)).unwrap();
    let mut device = Device::new(&bench.context, &cq);
    for wr_id in 1..=4 {
        device.send(&cq, wr_id);
    }
    bench.kernel.take_calls();
    let error = cq.resize(3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for fact in ["requested 3", "waiting 4"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 1);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 2);
    // With the mark, three wait.
    mark(&cq, &mut device);
    cq.resize(3).unwrap();
    assert_eq!(cq.entries(), 3);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 3);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 4);
    assert_eq!(cq.poll(), Ok(None));
}

#[test]
fn a_refused_resize_changes_nothing() {
    let (bench, mut cq, mut device) = waiting();
    let place = cq.place();
    bench.kernel.refuse("", Errno::INVAL);
    let error = cq.resize(20).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    assert_eq!((cq.place(), given_back(&cq)), (place, 1));
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 2);
    bench.kernel.accept();
    mark(&cq, &mut device);
    cq.resize(20).unwrap();
    assert_eq!(cq.entries(), 31);
}

#[test]
fn after_a_resize_of_unknown_outcome_nothing_is_polled() {
    for (errno, marked) in [(Some(Errno::TIMEDOUT), true), (None, false)] {
        let (bench, mut cq, mut device) = waiting();
        if marked {
            mark(&cq, &mut device);
        }
        if let Some(errno) = errno {
            bench.kernel.refuse("", errno);
        }
        let error = cq.resize(20).unwrap_err();
        assert!(error.outcome_is_unknown(), "{error}");
        assert_eq!(cq.poll(), Err(PollError::Poisoned));
        bench.kernel.accept();
        bench.kernel.take_calls();
        let error = cq.resize(20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
        assert!(error.known_hint().unwrap().contains("destroy the queue"));
        assert_eq!(bench.kernel.take_calls(), [""; 0]);
    }
}

#[test]
fn a_full_ring_without_a_mark_is_a_bad_reply() {
    let (_bench, mut cq, mut device) = waiting();
    for wr_id in 3..=5 {
        device.send(&cq, wr_id);
    }
    let error = cq.resize(20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}
