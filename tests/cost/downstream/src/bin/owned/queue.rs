//! Loops over a queue pair that owns its memory.

use cost_downstream::{MANY, Outcome};
use uverbs::CompletionQueue;
use uverbs::owned::{Buffer, QueuePair, Work};

use crate::{INLINE, MESSAGE};

/// The buffers that are in no queue.
pub type Free = Vec<Buffer>;

#[inline(never)]
pub fn counted_send(qp: &mut QueuePair, free: &mut Free) -> Outcome {
    for n in 0..MANY {
        let buffer = free.pop().ok_or("no buffer")?;
        qp.post(Work::send().memory((buffer, MESSAGE)).user_data(n.into()))?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_inline(qp: &mut QueuePair, bytes: &[u8; INLINE]) -> Outcome {
    for n in 0..MANY {
        qp.send_inline(bytes, n.into())?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_receive(qp: &mut QueuePair, free: &mut Free) -> Outcome {
    receive(qp, free)
}

/// The same, not counted.
#[inline(always)]
pub fn receive(qp: &mut QueuePair, free: &mut Free) -> Outcome {
    for n in 0..MANY {
        let buffer = free.pop().ok_or("no buffer")?;
        qp.recv(buffer, n.into())?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_complete(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    free: &mut Free,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        if !done.status().is_success() {
            return Err(done.status().to_string().into());
        }
        *sum += done.user_data();
        if let Some(buffer) = done.into_buffer() {
            free.push(buffer);
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_complete_inline(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        if !done.status().is_success() {
            return Err(done.status().to_string().into());
        }
        *sum += done.user_data();
    }
    Ok(())
}

#[inline(never)]
pub fn counted_complete_received(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    free: &mut Free,
    sum: &mut u64,
) -> Outcome {
    complete_received(qp, cq, free, sum)
}

/// The same, not counted.
#[inline(always)]
pub fn complete_received(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    free: &mut Free,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        *sum += done.bytes().map_or(0, |bytes| bytes.len() as u64);
        if let Some(buffer) = done.into_buffer() {
            free.push(buffer);
        }
    }
    Ok(())
}
