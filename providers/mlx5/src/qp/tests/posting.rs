//! Posting, by the transport and by where messages are delivered.

use uverbs_core::types::{Destination, LocalKey, RecvRequest, Remote, RemoteKey, SendFlags, Sge};

use super::*;
use crate::qp::MaskedAtomic;
use crate::rq::ReceiveRing;
use crate::sq::SendRing;

pub(super) fn put_receive(qp: &mut QueuePair, wr_id: u64) -> Result<(), PostError> {
    let request = RecvRequest {
        wr_id,
        scatter: &[],
    };
    // SAFETY: it names no memory.
    #[expect(unsafe_code, reason = "posts a receive")]
    unsafe {
        qp.put_recv(&request)
    }
}

fn post(qp: &mut QueuePair, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
    // SAFETY: they name no memory.
    #[expect(unsafe_code, reason = "posts requests")]
    unsafe {
        qp.post_send(requests)
    }
}

fn post_receives(qp: &mut QueuePair, count: usize) -> Result<(), (usize, PostError)> {
    let request = RecvRequest {
        wr_id: 1,
        scatter: &[],
    };
    // SAFETY: they name no memory.
    #[expect(unsafe_code, reason = "posts receives")]
    unsafe {
        qp.post_recv(&vec![request; count])
    }
}

/// How many requests the queue pair told the device of: sends in blocks, and receives.
fn submitted(qp: &QueuePair) -> (u32, u32) {
    let scattered = qp.scattered.as_deref().map(|scattered| &scattered.ring);
    let recv = qp.recv.as_ref().or(scattered);
    (
        qp.send.as_ref().map_or(0, SendRing::handed_over),
        recv.map_or(0, ReceiveRing::handed_over),
    )
}

fn created(bench: &Bench, kind: QpType, scatters: bool) -> QueuePair {
    let init = QpInit {
        signal: SigMode::Requested,
        ..bench.init(kind)
    };
    let mut extra = QpExtra::default();
    extra.scatters = scatters;
    sending(bench.create(&extra, &init).unwrap())
}

const SEND: SendRequest<'static> = SendRequest::new(Operation::Send, Payload::Gather(&[]));

#[test]
fn sends_are_submitted_together() {
    let bench = Bench::new();
    let mut qp = created(&bench, QpType::Rc, false);
    put(&mut qp).unwrap();
    put(&mut qp).unwrap();
    assert_eq!(submitted(&qp), (0, 0));
    qp.submit_send().unwrap();
    assert_eq!(submitted(&qp), (2, 0));
    put(&mut qp).unwrap();
    qp.abort_send();
    qp.submit_send().unwrap();
    assert_eq!(submitted(&qp), (2, 0));
    post(&mut qp, &[SEND; 3]).unwrap();
    assert_eq!(submitted(&qp), (5, 0));
    let (posted, error) = post(&mut qp, &[SEND; 64]).unwrap_err();
    assert_eq!(error, PostError::QueueFull);
    let (sent, _) = submitted(&qp);
    assert_eq!(u32::try_from(posted).unwrap() + 5, sent);
}

#[test]
fn datagrams_are_posted_up_to_the_first_that_is_refused() {
    let bench = Bench::new();
    let mut qp = created(&bench, QpType::Ud, false);
    let address = Address::new(bench.context.file(), None, 0, [0; 88]);
    let to = Destination {
        address: &address,
        qp_num: 7,
        qkey: 1,
    };
    let datagram = SEND.to(to);
    post(&mut qp, &[datagram]).unwrap();
    let (one, _) = submitted(&qp);
    assert_ne!(one, 0);
    // What was put and forgotten is not submitted with others.
    put(&mut qp).unwrap_err();
    post(&mut qp, &[datagram; 2]).unwrap();
    assert_eq!(submitted(&qp).0, 3 * one);
    let (posted, error) = post(&mut qp, &[datagram, SEND, datagram]).unwrap_err();
    assert_eq!((posted, error), (1, PostError::InvalidRequest));
    assert_eq!(submitted(&qp).0, 4 * one);
    let (posted, error) = post(&mut qp, &[SEND]).unwrap_err();
    assert_eq!((posted, error), (0, PostError::InvalidRequest));
    assert_eq!(submitted(&qp).0, 4 * one);
}

