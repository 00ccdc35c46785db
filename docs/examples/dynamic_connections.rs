//! Dynamic connections: one initiator sends to two targets, to which it connects on its own,
//! request by request. All three are in this process.
//!
//! `dynamic_connections [DEVICE]`
//!
//! # Safety
//!
//! The memory that is received into consists of atomics, which have no invalid values, and is freed
//! after its region; what is sent is copied into the queue.
#![allow(unsafe_code, reason = "posts requests that name memory")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use uverbs::{AccessFlags, Context, RecvRequest, SendRequest};

/// Anyone who knows it may send to the targets.
const KEY: u64 = 0x5eed;

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
    let pd = context.alloc_pd()?;
    let (sent, mut received) = (context.create_cq(16)?, context.create_cq(16)?);

    // Targets receive through a shared receive queue, and get a number when they are activated.
    let mut srq = pd.create_srq(16, 1)?;
    let prepared = pd.dc_target(&srq, &received, KEY).build()?;
    let somewhere = prepared.endpoint();
    let first = prepared.activate()?;
    let second = pd.dc_target(&srq, &received, KEY).build()?.activate()?;

    let initiator = pd.dc_initiator(&sent).max_inline_data(64).build()?;
    let path = initiator.path_to(&somewhere)?;
    let mut initiator = initiator.activate()?;
    let way = pd.create_ah(&path)?;

    let memory: Box<[AtomicU8]> = (0..128).map(|_| AtomicU8::new(0)).collect();
    let start = memory.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: the bytes are atomics, which have no invalid values, and are freed after the region.
    let region = unsafe { pd.register(start, memory.len(), AccessFlags::LOCAL_WRITE) }?;
    for at in 0..2 {
        let scatter = [region.sge(at * 64, 64).ok_or("too long")?];
        let request = RecvRequest {
            wr_id: at,
            scatter: &scatter,
        };
        // SAFETY: the scatter/gather entry names those atomics, which exist until the queues are
        // gone.
        unsafe { srq.post_recv(&[request]) }?;
    }

    for (target, name) in [(&first, "one"), (&second, "other")] {
        let bytes = [name.as_bytes()];
        let to = way.to_dc_target(target.qp_num(), KEY);
        let mut batch = initiator.send_batch();
        // SAFETY: inline data is copied; no memory is named.
        unsafe { batch.push_dc(&SendRequest::send_inline(&bytes), &to) }?;
        batch.submit()?;
        let done = loop {
            if let Some(done) = received.poll()? {
                break *done;
            }
        };
        let start = usize::try_from(done.wr_id)? * 64;
        let bytes = memory.iter().skip(start).take(done.byte_len as usize);
        let words: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Acquire)).collect();
        let words = String::from_utf8_lossy(&words).into_owned();
        println!("the {name} target received \"{words}\"");
    }
    drop((first, second, srq));
    region.deregister()?;
    Ok(())
}
