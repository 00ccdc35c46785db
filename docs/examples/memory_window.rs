//! Grants a peer access to a part of a region through a memory window, and revokes it, without
//! registering memory again.
//!
//! `memory_window [DEVICE]`
//!
//! # Safety
//!
//! The window exposes the bytes of [`Shared`], which are atomics: a peer may change them while
//! references exist. They are freed after their region.
#![allow(
    unsafe_code,
    reason = "binds windows, which changes who may access memory"
)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use uverbs::memory::MwType;
use uverbs::owned::{QueuePair as OwnedQueuePair, Work};
use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, CompletionQueue, Context, MemoryRegion, Operation, Payload, ProtectionDomain,
    QueuePair, Remote, SendRequest, WcStatus,
};

/// The size of the region in bytes, and the part of it that the window exposes.
const SIZE: usize = 4096;
const START: u64 = 1024;
const LENGTH: u64 = 64;

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
    let shared = Shared::new(&pd)?;
    // A type 2 window belongs to the queue pair that binds it.
    let mut window = pd.alloc_mw(MwType::Type2)?;

    let mut owner_cq = context.create_cq(16)?;
    let owner = pd
        .queue_pair(Rc, &owner_cq, &owner_cq)
        .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::MW_BIND)
        .build()?;
    let peer_cq = context.create_cq(16)?;
    let peer = pd.queue_pair(Rc, &peer_cq, &peer_cq).build()?;
    let (to_owner, to_peer) = (owner.endpoint(), peer.endpoint());
    let mut owner = owner.handshake(to_peer)?;
    let mut peer = Peer {
        qp: OwnedQueuePair::new(peer.handshake(to_owner)?),
        cq: peer_cq,
    };

    let start = shared.mr.address() + START;
    let binding = window.bind(&shared.mr, start, LENGTH, AccessFlags::REMOTE_WRITE);
    post(&mut owner, &mut owner_cq, Operation::BindWindow(&binding))?;
    let lent = Remote {
        address: start,
        key: window.key(),
    };

    let status = peer.write(&pd, lent)?;
    println!("through the window: {status}, byte {}", shared.byte(START)?);
    if !status.is_success() {
        return Err("the window is bound, and the peer may not write".into());
    }

    post(
        &mut owner,
        &mut owner_cq,
        Operation::LocalInvalidate(window.key()),
    )?;
    let status = peer.write(&pd, lent)?;
    println!("after it was taken back: {status}");
    if status != WcStatus::RemoteAccess {
        return Err("the peer still gets in".into());
    }
    Ok(())
}

/// Posts an operation that moves no data, and waits for it.
fn post(
    qp: &mut QueuePair<Rc>,
    cq: &mut CompletionQueue,
    operation: Operation<'_>,
) -> Result<(), Box<dyn Error>> {
    let request = SendRequest::new(operation, Payload::NONE).signaled();
    // SAFETY: the request moves no memory, and what the window exposes may change at any time.
    unsafe { qp.post_send(&[request]) }?;
    loop {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        if completion.status.is_success() {
            return Ok(());
        }
        return Err(format!("{operation:?}: {}", completion.status).into());
    }
}

struct Peer {
    qp: OwnedQueuePair<Rc>,
    cq: CompletionQueue,
}

impl Peer {
    /// Writes the byte 42, and returns how that went.
    fn write(&mut self, pd: &ProtectionDomain, to: Remote) -> Result<WcStatus, Box<dyn Error>> {
        let [mut buffer] = pd.buffers::<1>(1)?;
        buffer[0] = 42;
        self.qp.post(Work::write(to).memory(buffer))?;
        loop {
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            if let Ok(finished) = self.qp.complete(completion) {
                return Ok(finished.status());
            }
        }
    }
}

/// Memory that windows can be bound to.
struct Shared {
    // Declared before the bytes: it is deregistered before they are freed.
    mr: MemoryRegion,
    bytes: Box<[AtomicU8]>,
}

impl Shared {
    fn new(pd: &ProtectionDomain) -> Result<Self, uverbs::Error> {
        let bytes: Box<[AtomicU8]> = (0..SIZE).map(|_| AtomicU8::new(0)).collect();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
        let start = bytes.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the bytes are atomics, which have no invalid values, and are freed after the
        // region.
        let mr = unsafe { pd.register(start, SIZE, access) }?;
        Ok(Self { mr, bytes })
    }

    fn byte(&self, offset: u64) -> Result<u8, Box<dyn Error>> {
        let byte = self
            .bytes
            .get(usize::try_from(offset)?)
            .ok_or("outside of the region")?;
        Ok(byte.load(Ordering::Acquire))
    }
}
