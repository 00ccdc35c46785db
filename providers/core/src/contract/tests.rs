//! What the traits do by themselves, on queues without a device.

use std::sync::Arc;

use std::convert::Infallible;

use super::{
    Cq, PlainReceiver, PlainSender, Qp, QpBase, Receiver as _, RecvBatch as _, SendBatch as _,
    Sender as _,
};
use crate::error::{Error, ErrorKind, Op, PollError, PostError, Result};
use crate::object::Object;
use crate::types::{
    Ece, LocalKey, Posting, QpAttr, QpAttrMask, QpInfo, RecvRequest, SendRequest, Template,
    WorkCompletion,
};

/// A queue pair that notes what is done with it.
#[derive(Debug, Default)]
struct Noting {
    log: Vec<String>,
    /// The request that does not fit, by its `wr_id`.
    refused: Option<u64>,
    /// Why nothing can be submitted.
    stuck: Option<PostError>,
}

impl Noting {
    fn note(&mut self, what: &str) {
        self.log.push(what.to_owned());
    }

    fn put(&mut self, what: &str, wr_id: u64) -> Result<(), PostError> {
        if self.refused == Some(wr_id) {
            return Err(PostError::QueueFull);
        }
        self.note(&format!("{what} {wr_id}"));
        Ok(())
    }

    fn submit(&mut self, what: &str) -> Result<(), PostError> {
        self.note(what);
        self.stuck.map_or(Ok(()), Err)
    }

    /// What was done since the last look.
    fn done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

impl Qp for Noting {
    type Usual<'q> = Infallible;

    fn has_usual_sends(&self) -> bool {
        false
    }

    fn usual_send(&mut self) -> Option<Infallible> {
        None
    }

    fn base(&self) -> &QpBase {
        panic!("it has no base")
    }

    fn object_mut(&mut self) -> &mut Object {
        panic!("it has no object")
    }

    fn modify(&mut self, _: &QpAttr) -> Result<()> {
        panic!("it has no attributes")
    }

    fn query(&mut self, _: QpAttrMask) -> Result<QpInfo> {
        panic!("it has no attributes")
    }

    #[expect(unsafe_code, reason = "the trait has it")]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.put("put", request.wr_id)
    }

    fn submit_send(&mut self) -> Result<(), PostError> {
        self.submit("submit")
    }

    fn abort_send(&mut self) {
        self.note("abort");
    }

    #[expect(unsafe_code, reason = "the trait has it")]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.put("put receive", request.wr_id)
    }

    fn submit_recv(&mut self) -> Result<(), PostError> {
        self.submit("submit receives")
    }

    fn abort_recv(&mut self) {
        self.note("abort receives");
    }
}

const SENDS: [SendRequest<'static>; 3] = [
    SendRequest::send(&[]).wr_id(1),
    SendRequest::send(&[]).wr_id(2),
    SendRequest::send(&[]).wr_id(3),
];

const RECEIVES: [RecvRequest<'static>; 3] = [receive(1), receive(2), receive(3)];

const fn receive(wr_id: u64) -> RecvRequest<'static> {
    RecvRequest {
        wr_id,
        scatter: &[],
    }
}

/// The result of posting, and what was done.
type Posted = (Result<(), (usize, PostError)>, Vec<String>);

/// Posts three requests to each side of a queue pair.
#[expect(unsafe_code, reason = "posts requests that nobody carries out")]
fn post(qp: &mut Noting) -> [Posted; 2] {
    // SAFETY: the requests name no memory, and no device reads them.
    let sent = unsafe { qp.post_send(&SENDS) };
    let of_sends = qp.done();
    // SAFETY: as above.
    let received = unsafe { qp.post_recv(&RECEIVES) };
    [(sent, of_sends), (received, qp.done())]
}

#[test]
fn requests_are_put_in_order_and_submitted_together() {
    let [(sent, of_sends), (received, of_receives)] = post(&mut Noting::default());
    assert_eq!((sent, received), (Ok(()), Ok(())));
    assert_eq!(of_sends, ["abort", "put 1", "put 2", "put 3", "submit"]);
    let expected = [
        "abort receives",
        "put receive 1",
        "put receive 2",
        "put receive 3",
        "submit receives",
    ];
    assert_eq!(of_receives, expected);
}

#[test]
fn requests_before_a_refused_one_are_submitted_and_counted() {
    for (refused, count) in [(1, 0), (2, 1), (3, 2)] {
        let mut qp = Noting {
            refused: Some(refused),
            ..Noting::default()
        };
        for (result, log) in post(&mut qp) {
            assert_eq!(result, Err((count, PostError::QueueFull)));
            assert_eq!(log.len(), 2 + count, "{log:?}");
            assert!(log.last().unwrap().starts_with("submit"), "{log:?}");
        }
    }
}

#[test]
fn nothing_is_posted_if_nothing_can_be_submitted() {
    for refused in [None, Some(2)] {
        let mut qp = Noting {
            refused,
            stuck: Some(PostError::Poisoned),
            ..Noting::default()
        };
        for (result, _) in post(&mut qp) {
            assert_eq!(result, Err((0, PostError::Poisoned)));
        }
    }
}