#[test]
fn receives_are_submitted_wherever_messages_are_delivered() {
    let bench = Bench::new();
    for scatters in [false, true] {
        let mut qp = created(&bench, QpType::Rc, scatters);
        assert_eq!(qp.recv.is_none(), scatters);
        put_receive(&mut qp, 1).unwrap();
        put_receive(&mut qp, 2).unwrap();
        assert_eq!(submitted(&qp), (0, 0));
        qp.submit_recv().unwrap();
        assert_eq!(submitted(&qp), (0, 2));
        put_receive(&mut qp, 3).unwrap();
        qp.abort_recv();
        qp.submit_recv().unwrap();
        assert_eq!(submitted(&qp), (0, 2));
        post_receives(&mut qp, 1).unwrap();
        post_receives(&mut qp, 2).unwrap();
        assert_eq!(submitted(&qp), (0, 5));
        let refused = post_receives(&mut qp, 4);
        assert_eq!(refused, Err((3, PostError::QueueFull)));
        assert_eq!(put_receive(&mut qp, 9), Err(PostError::QueueFull));
    }
}

#[test]
fn a_queue_pair_without_a_queue_refuses_requests_of_it() {
    let bench = Bench::new();
    let shared = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..bench.init(QpType::Rc)
    };
    let mut qp = sending(bench.create(&QpExtra::default(), &shared).unwrap());
    let refused = PostError::UnsupportedOperation;
    assert_eq!(put_receive(&mut qp, 1), Err(refused));
    assert_eq!(qp.submit_recv(), Err(refused));
    assert_eq!(post_receives(&mut qp, 1), Err((0, refused)));
    assert_eq!(post_receives(&mut qp, 2), Err((0, refused)));
    let domain = XrcDomain::open(&bench.context, None).unwrap();
    let mut target = domain.create_target(&bench.context, 9).unwrap();
    assert_eq!(put(&mut target), Err(refused));
    assert_eq!(target.submit_send(), Err(refused));
    assert_eq!(post(&mut target, &[SEND]), Err((0, refused)));
}

#[test]
fn masked_atomics_are_of_eight_bytes_and_need_a_device_that_has_them() {
    let bench = Bench::new();
    let plain = bench.create(&QpExtra::default(), &bench.init(QpType::Rc));
    let datagrams = bench.create(&QpExtra::default(), &bench.init(QpType::Ud));
    let (mut plain, mut datagrams) = (sending(plain.unwrap()), sending(datagrams.unwrap()));
    let put = |qp: &mut QueuePair, address, length| {
        let operation = MaskedAtomic::FetchAdd {
            add: 1,
            boundary: 0,
        };
        let remote = Remote {
            address,
            key: RemoteKey::from_raw(2),
        };
        let sge = Sge {
            address: 0x1000,
            length,
            key: LocalKey::from_raw(3),
        };
        let flags = SendFlags::empty();
        // SAFETY: no device reads the queue.
        #[expect(unsafe_code, reason = "posts a request")]
        unsafe {
            qp.put_masked_atomic(1, flags, remote, operation, &sge)
        }
    };
    let unsupported = Err(PostError::UnsupportedOperation);
    assert_eq!(put(&mut datagrams, 0x2000, 8), unsupported);
    assert_eq!(put(&mut plain, 0x2004, 8), Err(PostError::InvalidRequest));
    assert_eq!(put(&mut plain, 0x2000, 4), Err(PostError::InvalidRequest));
    assert_eq!(
        put(&mut plain, 0x2000, 8),
        unsupported,
        "the device has none"
    );
}
