//! The whole life of a device's objects, for tests that disturb it.

use uverbs::owned::{self, Buffer};
use uverbs::{Context, Error, ErrorKind, Op, QpType};
use uverbs_driver::Result;

use crate::Bench;

/// Opens the device, connects a queue pair to itself with a shared receive queue beside it, moves
/// a message, waits for its completions by an event, and gives everything back.
///
/// # Errors
/// Whatever went wrong first.
pub fn live(bench: &Bench) -> Result<()> {
    let context = bench.context()?;
    context.query_port(1)?;
    let channel = context.create_completion_channel()?;
    let pd = context.alloc_pd()?;
    let mut cq = context.completion_queue(16).channel(&channel).build()?;
    let mut srq = owned::SharedReceiveQueue::new(pd.create_srq(8, 1)?);
    let with_srq = pd
        .create_qp(QpType::Rc, &cq, &cq)
        .srq(srq.queue()?)
        .gid_index(1)
        .build()?;
    let prepared = pd.create_qp(QpType::Rc, &cq, &cq).gid_index(1).build()?;
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
    srq.modify(&uverbs::SrqModify {
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
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(Op::PostSend, ErrorKind::Other).fact("error", error.to_string())
    };
    message.fill(7);
    qp.recv(room, 1).map_err(|refused| failed(&refused.error))?;
    qp.send(message, 64, 2)
        .map_err(|refused| failed(&refused))?;
    let mut finished = 0;
    for _ in 0..100 {
        if let Some(completion) = cq.poll().map_err(|error| failed(&error))? {
            finished += usize::from(qp.complete(&completion).is_some());
        }
    }
    if finished == 2 {
        Ok(())
    } else {
        Err(Error::new(Op::PollCompletionQueue, ErrorKind::TimedOut).fact("finished", finished))
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
