//! Receives of shared queues that met page faults.

use uverbs_core::types::RecvRequest;

use super::*;
use crate::srq::ring::SharedRing;
use crate::srq::ring::tests::ring;

/// Syndrome 0x22 with vendor syndrome 0x93.
const FAULT: [u64; 6] = [0, 0, 0, 0, 0x9322, 0];

/// A queue of up to three requests, posted as 40, 41, ….
fn queue(posted: u64) -> SharedRing {
    let mut queue = ring(3, 1, Some(64));
    for wr_id in 40..40 + posted {
        let scatter = &[];
        queue.put(&RecvRequest { wr_id, scatter }).unwrap();
        queue.submit().unwrap();
    }
    queue
}

fn receives(queue: &SharedRing) -> Receives {
    Receives::Shared(Arc::clone(queue.tracker()))
}

#[test]
fn a_faulted_receive_is_reposted_without_a_completion() {
    for way in 0..2 {
        let mut device = Device::new(3, 64);
        let queue = queue(1);
        let (number, _) = device.pair(receives(&queue));
        let poll = |device: &mut Device| {
            if way == 0 {
                return device.poll();
            }
            let mut out = [WorkCompletion::default(); 4];
            let count = device.consumer.fill::<Own, _>(&mut out).unwrap();
            assert!(count <= 1);
            (count == 1).then_some(out[0])
        };
        device.write(opcode::RECEIVE_ERROR, number, 0, FAULT);
        assert_eq!(poll(&mut device), None);
        assert_eq!((device.consumer.position(), queue.handed_over()), (1, 2));
        // In the slot that was empty, and again in one that was at rest.
        let (second, third) = (queue.behind(0), queue.behind(queue.behind(0)));
        device.write(opcode::RECEIVE_ERROR, number, second as u16, FAULT);
        device.write(opcode::RECEIVE, number, third as u16, NOTHING);
        let done = poll(&mut device).unwrap();
        assert_eq!((done.wr_id, done.status), (40, WcStatus::Success));
        assert_eq!(poll(&mut device), None);
        assert_eq!(queue.handed_over(), 3);
    }
}

#[test]
fn other_errors_and_faults_of_unpaged_queues_are_reported() {
    let mut device = Device::new(3, 64);
    let (mut other, queue) = (ring(3, 1, None), queue(2));
    let scatter = &[];
    other.put(&RecvRequest { wr_id: 50, scatter }).unwrap();
    other.submit().unwrap();
    let (number, _) = device.pair(receives(&queue));
    let (always, _) = device.pair(receives(&other));
    let of = |syndromes| [0, 0, 0, 0, syndromes, 0];
    device.write(opcode::RECEIVE_ERROR, number, 0, of(0x9222));
    device.write(opcode::RECEIVE_ERROR, number, 1, of(0x9305));
    device.write(opcode::RECEIVE_ERROR, always, 0, FAULT);
    let reported = [(); 3].map(|()| device.poll().map(|done| (done.wr_id, done.status)));
    let expected = [
        (40, WcStatus::RemoteAborted),
        (41, WcStatus::Flushed),
        (50, WcStatus::RemoteAborted),
    ];
    assert_eq!(reported, expected.map(Some));
    assert_eq!((queue.handed_over(), other.handed_over()), (2, 1));
}

/// The receives of a queue pair's own queue wait in their slots; such entries do not occur for
/// them.
#[test]
fn a_queue_of_its_own_has_none() {
    let mut device = Device::new(3, 64);
    let (number, pair) = device.pair(Receives::Own(RecvTracker::new(4)));
    let Receives::Own(queue) = &pair.recv else {
        panic!("a queue of its own");
    };
    queue.posted(0, 9);
    device.write(opcode::RECEIVE_ERROR, number, 0, FAULT);
    let done = device.poll().unwrap();
    assert_eq!((done.wr_id, done.status), (9, WcStatus::RemoteAborted));
}

/// The shared queue continues without its queue pairs, and without pollers.
#[test]
fn a_faulted_receive_is_reposted_without_queue_pair_or_poller() {
    let mut device = Device::new(3, 64);
    let queue = queue(3);
    let mut at = 0;
    let mut next = || {
        let index = at;
        at = queue.behind(at);
        index as u16
    };
    // Of a former incarnation.
    let (number, pair) = device.pair(receives(&queue));
    device.write(opcode::RECEIVE_ERROR, number, next(), FAULT);
    pair.restart(device.produced, device.produced);
    assert_eq!((device.poll(), queue.handed_over()), (None, 4));
    // Of a queue pair that is gone.
    device.write(opcode::RECEIVE_ERROR, number, next(), FAULT);
    device.remove(number);
    assert_eq!((device.poll(), queue.handed_over()), (None, 5));
    // In a completion queue that is gone.
    let left = Left::new(&device.shared, &device.trackers, false, ());
    let (number, _) = device.pair(receives(&queue));
    device.write(opcode::RECEIVE_ERROR, number, next(), FAULT);
    device.remove(number);
    drop(left);
    assert_eq!(queue.handed_over(), 6);
    let mut reported = Vec::new();
    queue
        .tracker()
        .take_unreported(|wr_id| reported.push(wr_id));
    assert_eq!(reported, []);
    assert_eq!(
        [(); 3].map(|()| queue.tracker().completed(next())),
        [40, 41, 42].map(Some)
    );
}

