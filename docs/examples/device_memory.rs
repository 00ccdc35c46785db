//! A counter in the device's own memory, which a peer increments with atomics, and a null region
//! for data that is not wanted. The peer is a queue pair of this process.
//!
//! `device_memory [DEVICE]`
//!
//! # Safety
//!
//! The one scatter/gather entry that names memory of this process names an atomic, which has no
//! invalid values; the program waits for each request before it does anything else.
#![allow(unsafe_code, reason = "posts requests that name memory")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, CompletionQueue, Context, Operation, Payload, QueuePair, Remote, SendRequest,
};

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
    let mut cq = context.create_cq(16)?;
    // Queue pairs of one thread may have a page of doorbells to themselves.
    let thread = context.mlx5()?.alloc_thread_domain()?;
    let own = pd.with_thread_domain(&thread)?;
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
    let prepare = || own.queue_pair(Rc, &cq, &cq).access(access).build();
    let (a, b) = (prepare()?, prepare()?);
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut qp = a.handshake(to_b)?;
    let _peer = b.handshake(to_a)?;

    let memory = context.mlx5()?.alloc_device_memory(64, 6)?;
    memory.write(0, &41_u64.to_ne_bytes())?;
    let counter = pd.register_device_memory(&memory, 0, 64, access)?;
    let remote = Remote {
        address: counter.address(),
        key: counter.rkey(),
    };

    // The old value is not wanted: it goes to the null region.
    let nowhere = pd.null_region()?;
    let sges = [nowhere.sge(8)];
    let add = Operation::FetchAdd { remote, add: 1 };
    // SAFETY: the scatter/gather entry names no memory at all.
    unsafe { post(&mut qp, &mut cq, add, Payload::Gather(&sges)) }?;

    let mut bytes = [0; 8];
    memory.read(0, &mut bytes)?;
    println!("the device counted to {}", u64::from_ne_bytes(bytes));

    // A peer would read it like this.
    let value = Box::new(AtomicU64::new(0));
    let start = value.as_ptr().cast::<u8>();
    // SAFETY: an atomic, which has no invalid values and is freed after the region.
    let region = unsafe { pd.register(start, 8, AccessFlags::LOCAL_WRITE) }?;
    let sges = [region.sge(0, 8).ok_or("too long")?];
    // SAFETY: the scatter/gather entry names that atomic, which exists until the request is done.
    unsafe {
        post(
            &mut qp,
            &mut cq,
            Operation::Read(remote),
            Payload::Gather(&sges),
        )
    }?;
    region.deregister()?;
    println!("a peer reads {}", value.load(Ordering::Acquire));
    Ok(())
}

/// Posts one request and waits for it.
///
/// # Safety
/// As [`QueuePair::post_send`].
unsafe fn post(
    qp: &mut QueuePair<Rc>,
    cq: &mut CompletionQueue,
    operation: Operation<'_>,
    payload: Payload<'_>,
) -> Result<(), Box<dyn Error>> {
    let request = SendRequest::new(operation, payload).signaled();
    // SAFETY: the caller's promise.
    unsafe { qp.post_send(&[request]) }?;
    loop {
        if let Some(done) = cq.poll()? {
            if done.is_success() {
                return Ok(());
            }
            return Err(done.status.to_string().into());
        }
    }
}
