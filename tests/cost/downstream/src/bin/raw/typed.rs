//! Handles of a vendor that the program knows.

use cost_downstream::{MANY, Outcome};
use uverbs::WorkCompletion;
use uverbs::typed::vendor::Mlx5;
use uverbs::typed::{Entry as _, EntryOf, Posting, Receiver, Sender, Template};
use uverbs::{CompletionQueue, Operation, Payload, QueuePair, RecvRequest, SendRequest};

use crate::setup::{AT_ONCE, INLINE, Memory};

#[inline(always)]
fn each(qp: &mut QueuePair, request: impl Fn(u32, &mut Sender<'_, Mlx5>) -> Outcome) -> Outcome {
    let mut sender = qp.sender()?;
    for n in 0..MANY {
        request(n, &mut sender)?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_write(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, sender| {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        Ok(unsafe { sender.post(&request.wr_id(n.into()).signaled()) }?)
    })
}

#[inline(never)]
pub fn counted_read(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, sender| {
        let piece = [memory.piece()];
        let request = SendRequest::read(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        Ok(unsafe { sender.post(&request.wr_id(n.into()).signaled()) }?)
    })
}

#[inline(never)]
pub fn counted_send(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, sender| {
        let piece = [memory.piece()];
        let request = SendRequest::send(&piece).wr_id(n.into()).signaled();
        // SAFETY: see the program's paragraph.
        Ok(unsafe { sender.post(&request) }?)
    })
}

#[inline(never)]
pub fn counted_atomic(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    // Not by a closure: one that is not inlined has this function's name, too, and ends the count.
    let mut sender = qp.sender::<Mlx5>()?;
    for n in 0..MANY {
        let piece = [memory.word()];
        let remote = memory.remote();
        let operation = Operation::FetchAdd { remote, add: 1 };
        let request = SendRequest::new(operation, Payload::Gather(&piece));
        // SAFETY: see the program's paragraph.
        unsafe { sender.post(&request.wr_id(n.into()).signaled()) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_inline(qp: &mut QueuePair, bytes: &[u8; INLINE]) -> Outcome {
    each(qp, |n, sender| {
        let pieces = [bytes.as_slice()];
        let request = SendRequest::send_inline(&pieces);
        // SAFETY: the request names no memory that is read later.
        Ok(unsafe { sender.post(&request.wr_id(n.into()).signaled()) }?)
    })
}

#[inline(never)]
pub fn counted_batch(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    let mut sender = qp.sender::<Mlx5>()?;
    let mut batch = sender.batch();
    for n in 0..MANY {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        unsafe { batch.push(&request.wr_id(n.into()).signaled()) }?;
    }
    Ok(batch.submit()?)
}

#[inline(never)]
pub fn counted_list_of_data(qp: &mut QueuePair, memory: &Memory, data: &[Posting]) -> Outcome {
    let mut sender = qp.sender::<Mlx5>()?;
    let template = Template::write(memory.mr.lkey(), memory.mr.rkey()).signaled();
    let write = std::hint::black_box(sender.prepare(&template));
    let mut batch = sender.batch();
    for posting in data {
        // SAFETY: see the program's paragraph.
        unsafe { batch.push_prepared(&write, posting) }?;
    }
    Ok(batch.submit()?)
}

#[inline(never)]
pub fn counted_one_of_data(qp: &mut QueuePair, memory: &Memory, data: &[Posting]) -> Outcome {
    let mut sender = qp.sender::<Mlx5>()?;
    let template = Template::write(memory.mr.lkey(), memory.mr.rkey()).signaled();
    let write = std::hint::black_box(sender.prepare(&template));
    for posting in data {
        // SAFETY: see the program's paragraph.
        unsafe { sender.post_prepared(&write, posting) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_receive(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    let mut receiver: Receiver<'_, Mlx5> = qp.receiver()?;
    for n in 0..MANY {
        let scatter = [memory.room()];
        let (wr_id, scatter) = (n.into(), &scatter);
        // SAFETY: see the program's paragraph.
        unsafe { receiver.post(&RecvRequest { wr_id, scatter }) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_receive_batch(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    let mut receiver: Receiver<'_, Mlx5> = qp.receiver()?;
    let mut batch = receiver.batch();
    for n in 0..MANY {
        let scatter = [memory.room()];
        let (wr_id, scatter) = (n.into(), &scatter);
        // SAFETY: see the program's paragraph.
        unsafe { batch.push(&RecvRequest { wr_id, scatter }) }?;
    }
    Ok(batch.submit()?)
}

#[inline(always)]
fn poll_each(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    for _ in 0..MANY {
        match poller.poll()? {
            Some(done) if done.status().is_success() => *sum += done.wr_id(),
            _ => return Err("no completion".into()),
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_poll(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    poll_each(cq, sum)
}

#[inline(never)]
pub fn counted_poll_received(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    // Otherwise the compiler merges both into one function.
    *std::hint::black_box(&mut *sum) |= 1;
    poll_each(cq, sum)
}

#[inline(never)]
pub fn counted_whole(
    cq: &mut CompletionQueue,
    kept: &mut [WorkCompletion; MANY as usize],
) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    for kept in kept {
        if !poller.poll_whole(kept)? {
            return Err("no completion".into());
        }
    }
    Ok(())
}

#[inline(always)]
fn poll_many(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    let mut done = [EntryOf::<Mlx5>::default(); AT_ONCE];
    for _ in 0..MANY as usize / AT_ONCE {
        if poller.poll_into(&mut done)? != AT_ONCE {
            return Err("too few completions".into());
        }
        for one in &done {
            if !one.status().is_success() {
                return Err(one.status().to_string().into());
            }
            *sum += one.wr_id();
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_poll_many(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    poll_many(cq, sum)
}

#[inline(never)]
pub fn counted_poll_many_received(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    *std::hint::black_box(&mut *sum) |= 1;
    poll_many(cq, sum)
}

#[inline(never)]
pub fn counted_poll_empty(cq: &mut CompletionQueue) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    for _ in 0..MANY {
        if poller.poll()?.is_some() {
            return Err("a completion too many".into());
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_poll_into_empty(cq: &mut CompletionQueue) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    let mut done = [EntryOf::<Mlx5>::default(); AT_ONCE];
    for _ in 0..MANY {
        if poller.poll_into(&mut done)? != 0 {
            return Err("a completion too many".into());
        }
    }
    Ok(())
}
