//! Posting without the bookkeeping of `uverbs::owned`: batches that are submitted with one
//! doorbell, unsignaled requests, inline data. The price is `unsafe`, and the promises that go with
//! it.
//!
//! `raw_batch [DEVICE]`
//!
//! # Safety
//!
//! [`Memory`] consists of atomics, for which a device may change bytes while references exist. It
//! is registered for as long as it lives, and it lives until both queue pairs are destroyed: they
//! are declared after it in [`run`], so they are dropped before it.
#![allow(unsafe_code, reason = "shows raw posting")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, CompletionQueue, Context, MemoryRegion, Operation, Payload, ProtectionDomain,
    QueuePair, RecvRequest, Remote, SendRequest, WorkCompletion,
};

/// How many requests a batch has, and how many batches there are.
const BATCH: u32 = 32;
const BATCHES: u32 = 64;
/// How many bytes a request writes.
const SIZE: u32 = 64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "rxe0".to_owned());
    let context = Context::open(&device)?;
    let pd = context.alloc_pd()?;
    let len = usize::try_from(BATCH * SIZE)?;
    let source = Memory::new(&pd, len, AccessFlags::empty())?;
    let target = Memory::new(
        &pd,
        len,
        AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE,
    )?;
    for (at, byte) in source.bytes.iter().enumerate() {
        byte.store(u8::try_from(at % 251)?, Ordering::Relaxed);
    }

    let mut cq = context.create_cq(64)?;
    let mut target_cq = context.create_cq(64)?;
    let sender = pd
        .queue_pair(Rc, &cq, &cq)
        .max_send_wr(2 * BATCH)
        .max_inline_data(SIZE)
        .build()?;
    let receiver = pd
        .queue_pair(Rc, &target_cq, &target_cq)
        .allow_remote_rw()
        .build()?;
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let mut receiver = receiver.handshake(to_sender)?;
    let mut sender = sender.handshake(to_receiver)?;

    let start = Instant::now();
    for _ in 0..BATCHES {
        write_batch(&mut sender, &source, &target)?;
        // The one signaled request stands for all before it.
        let done = next(&mut cq)?;
        if done.wr_id != u64::from(BATCH - 1) {
            return Err(format!("request {} was not asked to report", done.wr_id).into());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = BATCH * BATCHES;
    println!(
        "{count} writes with {BATCHES} doorbells, {:.0} per second",
        f64::from(count) / seconds
    );
    if !source.equals(&target) {
        return Err("the bytes did not arrive as they were sent".into());
    }
    println!("{len} bytes arrived");

    // Inline: the bytes are copied into the queue now, so posting is safe and needs no region.
    let sge = [target.mr.sge(0, SIZE).ok_or("outside of the region")?];
    // SAFETY: the region lives until the receiver is destroyed, and nothing reads it before the
    // completion.
    unsafe {
        receiver.post_recv(&[RecvRequest {
            wr_id: 7,
            scatter: &sge,
        }])
    }?;
    let mut batch = sender.send_batch();
    batch.push_inline(&SendRequest::send_inline(&[b"in", b"line"]).signaled())?;
    batch.submit()?;
    next(&mut cq)?;
    let arrived = next(&mut target_cq)?;
    println!(
        "request {} received {} bytes inline",
        arrived.wr_id, arrived.byte_len
    );
    Ok(())
}

/// Posts a batch of writes, of which only the last reports success.
fn write_batch(
    qp: &mut QueuePair<Rc>,
    source: &Memory,
    target: &Memory,
) -> Result<(), Box<dyn Error>> {
    let mut batch = qp.send_batch();
    for number in 0..BATCH {
        let offset = u64::from(number * SIZE);
        let sge = [source.mr.sge(offset, SIZE).ok_or("outside of the region")?];
        let remote = Remote {
            address: target.mr.address() + offset,
            key: target.mr.rkey(),
        };
        let mut request =
            SendRequest::new(Operation::Write(remote), Payload::Gather(&sge)).wr_id(number.into());
        if number == BATCH - 1 {
            request = request.signaled();
        }
        // SAFETY: `source` stays registered and unchanged until after the completion has been
        // polled.
        unsafe { batch.push(&request) }?;
    }
    // An error above drops the batch, which takes everything back: nothing was submitted.
    Ok(batch.submit()?)
}

/// The next completion, which must be a success.
fn next(cq: &mut CompletionQueue) -> Result<WorkCompletion, Box<dyn Error>> {
    let mut completions = [WorkCompletion::default()];
    while cq.poll_into(&mut completions)? == 0 {
        std::hint::spin_loop();
    }
    let [done] = completions;
    if done.status.is_success() {
        return Ok(done);
    }
    Err(format!(
        "request {}: {} (vendor error {})",
        done.wr_id, done.status, done.vendor_err
    )
    .into())
}

/// Bytes of this process and their registration.
struct Memory {
    // Declared before the bytes: it is deregistered before they are freed.
    mr: MemoryRegion,
    bytes: Box<[AtomicU8]>,
}

impl Memory {
    fn new(pd: &ProtectionDomain, len: usize, access: AccessFlags) -> Result<Self, uverbs::Error> {
        let bytes: Box<[AtomicU8]> = (0..len).map(|_| AtomicU8::new(0)).collect();
        let start = bytes.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the bytes are atomics, which have no invalid values, and are freed after the
        // region.
        let mr = unsafe { pd.register(start, len, access) }?;
        Ok(Self { mr, bytes })
    }

    fn equals(&self, other: &Self) -> bool {
        let mut pairs = self.bytes.iter().zip(&other.bytes);
        pairs.all(|(one, other)| one.load(Ordering::Relaxed) == other.load(Ordering::Relaxed))
    }
}