#[test]
fn a_faulted_receive_is_reposted_where_completions_name_the_shared_queue() {
    for by_device in [false, true] {
        let mut device = Device::new(3, 64);
        let queue = queue(1);
        let owner = Owner::Srq(Arc::clone(queue.tracker()));
        let op = Op::CreateSharedReceiveQueue;
        let reports = Reports {
            sends: None,
            receives: Some(Arc::clone(&device.shared)),
        };
        let registered = if by_device {
            device.consumer = Consumer::new(&device.shared, &device.trackers, true);
            let number = DeviceNumber::Srq(0x77);
            Registered::by_device(op, &device.trackers, number, owner, reports).unwrap()
        } else {
            Registered::new(op, &device.trackers, owner)
                .unwrap()
                .created(reports)
        };
        let number = if by_device {
            0x77
        } else {
            registered.user_index()
        };
        device.write(opcode::RECEIVE_ERROR, number, 0, FAULT);
        device.write(opcode::RECEIVE, number, queue.behind(0) as u16, NOTHING);
        assert_eq!(device.poll().map(|done| done.wr_id), Some(40));
    }
}

#[test]
fn bogus_faults_are_errors_and_repost_nothing() {
    let mut device = Device::new(4, 64);
    let queue = queue(2);
    let (number, _) = device.pair(receives(&queue));
    let (gone, _) = device.pair(receives(&queue));
    device.write(opcode::RECEIVE, number, 1, NOTHING);
    assert_eq!(device.poll().unwrap().wr_id, 41);
    device.write(opcode::RECEIVE_ERROR, gone, 1, FAULT);
    device.remove(gone);
    // Free, not posted, at rest, and out of range.
    for index in [1, 2, 5, 8] {
        device.write(opcode::RECEIVE_ERROR, number, index, FAULT);
    }
    for _ in 0..5 {
        assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    }
    assert_eq!(queue.handed_over(), 2);
    // The first of these is skipped.
    device.write(opcode::RECEIVE_ERROR, number, 0, FAULT);
    device.write(opcode::RECEIVE_ERROR, number, 0, FAULT);
    device.write(opcode::RECEIVE, number, 0, NOTHING);
    for _ in 0..2 {
        assert_eq!(device.consumer.next(), Err(PollError::Corrupt));
    }
    assert_eq!((device.poll(), queue.handed_over()), (None, 3));
}

/// The number of the key is where other entries have that of a queue.
#[test]
fn a_wrong_signature_is_that_of_its_key_and_of_no_queue() {
    let mut device = Device::new(4, 64);
    let (number, pair) = device.pair(Receives::None);
    pair.send.posted(0, 40, 1, WcOpcode::RdmaWrite);
    let errors = Arc::default();
    device.trackers.keys.add(0x56_7800 >> 8, &errors);
    let middle = [
        0x0123_4567_89ab_cdef,
        0x1111_1111_2222_2222,
        0x56_7801,
        1040,
        0,
        0,
    ];
    // What stands where the user index does otherwise, that of the queue pair among it.
    let about = 1 << 28 | number;
    device.write(opcode::SIGNATURE_ERROR, about, 0, middle);
    device.write(opcode::REQUEST, number, 0, NOTHING);
    assert_eq!(device.poll().map(|done| done.wr_id), Some(40));
    assert_eq!(pair.sent_tail(), 1);
    let report = errors.found().unwrap();
    assert_eq!(report.expected, 0x0123_4567_1111_1111);
    assert_eq!(report.actual, 0x89ab_cdef_2222_2222);
    assert_eq!((report.syndrome, report.offset), (0x1000, 1040));
    assert_eq!(errors.news(), Some(2));
    // Of a key that is gone, and of none.
    device.trackers.keys.remove(0x56_7800 >> 8, &errors);
    errors.forget(&report);
    device.write(opcode::SIGNATURE_ERROR, about, 0, middle);
    device.write(opcode::SIGNATURE_ERROR, 0xff_ffff, 0, NOTHING);
    assert_eq!(device.poll(), None);
    assert_eq!((errors.found(), errors.news()), (None, Some(2)));
}
