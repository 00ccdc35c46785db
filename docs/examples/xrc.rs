//! Extended reliable connections: one connection, and two shared receive queues that the sender
//! chooses from. Both ends are in this process.
//!
//! `xrc [DEVICE]`
//!
//! # Safety
//!
//! The memory that is received into consists of atomics, which have no invalid values, and is freed
//! after its region; what is sent is copied into the queue.
#![allow(unsafe_code, reason = "posts requests that name memory")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use uverbs::transport::XrcInitiator;
use uverbs::{AccessFlags, Context, RecvRequest, SendRequest};

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
    let device = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mlx5_0".to_owned());
    let context = Context::open(&device)?;
    let (pd, sent) = (context.alloc_pd()?, context.create_cq(16)?);
    let mut received = [context.create_cq(16)?, context.create_cq(16)?];

    // The receiving side: an XRC domain, shared receive queues in it, and one end of a connection.
    let domain = context.mlx5()?.open_xrc_domain()?;
    let mut queues = [
        domain.create_srq(&pd, &received[0], 16, 1)?,
        domain.create_srq(&pd, &received[1], 16, 1)?,
    ];
    let target = domain.target(&pd, &received[0]).build()?;
    // The sending side.
    let initiator = pd
        .queue_pair(XrcInitiator, &sent, &sent)
        .max_inline_data(64)
        .build()?;
    let (to, from) = (target.endpoint(), initiator.endpoint());
    let _target = target.handshake(from)?;
    let mut initiator = initiator.handshake(to)?;

    let memory: Box<[AtomicU8]> = (0..128).map(|_| AtomicU8::new(0)).collect();
    let start = memory.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: the bytes are atomics, which have no invalid values, and are freed after the region.
    let region = unsafe { pd.register(start, memory.len(), AccessFlags::LOCAL_WRITE) }?;
    for (at, queue) in (0..).zip(&mut queues) {
        let sge = region.sge(at * 64, 64).ok_or("too long")?;
        let scatter = [sge];
        let request = RecvRequest {
            wr_id: at,
            scatter: &scatter,
        };
        // SAFETY: the scatter/gather entry names those atomics, which exist until the queues are
        // gone.
        unsafe { queue.post_recv(&[request]) }?;
    }

    let mut batch = initiator.send_batch();
    for (words, queue) in ["to the first", "to the second"].iter().zip(&queues) {
        let bytes = [words.as_bytes()];
        // SAFETY: inline data is copied; no memory is named.
        unsafe { batch.push_xrc(&SendRequest::send_inline(&bytes), queue.number()) }?;
    }
    batch.submit()?;

    for (at, cq) in received.iter_mut().enumerate() {
        let length = loop {
            if let Some(done) = cq.poll()? {
                break done.byte_len as usize;
            }
        };
        let bytes = memory.iter().skip(at * 64).take(length);
        let words: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Acquire)).collect();
        println!(
            "queue {at} received \"{}\"",
            String::from_utf8_lossy(&words)
        );
    }
    drop(queues);
    region.deregister()?;
    Ok(())
}
