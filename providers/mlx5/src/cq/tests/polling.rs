//! Taking completions, in every way.

use super::*;

fn polled(entries: u32) -> (Bench, CompletionQueue, Device) {
    let bench = Bench::new();
    let raw = CqInit {
        timestamps: Timestamps::Raw,
        ..init(entries)
    };
    let cq = bench.create(&raw).unwrap();
    let device = Device::new(&bench.context, &cq);
    (bench, cq, device)
}

#[test]
fn a_polled_completion_is_given_back_at_once() {
    let (_bench, mut cq, mut device) = polled(3);
    for wr_id in 0..20 {
        assert_eq!(cq.poll(), Ok(None));
        device.send(&cq, wr_id);
        let done = cq.poll().unwrap().unwrap();
        assert_eq!((done.wr_id, done.qp_num), (wr_id, QPN));
        assert_eq!((done.opcode, done.byte_len), (WcOpcode::RdmaRead, 64));
        assert_eq!(u64::from(given_back(&cq)), wr_id + 1);
        assert_eq!(cq.shared.taken(), wr_id + 1);
    }
}

#[test]
fn the_next_completion_is_given_back_when_it_is_released() {
    let (_bench, mut cq, mut device) = polled(3);
    assert_eq!(cq.timestamp(), None, "none was taken");
    device.send(&cq, 8);
    device.send(&cq, 9);
    assert_eq!(cq.next().unwrap().unwrap().wr_id, 8);
    assert_eq!((given_back(&cq), cq.timestamp()), (0, Some(9)));
    cq.release();
    assert_eq!(given_back(&cq), 1);
    assert_eq!(cq.next().unwrap().unwrap().wr_id, 9);
    assert_eq!((given_back(&cq), cq.timestamp()), (1, Some(10)));
    assert_eq!(cq.next(), Ok(None));
    assert_eq!(given_back(&cq), 1, "nothing more was taken");
}

#[test]
fn a_stamped_completion_has_the_time_of_its_entry() {
    let (bench, mut cq, mut device) = polled(3);
    assert_eq!(cq.poll_stamped(), Ok(None));
    device.send(&cq, 8);
    let (done, stamp) = cq.poll_stamped().unwrap().unwrap();
    assert_eq!((done.wr_id, stamp, given_back(&cq)), (8, Some(9), 1));
    let mut without = bench.create(&init(3)).unwrap();
    let mut device = Device::new(&bench.context, &without);
    device.send(&without, 8);
    let (done, stamp) = without.poll_stamped().unwrap().unwrap();
    assert_eq!((done.wr_id, stamp), (8, None));
}

#[test]
fn a_failure_has_no_time() {
    let (_bench, mut cq, mut device) = polled(3);
    device.pair.send.posted(0, 8, 1, WcOpcode::Send);
    // A vendor's syndrome of 0x88, and that access was refused.
    device.write(cq.consumer.ring(), opcode::REQUEST_ERROR, 0, 0x8813);
    let (done, stamp) = cq.poll_stamped().unwrap().unwrap();
    assert_eq!((done.wr_id, done.status), (8, WcStatus::RemoteAccess));
    assert_eq!((done.vendor_err, stamp), (0x88, None));
}

#[test]
fn several_are_taken_at_once_up_to_the_slots_that_there_are() {
    let (_bench, mut cq, mut device) = polled(7);
    let mut out = [WorkCompletion::default(); 2];
    assert_eq!(cq.poll_into(&mut out), Ok(0));
    for wr_id in 1..=3 {
        device.send(&cq, wr_id);
    }
    assert_eq!(cq.poll_into(&mut out), Ok(2));
    assert_eq!(out.map(|done| done.wr_id), [1, 2]);
    assert_eq!(given_back(&cq), 2);
    assert_eq!(cq.poll_into(&mut out), Ok(1));
    assert_eq!((out[0].wr_id, given_back(&cq)), (3, 3));
    assert_eq!(cq.poll_into(&mut []), Ok(0));
}

#[test]
fn entries_are_taken_one_by_one_or_several_at_once() {
    let (_bench, mut cq, mut device) = polled(7);
    assert!(cq.poll_entry().unwrap().is_none());
    let mut whole = WorkCompletion::default();
    assert_eq!(cq.poll_whole(&mut whole), Ok(false));
    for wr_id in 1..=4 {
        device.send(&cq, wr_id);
    }
    let one = cq.poll_entry().unwrap().unwrap();
    assert_eq!((one.wr_id(), one.byte_len(), given_back(&cq)), (1, 64, 1));
    assert_eq!(cq.poll_whole(&mut whole), Ok(true));
    assert_eq!((whole.wr_id, given_back(&cq)), (2, 2));
    let mut out = [Taken::default(); 4];
    assert_eq!(cq.poll_entries(&mut out), Ok(2));
    assert_eq!((out[0].wr_id(), out[1].wr_id(), given_back(&cq)), (3, 4, 4));
}

