//! The handles of any vendor.

use cost_downstream::{MANY, Outcome};
use uverbs::typed::Posting;
use uverbs::{CompletionQueue, Operation, Payload, QueuePair, RecvRequest, SendRequest, Sge};
use uverbs::{Remote, WorkCompletion};

use crate::setup::{AT_ONCE, INLINE, Memory};

#[inline(always)]
fn each(qp: &mut QueuePair, request: impl Fn(u32, &mut QueuePair) -> Outcome) -> Outcome {
    for n in 0..MANY {
        request(n, qp)?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_write(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, qp| {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        Ok(unsafe { qp.post_send(&[request.wr_id(n.into()).signaled()]) }?)
    })
}

#[inline(never)]
pub fn counted_read(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, qp| {
        let piece = [memory.piece()];
        let request = SendRequest::read(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        Ok(unsafe { qp.post_send(&[request.wr_id(n.into()).signaled()]) }?)
    })
}

#[inline(never)]
pub fn counted_send(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, qp| {
        let piece = [memory.piece()];
        let request = SendRequest::send(&piece).wr_id(n.into()).signaled();
        // SAFETY: see the program's paragraph.
        Ok(unsafe { qp.post_send(&[request]) }?)
    })
}

#[inline(never)]
pub fn counted_atomic(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, qp| {
        let piece = [memory.word()];
        let remote = memory.remote();
        let operation = Operation::FetchAdd { remote, add: 1 };
        let request = SendRequest::new(operation, Payload::Gather(&piece));
        // SAFETY: see the program's paragraph.
        Ok(unsafe { qp.post_send(&[request.wr_id(n.into()).signaled()]) }?)
    })
}

#[inline(never)]
pub fn counted_inline(qp: &mut QueuePair, bytes: &[u8; INLINE]) -> Outcome {
    each(qp, |n, qp| {
        let pieces = [bytes.as_slice()];
        let request = SendRequest::send_inline(&pieces);
        // SAFETY: the request names no memory that is read later.
        Ok(unsafe { qp.post_send(&[request.wr_id(n.into()).signaled()]) }?)
    })
}

#[inline(never)]
pub fn counted_batch(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    let mut batch = qp.send_batch();
    for n in 0..MANY {
        let piece = [memory.piece()];
        let request = SendRequest::write(&piece, memory.remote());
        // SAFETY: see the program's paragraph.
        unsafe { batch.push(&request.wr_id(n.into()).signaled()) }?;
    }
    Ok(batch.submit()?)
}

#[inline(always)]
fn of_data(memory: &Memory, posting: &Posting) -> (Sge, Remote) {
    let piece = Sge {
        address: posting.address,
        length: posting.length,
        key: memory.mr.lkey(),
    };
    let remote = Remote {
        address: posting.remote,
        key: memory.mr.rkey(),
    };
    (piece, remote)
}

#[inline(never)]
pub fn counted_list_of_data(qp: &mut QueuePair, memory: &Memory, data: &[Posting]) -> Outcome {
    let mut batch = qp.send_batch();
    for posting in data {
        let (piece, remote) = of_data(memory, posting);
        let pieces = [piece];
        let request = SendRequest::write(&pieces, remote).wr_id(posting.wr_id);
        // SAFETY: see the program's paragraph.
        unsafe { batch.push(&request.signaled()) }?;
    }
    Ok(batch.submit()?)
}

#[inline(never)]
pub fn counted_one_of_data(qp: &mut QueuePair, memory: &Memory, data: &[Posting]) -> Outcome {
    for posting in data {
        let (piece, remote) = of_data(memory, posting);
        let pieces = [piece];
        let request = SendRequest::write(&pieces, remote).wr_id(posting.wr_id);
        // SAFETY: see the program's paragraph.
        unsafe { qp.post_send(&[request.signaled()]) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_receive(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    each(qp, |n, qp| {
        let scatter = [memory.room()];
        let (wr_id, scatter) = (n.into(), &scatter);
        // SAFETY: see the program's paragraph.
        Ok(unsafe { qp.post_recv(&[RecvRequest { wr_id, scatter }]) }?)
    })
}

#[inline(never)]
pub fn counted_receive_batch(qp: &mut QueuePair, memory: &Memory) -> Outcome {
    let mut batch = qp.recv_batch();
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
    for _ in 0..MANY {
        match cq.poll()? {
            Some(done) if done.status.is_success() => *sum += done.wr_id,
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
    for kept in kept {
        *kept = *cq.poll()?.ok_or("no completion")?;
    }
    Ok(())
}

#[inline(always)]
fn poll_many(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    let mut done = [WorkCompletion::default(); AT_ONCE];
    for _ in 0..MANY as usize / AT_ONCE {
        if cq.poll_into(&mut done)? != AT_ONCE {
            return Err("too few completions".into());
        }
        for one in &done {
            if !one.status.is_success() {
                return Err(one.status.to_string().into());
            }
            *sum += one.wr_id;
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
    for _ in 0..MANY {
        if cq.poll()?.is_some() {
            return Err("a completion too many".into());
        }
    }
    Ok(())
}

#[inline(never)]
pub fn counted_poll_into_empty(cq: &mut CompletionQueue) -> Outcome {
    let mut done = [WorkCompletion::default(); AT_ONCE];
    for _ in 0..MANY {
        if cq.poll_into(&mut done)? != 0 {
            return Err("a completion too many".into());
        }
    }
    Ok(())
}
