//! Loops over the data path, run where instructions are counted: `cost DEVICE ROUNDS`.
//!
//! Functions whose names begin with `counted_` are counted; `oracle/cost.c` has the same functions
//! using libibverbs.
//!
//! # Safety
//!
//! Requests name the memory of `main`, which is registered until the end, and of which no reference
//! is formed meanwhile.
#![allow(unsafe_code, reason = "posts requests that name memory by address")]

use std::time::Duration;

use anyhow::{Context as _, bail};
use uverbs::link::Mtu;
use uverbs::{
    AccessFlags, CompletionQueue, Context, MemoryRegion, QpType, QueuePair, RecvRequest, Remote,
    SendRequest, Sge, WorkCompletion,
};

/// Operations per loop.
const MANY: u32 = 64;
const BUFFER: usize = 8192;
const PIECE: u32 = 64;
const INLINE: usize = 32;
const MAX_INLINE: u32 = 32;
/// Number of completions polled at once.
const AT_ONCE: usize = 16;

/// The memory of the requests: its start is sent, its second half is written to.
struct Memory {
    mr: MemoryRegion,
    start: u64,
}

impl Memory {
    #[inline]
    fn sge(&self, at: u64) -> Sge {
        Sge {
            address: self.start + at,
            length: PIECE,
            key: self.mr.lkey(),
        }
    }

    #[inline]
    fn remote(&self) -> Remote {
        Remote {
            address: self.start + BUFFER as u64 / 2,
            key: self.mr.rkey(),
        }
    }
}

#[inline(never)]
fn counted_write(qp: &mut QueuePair, memory: &Memory) -> anyhow::Result<()> {
    for n in 0..MANY {
        let sge = [memory.sge(0)];
        let request = SendRequest::write(&sge, memory.remote())
            .wr_id(n.into())
            .signaled();
        // SAFETY: see the file's paragraph.
        unsafe { qp.post_send(&[request]) }?;
    }
    Ok(())
}

#[inline(never)]
fn counted_inline(qp: &mut QueuePair, bytes: &[u8; INLINE]) -> anyhow::Result<()> {
    for n in 0..MANY {
        let sges = [bytes.as_slice()];
        let request = SendRequest::send_inline(&sges).wr_id(n.into()).signaled();
        // SAFETY: the request names no memory that is read later.
        unsafe { qp.post_send(&[request]) }?;
    }
    Ok(())
}

#[inline(never)]
fn counted_batch(qp: &mut QueuePair, memory: &Memory) -> anyhow::Result<()> {
    let mut batch = qp.send_batch();
    for n in 0..MANY {
        let sge = [memory.sge(0)];
        let request = SendRequest::write(&sge, memory.remote())
            .wr_id(n.into())
            .signaled();
        // SAFETY: see the file's paragraph.
        unsafe { batch.push(&request) }?;
    }
    Ok(batch.submit()?)
}

#[inline(never)]
fn counted_receive(qp: &mut QueuePair, memory: &Memory) -> anyhow::Result<()> {
    for n in 0..MANY {
        let scatter = [memory.sge(BUFFER as u64 / 2)];
        let request = RecvRequest {
            wr_id: n.into(),
            scatter: &scatter,
        };
        // SAFETY: see the file's paragraph.
        unsafe { qp.post_recv(&[request]) }?;
    }
    Ok(())
}

/// Completions one by one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "each of its users is counted apart")]
fn poll_each(cq: &mut CompletionQueue, sum: &mut u64) -> anyhow::Result<()> {
    for _ in 0..MANY {
        match cq.poll()? {
            Some(done) if done.status.is_success() => *sum += done.wr_id,
            _ => bail!("no completion"),
        }
    }
    Ok(())
}

#[inline(never)]
fn counted_poll(cq: &mut CompletionQueue, sum: &mut u64) -> anyhow::Result<()> {
    poll_each(cq, sum)
}