#[test]
fn a_message_is_taken_with_the_fields_of_its_frame() {
    let (_bench, mut cq, mut device) = polled(7);
    assert_eq!(cq.frame_fields(), FrameFields::default());
    let Receives::Own(queue) = &device.pair.recv else {
        unreachable!("a queue of its own")
    };
    for at in 0..4_u32 {
        queue.posted(at, u64::from(at) + 5);
    }
    for (kind, imm) in [
        (opcode::RECEIVE, None),
        (opcode::RECEIVE_IMM, Some(0)),
        (opcode::RECEIVE, None),
        (opcode::RECEIVE_WRITE_IMM, Some(0)),
    ] {
        device.write(cq.consumer.ring(), kind, 0, 1);
        let expected = device.produced + 4;
        // Alternately by way of polling, and of looking before giving back.
        let done = if kind == opcode::RECEIVE {
            cq.poll().unwrap().unwrap()
        } else {
            let done = cq.next().unwrap().unwrap();
            let fields = FrameFields {
                vlan: 0x77,
                tag: QPN,
            };
            assert_eq!(cq.frame_fields(), fields);
            cq.release();
            done
        };
        assert_eq!((done.wr_id, done.imm), (expected, imm));
        assert_eq!(u64::from(given_back(&cq)), device.produced);
        assert!(done.flags.contains(WcFlags::GRH));
    }
}

#[test]
fn entries_of_queues_that_are_gone_are_skipped_and_given_back() {
    type Take = fn(&mut CompletionQueue) -> bool;
    let ways: [Take; 5] = [
        |cq| cq.poll().unwrap().is_none(),
        |cq| cq.next().unwrap().is_none(),
        |cq| cq.poll_stamped().unwrap().is_none(),
        |cq| cq.poll_into(&mut [WorkCompletion::default()]).unwrap() == 0,
        |cq| cq.poll_entry().unwrap().is_none(),
    ];
    let (bench, mut cq, mut device) = polled(7);
    for (at, take) in (0_u32..).zip(ways) {
        // Entries with the number of a queue pair that does not exist.
        let mut gone = Device::new(&bench.context, &cq);
        gone.produced = device.produced;
        gone.send(&cq, 1);
        device.produced = gone.produced;
        drop(gone);
        assert!(take(&mut cq), "{at}");
        assert_eq!(given_back(&cq), at + 1, "{at}");
    }
    device.send(&cq, 2);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 2);
}

#[test]
fn an_entry_that_no_request_can_have_is_an_error_and_given_back() {
    let (_bench, mut cq, mut device) = polled(7);
    device.write(cq.consumer.ring(), 9, 0, 0);
    assert_eq!(cq.poll(), Err(PollError::Corrupt));
    assert_eq!(given_back(&cq), 1);
    device.write(cq.consumer.ring(), 9, 0, 0);
    assert_eq!(cq.next(), Err(PollError::Corrupt));
    assert_eq!(given_back(&cq), 2);
    device.write(cq.consumer.ring(), 9, 0, 0);
    let mut out = [WorkCompletion::default(); 2];
    assert_eq!(cq.poll_into(&mut out), Err(PollError::Corrupt));
    assert_eq!(given_back(&cq), 3);
    device.send(&cq, 5);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 5);
}

#[test]
fn a_queue_whose_ring_is_unknown_is_not_polled() {
    let (_bench, mut cq, mut device) = polled(3);
    device.send(&cq, 5);
    assert_eq!(cq.next().unwrap().unwrap().wr_id, 5);
    device.send(&cq, 6);
    let fork = std::mem::replace(&mut cq.fork, ForkToken::of_no_process());
    let refused = PollError::Poisoned;
    assert_eq!(cq.poll(), Err(refused));
    assert_eq!(cq.next(), Err(refused));
    assert_eq!(cq.poll_stamped(), Err(refused));
    let mut out = [WorkCompletion::default()];
    assert_eq!(cq.poll_into(&mut out), Err(refused));
    assert_eq!(cq.poll_whole(&mut out[0]), Err(refused));
    assert_eq!(cq.poll_entries(&mut [Taken::default()]), Err(refused));
    cq.release();
    assert_eq!(given_back(&cq), 0, "the slot is not the caller's");
    cq.fork = fork;
    cq.release();
    assert_eq!(given_back(&cq), 1);
    assert_eq!(cq.poll().unwrap().unwrap().wr_id, 6);
}

#[test]
fn what_was_taken_before_a_queue_is_dropped_counts() {
    let (_bench, mut cq, mut device) = polled(3);
    device.send(&cq, 5);
    cq.next().unwrap().unwrap();
    let shared = Arc::clone(&cq.shared);
    assert_eq!(shared.taken(), 0);
    // Without it, what is left in the queue would be taken, too.
    let _object = Arc::clone(cq.object());
    drop(cq);
    assert_eq!(shared.taken(), 1);
}

#[test]
fn arming_writes_the_word_to_memory_and_to_the_register() {
    let events = Arc::new(AtomicU32::new(6));
    let bench = Bench::new();
    let counted = CqInit {
        events: Some(&events),
        ..init(3)
    };
    let mut cq = bench.create(&counted).unwrap();
    let mut device = Device::new(&bench.context, &cq);
    let page = Arc::clone(cq.arm.page());
    for (solicited, word) in [(false, 0x2000_0000), (true, 0x2100_0001)] {
        cq.arm(solicited).unwrap();
        assert_eq!(cq.record.load(ARM), word);
        let stored = u64::from_be(page.load(0x20).unwrap());
        assert_eq!(stored, u64::from(word) << 32 | u64::from(NUMBER));
        device.send(&cq, 1);
        cq.poll().unwrap().unwrap();
    }
    let mut uncounted = bench.create(&init(3)).unwrap();
    uncounted.arm(false).unwrap();
    assert_eq!(uncounted.record.load(ARM), 0);
    assert!(
        cq.link()
            .shared::<Arc<CqShared>>(Op::CreateQueuePair)
            .is_ok()
    );
}
