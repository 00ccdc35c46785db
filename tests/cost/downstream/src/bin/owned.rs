//! Loops over the safe data path on a ConnectX in this process: `cost-downstream ROUNDS`.
//!
//! Functions whose names begin with `counted_` are counted, as in the program beside this one. This
//! one is built like a user's crate, so it also tells what is not inlined across crates.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use adversary::device::Device;
use adversary::mlx5::Cards;
use uverbs::hub::{Connection, Hub, Request};
use uverbs::owned::{Buffer, Memory, QueuePair, Work};
use uverbs::{CompletionQueue, ProtectionDomain, QpType};

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

/// Requests of a hub's connection that are under way.
type UnderWay<'c> = Vec<Request<'c>>;

#[inline(never)]
fn counted_hub_send<'c>(hub: &Hub, from: &'c Connection, under_way: &mut UnderWay<'c>) -> Outcome {
    for _ in 0..MANY {
        let buffer = hub.buffer()?;
        under_way.push(from.send(buffer, MESSAGE));
    }
    Ok(())
}

/// All completions there are, at most one for each operation.
#[inline(never)]
fn counted_hub_turn(hub: &Hub) -> Outcome {
    if hub.turn()? != MANY as usize {
        return Err("another number of completions".into());
    }
    Ok(())
}

/// The same, of messages.
#[inline(never)]
fn counted_hub_turn_received(hub: &Hub) -> Outcome {
    // Otherwise the compiler merges both into one function.
    let expected = std::hint::black_box(MANY as usize);
    if hub.turn()? != expected {
        return Err("another number of messages".into());
    }
    Ok(())
}

/// Each has ended; its buffer goes back to the hub.
#[inline(never)]
fn counted_hub_finish(under_way: &mut UnderWay<'_>) -> Outcome {
    let mut cx = TaskContext::from_waker(Waker::noop());
    for mut request in under_way.drain(..) {
        let Poll::Ready(ended) = Pin::new(&mut request).poll(&mut cx) else {
            return Err("not ended".into());
        };
        drop(ended?);
    }
    Ok(())
}

/// Takes messages, whose buffers go back to the hub; each is replaced by another receive.
#[inline(never)]
fn counted_hub_receive(to: &Connection, sum: &mut u64) -> Outcome {
    let mut cx = TaskContext::from_waker(Waker::noop());
    for _ in 0..MANY {
        let mut receive = to.recv();
        let Poll::Ready(message) = Pin::new(&mut receive).poll(&mut cx) else {
            return Err("no message".into());
        };
        *sum += message?.len() as u64;
    }
    Ok(())
}

/// Hubs of two connections each, so that a completion's has to be found.
fn hubs(cards: &Cards, pd: &ProtectionDomain, rounds: u32, sum: &mut u64) -> Outcome {
    let hub = || {
        let plain = pd.hub().connections(2).buffer_size(MESSAGE);
        plain
            .sends(MANY)
            .receives(MANY)
            .spin(Duration::ZERO)
            .build()
    };
    let (a, b) = (hub()?, hub()?);
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let (here, there) = (a.prepare()?, b.prepare()?);
        let (to_here, to_there) = (here.endpoint(), there.endpoint());
        pairs.push((here.connect(to_there)?, there.connect(to_here)?));
    }
    let mut under_way = Vec::with_capacity(MANY as usize);
    for _ in 0..rounds {
        for (here, there) in &pairs {
            counted_hub_send(&a, here, &mut under_way)?;
            cards.run();
            counted_hub_turn(&a)?;
            counted_hub_finish(&mut under_way)?;
            counted_hub_turn_received(&b)?;
            counted_hub_receive(there, sum)?;
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
    hubs(&cards, &pd, rounds, &mut sum)?;
    println!("{sum}");
    Ok(())
}
