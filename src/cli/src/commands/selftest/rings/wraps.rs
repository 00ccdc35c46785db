//! Positions that wrap around: at the end of a ring, and after 65,536 requests, where a ConnectX
//! counts from 0 again.

use std::time::{Duration, Instant};

use uverbs::owned::{self, Buffer};
use uverbs::{
    CompletionQueue, Operation, Payload, ProtectionDomain, QpType, QueuePair, Remote, SendRequest,
    SharedReceiveQueue,
};

use super::super::check::{Check, Found, Outcome, Trouble, ensure};
use super::super::pair::{
    Exchange as _, REMOTE, buffer_of, connect, ended, prepare, prepare_shared, take,
};
use super::super::subject::Subject;

/// More than 16 bits can count.
const REQUESTS: u64 = (1 << 16) + 512;
/// How many requests are submitted with one doorbell; four such batches fill a ring.
const BATCH: u64 = 16;
/// A device that is too slow for all of them is reported as slow.
const ENOUGH: Duration = Duration::from_secs(4);

const EXPECTED: &str = "66048, each as sent, in order";

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("send queue wraps", EXPECTED, writes),
        Check::new("receive queue wraps", EXPECTED, |subject| {
            receives(subject, false)
        }),
        Check::new("shared receive queue wraps", EXPECTED, |subject| {
            receives(subject, true)
        }),
    ]
}

/// Posts numbers in batches, until there are enough or it takes too long.
fn count(mut batch: impl FnMut(u64) -> Outcome<()>) -> Outcome {
    let start = Instant::now();
    let mut first = 0;
    while first < REQUESTS && start.elapsed() < ENOUGH {
        batch(first).map_err(|trouble| trouble.with(format_args!("from {first} on")))?;
        first += BATCH;
    }
    let each = start.elapsed().as_nanos() / u128::from(first.max(1));
    Ok(Found::new(first)
        .detail(format_args!("{each} ns each"))
        .slow_if(first < REQUESTS))
}

/// A number for each request, in the request itself.
fn post(
    qp: &mut QueuePair,
    first: u64,
    operation: impl Fn(u64) -> Operation<'static>,
) -> Outcome<()> {
    let mut batch = qp.send_batch();
    for number in first..first + BATCH {
        let bytes = number.to_be_bytes();
        let parts = [&bytes[..]];
        let request = SendRequest::new(operation(number), Payload::Inline(&parts)).wr_id(number);
        let last = number + 1 == first + BATCH;
        batch.push_inline(&if last { request.signaled() } else { request })?;
    }
    Ok(batch.submit()?)
}

/// Waits for the completion of the last of a batch.
fn posted(cq: &mut CompletionQueue, first: u64) -> Outcome<()> {
    take(cq, |done| {
        ensure(done.is_success(), || {
            format!("{}, vendor {:#x}", done.status, done.vendor_err)
        })?;
        ensure(done.wr_id == first + BATCH - 1, || {
            format!("completion of {}", done.wr_id)
        })
    })?
}

fn writes(subject: &Subject) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let mut cq = subject.context.create_cq(64)?;
    let (mut qp, _peer) = inline_pair(subject, &pd, (&cq, &cq), None)?;
    // Twice as many places as requests in a batch, so that a stale number in a place is noticed.
    let places = 2 * BATCH;
    let exposed = pd.expose(8 * 2 * 16, REMOTE)?;
    let Remote { address, key } = exposed.remote().start();
    let to = |number: u64| {
        let address = address + number % places * 8;
        Operation::Write(Remote { address, key })
    };
    count(|first| {
        post(&mut qp, first, to)?;
        posted(&mut cq, first)?;
        for number in first..first + BATCH {
            let place = usize::try_from(number % places * 8).unwrap_or(0);
            let mut found = [0; 8];
            let inside = exposed.read(place, &mut found);
            ensure(inside && found == number.to_be_bytes(), || {
                format!("write {number} is missing")
            })?;
        }
        Ok(())
    })
}

/// Where receives are posted.
#[derive(Debug)]
enum Receiver {
    Own(Box<owned::QueuePair>),
    Shared(Box<owned::SharedReceiveQueue>),
}

fn receives(subject: &Subject, shared: bool) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let mut send_cq = subject.context.create_cq(64)?;
    let mut receive_cq = subject.context.create_cq(64)?;
    let srq = shared.then(|| pd.create_srq(64, 1)).transpose()?;
    let cqs = (&send_cq, &receive_cq);
    let (mut qp, peer) = inline_pair(subject, &pd, cqs, srq.as_ref())?;
    // The queue pair that receives from a shared receive queue is kept, but nothing is posted on
    // it.
    let (mut receiver, _peer) = match srq {
        Some(srq) => (
            Receiver::Shared(Box::new(owned::SharedReceiveQueue::new(srq))),
            Some(peer),
        ),
        None => (Receiver::Own(Box::new(owned::QueuePair::new(peer))), None),
    };
    let mut buffers = pd.buffer_list(16, 8)?;
    count(|first| {
        for number in first..first + BATCH {
            let buffer = buffers.pop();
            receiver.recv(
                buffer.ok_or_else(|| Trouble::failed("a buffer is missing"))?,
                number,
            )?;
        }
        post(&mut qp, first, |_| Operation::Send)?;
        posted(&mut send_cq, first)?;
        for number in first..first + BATCH {
            let buffer = receiver.received(&mut receive_cq, number)?;
            ensure(buffer[..] == number.to_be_bytes(), || {
                format!("message {number} arrived changed")
            })?;
            buffers.push(buffer);
        }
        Ok(())
    })
}

/// A queue pair that sends, and one that receives, whose completions go to the second queue.
fn inline_pair(
    subject: &Subject,
    pd: &ProtectionDomain,
    (send_cq, receive_cq): (&CompletionQueue, &CompletionQueue),
    srq: Option<&SharedReceiveQueue>,
) -> Outcome<(QueuePair, QueuePair)> {
    let sender = prepare(subject, pd, QpType::Rc, (send_cq, send_cq), |builder| {
        builder.max_inline_data(8)
    })?;
    let cqs = (receive_cq, receive_cq);
    let receiver = match srq {
        None => prepare(subject, pd, QpType::Rc, cqs, |builder| builder)?,
        Some(srq) => prepare_shared(subject, pd, cqs, srq)?,
    };
    connect(sender, receiver)
}

impl Receiver {
    fn recv(&mut self, buffer: Buffer, user_data: u64) -> Outcome<()> {
        let posted = match self {
            Self::Own(qp) => qp.recv(buffer, user_data),
            Self::Shared(srq) => srq.recv(buffer, user_data),
        };
        Ok(posted?)
    }

    /// The buffer of the next receive, which is number `context`.
    fn received(&mut self, cq: &mut CompletionQueue, context: u64) -> Outcome<Buffer> {
        let foreign = || Trouble::failed("a completion of another request");
        let finished = take(cq, |done| match self {
            Self::Own(qp) => qp.exchange(done).map_err(|_| foreign()),
            Self::Shared(srq) => srq.exchange(done).map_err(|_| foreign()),
        })??;
        ensure(finished.status().is_success(), || ended(&finished))?;
        ensure(finished.user_data() == context, || {
            format!("receive {} instead of {context}", finished.user_data())
        })?;
        buffer_of(finished)
    }
}