#[test]
#[expect(unsafe_code, reason = "posts requests that nobody carries out")]
fn a_batch_of_sends_is_submitted_or_taken_back() {
    let mut qp = Noting::default();
    let mut sender = PlainSender(&mut qp);
    let mut batch = sender.batch();
    // SAFETY: the request names no memory, and no device reads it.
    unsafe { batch.push(&SENDS[1]) }.unwrap();
    batch.submit().unwrap();
    assert_eq!(qp.done(), ["abort", "put 2", "submit", "abort"]);
    drop(PlainSender(&mut qp).batch());
    assert_eq!(qp.done(), ["abort", "abort"]);
    qp.stuck = Some(PostError::WrongState);
    let refused = PlainSender(&mut qp).batch().submit();
    assert_eq!(refused, Err(PostError::WrongState));
}

#[test]
#[expect(unsafe_code, reason = "posts requests that nobody carries out")]
fn a_batch_of_receives_is_submitted_or_taken_back() {
    let mut qp = Noting::default();
    let mut receiver = PlainReceiver(&mut qp);
    let mut batch = receiver.batch();
    // SAFETY: the request names no memory, and no device reads it.
    unsafe { batch.push(&RECEIVES[1]) }.unwrap();
    batch.submit().unwrap();
    let aborted = "abort receives";
    let expected = [aborted, "put receive 2", "submit receives", aborted];
    assert_eq!(qp.done(), expected);
    drop(PlainReceiver(&mut qp).batch());
    assert_eq!(qp.done(), [aborted, aborted]);
    qp.stuck = Some(PostError::WrongState);
    let refused = PlainReceiver(&mut qp).batch().submit();
    assert_eq!(refused, Err(PostError::WrongState));
}

#[test]
#[expect(unsafe_code, reason = "posts requests that nobody carries out")]
fn single_requests_of_typed_ends_are_posted_at_once() {
    let mut qp = Noting::default();
    let template = Template::send(LocalKey::from_raw(1));
    let posting = Posting {
        wr_id: 7,
        ..Posting::default()
    };
    let mut sender = PlainSender(&mut qp);
    let prepared = sender.prepare(&template);
    // SAFETY: no device reads the requests.
    unsafe { sender.post(&SENDS[0]) }.unwrap();
    // SAFETY: as above.
    unsafe { sender.post_prepared(&prepared, &posting) }.unwrap();
    let mut batch = sender.batch();
    // SAFETY: as above.
    unsafe { batch.push_prepared(&prepared, &posting) }.unwrap();
    drop(batch);
    let log = qp.done();
    assert_eq!(log[..3], ["abort", "put 1", "submit"]);
    assert_eq!(log[3..6], ["abort", "put 7", "submit"]);
    assert_eq!(log[6..], ["abort", "put 7", "abort"]);
    // SAFETY: as above.
    unsafe { PlainReceiver(&mut qp).post(&RECEIVES[2]) }.unwrap();
    assert_eq!(qp.done()[1..], ["put receive 3", "submit receives"]);
    qp.refused = Some(3);
    // SAFETY: as above.
    let refused = unsafe { PlainReceiver(&mut qp).post(&RECEIVES[2]) };
    assert_eq!(refused, Err(PostError::QueueFull));
}

#[track_caller]
fn assert_unsupported<T: std::fmt::Debug>(op: Op, result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!((error.op(), error.kind()), (op, ErrorKind::Unsupported));
}

#[test]
fn a_device_without_options_refuses_them() {
    let mut qp = Noting::default();
    let options = Ece::default();
    assert_unsupported(Op::QueryEce, qp.ece());
    assert_unsupported(Op::SetEce, qp.check_ece(&options));
    assert_unsupported(Op::SetEce, qp.set_ece(&options));
}

/// A completion queue with a number of completions, and how often slots were returned.
#[derive(Debug)]
struct Completions(u64, usize);

impl Cq for Completions {
    fn object(&self) -> &Arc<Object> {
        panic!("it has no object")
    }

    fn entries(&self) -> u32 {
        8
    }

    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        let Some(left) = self.0.checked_sub(1) else {
            return Ok(None);
        };
        self.0 = left;
        Ok(Some(WorkCompletion {
            wr_id: left,
            ..WorkCompletion::default()
        }))
    }

    fn release(&mut self) {
        self.1 += 1;
    }

    fn arm(&mut self, _: bool) -> Result<()> {
        panic!("it raises no events")
    }
}

#[test]
fn a_completion_that_is_polled_gives_its_slot_back() {
    let mut queue = Completions(3, 0);
    assert_eq!(queue.poll().unwrap().unwrap().wr_id, 2);
    assert_eq!(queue.1, 1);
    let (done, stamp) = queue.poll_stamped().unwrap().unwrap();
    assert_eq!((done.wr_id, stamp, queue.1), (1, None, 2));
    queue.forget(7);
    assert_eq!(queue.poll().unwrap().unwrap().wr_id, 0);
    assert_eq!(queue.poll(), Ok(None));
    assert_eq!(queue.poll_stamped(), Ok(None));
    assert_eq!(queue.1, 3, "nothing to give back");
    assert_unsupported(Op::ResizeCompletionQueue, queue.resize(9));
}