#[inline(never)]
fn counted_poll_received(cq: &mut CompletionQueue, sum: &mut u64) -> anyhow::Result<()> {
    // Otherwise the compiler merges both into one function.
    let before = std::hint::black_box(*sum);
    poll_each(cq, sum)?;
    *sum = sum.max(&mut { before }).to_owned();
    Ok(())
}

#[inline(never)]
fn counted_poll_many(
    cq: &mut CompletionQueue,
    done: &mut [WorkCompletion; AT_ONCE],
    sum: &mut u64,
) -> anyhow::Result<()> {
    for _ in 0..MANY as usize / AT_ONCE {
        if cq.poll_into(done)? != AT_ONCE {
            bail!("too few completions");
        }
        for one in &*done {
            if !one.status.is_success() {
                bail!("{}", one.status);
            }
            *sum += one.wr_id;
        }
    }
    Ok(())
}

#[inline(never)]
fn counted_poll_empty(cq: &mut CompletionQueue) -> anyhow::Result<()> {
    for _ in 0..MANY {
        if cq.poll()?.is_some() {
            bail!("a completion too many");
        }
    }
    Ok(())
}

fn take(cq: &mut CompletionQueue, mut count: u32) -> anyhow::Result<()> {
    while count > 0 {
        match cq.poll()? {
            Some(done) if done.status.is_success() => count -= 1,
            Some(done) => bail!("{}", done.status),
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    }
    Ok(())
}

/// Sends a message after the requests of a loop: when it arrives, their completions are there.
fn mark(
    sender: &mut QueuePair,
    receiver: &mut QueuePair,
    recv_cq: &mut CompletionQueue,
) -> anyhow::Result<()> {
    let nothing = RecvRequest {
        wr_id: 0,
        scatter: &[],
    };
    // SAFETY: no memory is named.
    unsafe { receiver.post_recv(&[nothing]) }?;
    // SAFETY: as above.
    unsafe { sender.post_send(&[SendRequest::send(&[])]) }?;
    take(recv_cq, 1)
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, rounds] = arguments.as_slice() else {
        bail!("cost DEVICE ROUNDS");
    };
    let rounds: u32 = rounds.parse().context("ROUNDS")?;
    let mut buffer = vec![0_u8; BUFFER];
    let context = Context::open(device)?;
    let pd = context.alloc_pd()?;
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let start = buffer.as_mut_ptr();
    // SAFETY: `buffer` is dropped after the region, and is not accessed until then.
    let mr = unsafe { pd.register(start, BUFFER, access) }?;
    let memory = Memory {
        mr,
        start: start.expose_provenance() as u64,
    };
    let mut send_cq = context.create_cq(4 * MANY)?;
    let mut recv_cq = context.create_cq(4 * MANY)?;
    let create = |cq: &CompletionQueue| {
        pd.queue_pair(QpType::Rc, cq, cq)
            .max_send_wr(2 * MANY)
            .max_recv_wr(2 * MANY)
            .max_send_sge(1)
            .max_recv_sge(1)
            .max_inline_data(MAX_INLINE)
            .access(access)
            .path_mtu(Mtu::B1024)
            .build()
    };
    let (sender, receiver) = (create(&send_cq)?, create(&recv_cq)?);
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let mut receiver = receiver.handshake(to_sender)?;
    let mut sender = sender.handshake(to_receiver)?;
    let bytes = [7; INLINE];
    let mut done = [WorkCompletion::default(); AT_ONCE];
    let mut sum = 0;
    for _ in 0..rounds {
        counted_receive(&mut receiver, &memory)?;
        counted_inline(&mut sender, &bytes)?;
        take(&mut send_cq, MANY)?;
        counted_poll_received(&mut recv_cq, &mut sum)?;
        counted_write(&mut sender, &memory)?;
        mark(&mut sender, &mut receiver, &mut recv_cq)?;
        counted_poll(&mut send_cq, &mut sum)?;
        counted_batch(&mut sender, &memory)?;
        mark(&mut sender, &mut receiver, &mut recv_cq)?;
        counted_poll_many(&mut send_cq, &mut done, &mut sum)?;
        counted_poll_empty(&mut send_cq)?;
    }
    println!("{sum}");
    Ok(())
}
