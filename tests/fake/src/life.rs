//! The whole life of a device's objects, for tests that disturb it.

use uverbs::error::Op;
use uverbs::owned::{self, Buffer};
use uverbs::{Context, Error, ErrorKind, PostError, QpType};
use uverbs_core::Result;
use uverbs_fake::{FakeKernel, Source};

use crate::Bench;

/// `IB_EVENT_PORT_ACTIVE`.
const PORT_ACTIVE: u32 = 9;

/// Opens the device, connects a queue pair to itself, creates a shared receive queue, moves a
/// message, waits for its completions by an event, receives the event that the port is active, and
/// destroys everything.
///
/// # Errors
/// The first failure.
pub fn live(bench: &Bench) -> Result<()> {
    live_on(&bench.fake, bench.context()?)
}

/// The same on an already opened device of this kernel.
///
/// # Errors
/// The first failure.
pub fn live_on(fake: &FakeKernel, context: Context) -> Result<()> {
    context.query_port(1)?;
    let channel = context.create_completion_channel()?;
    let pd = context.alloc_pd()?;
    let mut cq = context.completion_queue(16).channel(&channel).build()?;
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(8, 1)?);
    let with_srq = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .srq(srq.queue())
        .gid_index(1)
        .build()?;
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1).build()?;
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(
        prepared
            .handshake(endpoint)
            .map_err(|failed| failed.error)?,
    );
    cq.request_notification(uverbs::Notify::Any)?;
    move_message(&mut qp, &mut cq, pd.buffers::<2>(64)?)?;
    let event = channel.event(Some(std::time::Duration::ZERO))?;
    if event.is_none() {
        return Err(Error::new(Op::GetCompletionEvent, ErrorKind::TimedOut));
    }
    fake.raise(Source::Element(1), PORT_ACTIVE);
    if context
        .async_event(Some(std::time::Duration::ZERO))?
        .is_none()
    {
        return Err(Error::new(Op::GetAsyncEvent, ErrorKind::TimedOut));
    }
    srq.modify(&uverbs::attr::SrqModify {
        max_wr: Some(16),
        limit: None,
    })?;
    cq.resize(40)?;
    qp.destroy()?;
    drop(with_srq);
    srq.destroy()?;
    cq.destroy()?;
    pd.dealloc()?;
    close(context)
}

fn move_message(
    qp: &mut owned::QueuePair,
    cq: &mut uverbs::CompletionQueue,
    [mut message, room]: [Buffer; 2],
) -> Result<()> {
    message.fill(7);
    qp.recv(room, 1)
        .map_err(|refused| not_posted(Op::PostReceive, refused.error))?;
    qp.send(message, 64, 2)
        .map_err(|refused| not_posted(Op::PostSend, refused.error))?;
    let mut finished = 0;
    for _ in 0..100 {
        let polled = cq.poll().map_err(|error| {
            Error::new(Op::PollCompletionQueue, ErrorKind::BadReply)
                .fact("error", error.to_string())
        })?;
        if let Some(completion) = polled {
            finished += usize::from(qp.complete(completion).is_ok());
        }
    }
    if finished == 2 {
        Ok(())
    } else {
        Err(Error::new(Op::PollCompletionQueue, ErrorKind::TimedOut).fact("finished", finished))
    }
}

fn not_posted(op: Op, error: PostError) -> Error {
    match error {
        PostError::Doorbell(errno) => Error::os(op, errno),
        error => Error::new(op, ErrorKind::Other).fact("error", error.to_string()),
    }
}

fn close(context: Context) -> Result<()> {
    let leaked = context.leaked();
    drop(context);
    if leaked == 0 {
        Ok(())
    } else {
        Err(Error::new(Op::OpenDevice, ErrorKind::Other).fact("leaked", leaked))
    }
}
