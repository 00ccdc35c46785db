//! The shortest way through the whole stack.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rxe_tests::{open, until};
use uverbs::{QpType, owned};

#[test]
fn a_queue_pair_sends_to_itself() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(16).unwrap();
    let prepared = pd.create_qp(QpType::Rc, &cq, &cq).build().unwrap();
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    let [mut message, reply] = pd.buffers::<2>(64).unwrap();
    message[..5].copy_from_slice(b"hello");
    qp.recv(reply, 7).unwrap();
    qp.send(message, 5, 8).unwrap();
    let mut received = None;
    let mut sent = None;
    while received.is_none() || sent.is_none() {
        let done = until("a completion", || {
            cq.poll().unwrap().map(|done| qp.complete(&done).unwrap())
        });
        assert!(done.status.is_success(), "{:?}", done.completion);
        match done.context {
            7 => received = Some(done),
            8 => sent = Some(done),
            other => panic!("a completion of {other}"),
        }
    }
    let received = received.unwrap();
    assert_eq!(received.bytes(), Some(&b"hello"[..]));
    assert_eq!(received.completion.byte_len, 5);
    assert_eq!((qp.sends_posted(), qp.receives_posted()), (0, 0));
}
