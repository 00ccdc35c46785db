//! Loops over the safe data path on a ConnectX in this process: `cost-downstream ROUNDS`.
//!
//! Functions whose names begin with `counted_` are counted, as in the program beside this one. This
//! one is built like a user's crate, so it also tells what is not inlined across crates.
#![forbid(unsafe_code)]

use std::error::Error;

use adversary::device::Device;
use adversary::mlx5::Cards;
use uverbs::owned::{Buffer, Memory, QueuePair, Work};
use uverbs::{CompletionQueue, QpType};

/// Operations per loop.
const MANY: u32 = 64;
const MESSAGE: usize = 64;
const INLINE: usize = 32;

type Outcome = Result<(), Box<dyn Error>>;

/// The buffers that are in no queue.
type Free = Vec<Buffer>;

#[inline(never)]
fn counted_owned_send(qp: &mut QueuePair, free: &mut Free) -> Outcome {
    for n in 0..MANY {
        let buffer = free.pop().ok_or("no buffer")?;
        qp.post(Work::send().memory((buffer, MESSAGE)).user_data(n.into()))?;
    }
    Ok(())
}

#[inline(never)]
fn counted_owned_inline(qp: &mut QueuePair, bytes: &[u8; INLINE]) -> Outcome {
    for n in 0..MANY {
        qp.send_inline(bytes, n.into())?;
    }
    Ok(())
}

#[inline(never)]
fn counted_owned_receive(qp: &mut QueuePair, free: &mut Free) -> Outcome {
    for n in 0..MANY {
        let buffer = free.pop().ok_or("no buffer")?;
        qp.recv(buffer, n.into())?;
    }
    Ok(())
}

#[inline(never)]
fn counted_owned_complete(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    free: &mut Free,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        if !done.status.is_success() {
            return Err(done.status.to_string().into());
        }
        *sum += done.user_data;
        if let Memory::Buffer(buffer, _) = done.memory {
            free.push(buffer);
        }
    }
    Ok(())
}

#[inline(never)]
fn counted_owned_complete_inline(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        if !done.status.is_success() {
            return Err(done.status.to_string().into());
        }
        *sum += done.user_data;
    }
    Ok(())
}

#[inline(never)]
fn counted_owned_complete_received(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    free: &mut Free,
    sum: &mut u64,
) -> Outcome {
    for _ in 0..MANY {
        let completion = cq.poll()?.ok_or("no completion")?;
        let done = qp.complete(completion).map_err(|_| "another's")?;
        *sum += done.bytes().map_or(0, |bytes| bytes.len() as u64);
        if let Memory::Buffer(buffer, _) = done.memory {
            free.push(buffer);
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let rounds: u32 = std::env::args().nth(1).ok_or("ROUNDS")?.parse()?;
    let cards = Cards::new(1);
    let context = cards.open(0, None)?;
    let pd = context.alloc_pd()?;
    let mut send_cq = context.create_cq(4 * MANY)?;
    let mut recv_cq = context.create_cq(4 * MANY)?;
    let prepared = pd
        .queue_pair(QpType::Rc, &send_cq, &recv_cq)
        .max_send_wr(2 * MANY)
        .max_recv_wr(2 * MANY)
        .max_inline_data(32)
        .build()?;
    let endpoint = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(endpoint)?);
    let mut free = pd.buffer_list(3 * MANY as usize, MESSAGE)?;
    let mut sum = 0;
    for _ in 0..rounds {
        counted_owned_receive(&mut qp, &mut free)?;
        counted_owned_send(&mut qp, &mut free)?;
        cards.run();
        counted_owned_complete(&mut qp, &mut send_cq, &mut free, &mut sum)?;
        counted_owned_complete_received(&mut qp, &mut recv_cq, &mut free, &mut sum)?;
        counted_owned_receive(&mut qp, &mut free)?;
        counted_owned_inline(&mut qp, &[7; INLINE])?;
        cards.run();
        counted_owned_complete_inline(&mut qp, &mut send_cq, &mut sum)?;
        counted_owned_complete_received(&mut qp, &mut recv_cq, &mut free, &mut sum)?;
    }
    println!("{sum}");
    Ok(())
}
