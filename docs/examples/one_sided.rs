//! Writes, reads and atomics on the memory of a peer that meanwhile does nothing but watch a word
//! of its memory. Without `unsafe`: memory that peers can access is read by copies and single
//! loads.
//!
//! `one_sided [DEVICE]`

use std::error::Error;
use std::process::ExitCode;

use uverbs::error::OutOfRange;
use uverbs::owned::kind::Kind;
use uverbs::owned::{Buffer, ExposedMemory, QueuePair, Work};
use uverbs::transport::{Carries, Rc};
use uverbs::{AccessFlags, CompletionQueue, Context, Remote, RemoteMemory};

/// The layout of the exposed memory, in bytes from its start.
const COUNTER: usize = 0;
const FLAG: usize = 8;
const TEXT: usize = 64;
/// Its size in bytes.
const SIZE: usize = 4096;

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

    // The passive side: memory, and a queue pair that lets its peer access it.
    let remote = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let memory = pd.expose(SIZE, remote)?;
    let passive_cq = context.create_cq(1)?;
    let passive = pd
        .queue_pair(Rc, &passive_cq, &passive_cq)
        .access(AccessFlags::LOCAL_WRITE | remote)
        .build()?;

    let cq = context.create_cq(16)?;
    let active = pd.queue_pair(Rc, &cq, &cq).build()?;
    let (to_active, to_passive) = (active.endpoint(), passive.endpoint());
    let _passive = passive.handshake(to_active)?;
    let mut active = Active {
        qp: QueuePair::new(active.handshake(to_passive)?),
        cq,
        // Address, length and key: all that a peer needs. These 20 bytes would be sent with the
        // endpoint.
        theirs: RemoteMemory::from_bytes(memory.remote().to_bytes()),
    };

    let watcher = std::thread::spawn({
        let memory = memory.clone();
        move || watch(&memory)
    });
    let [mut buffer] = pd.buffers::<1>(64)?;

    buffer[..5].copy_from_slice(b"hello");
    buffer = active.run(Work::write(active.at(TEXT)?).memory((buffer, 5)))?;
    // Writes of one connection are placed in order: a reader that sees the flag sees the text.
    buffer[..8].copy_from_slice(&1_u64.to_ne_bytes());
    buffer = active.run(Work::write(active.at(FLAG)?).memory((buffer, 8)))?;
    let seen = watcher.join().map_err(|_| "the watching thread failed")?;
    let seen = seen.ok_or("the text lies outside of the memory")?;
    println!("written and seen: {}", String::from_utf8_lossy(&seen));

    buffer = active.run(Work::read(active.at(TEXT)?).memory((buffer, 5)))?;
    println!("read back: {}", String::from_utf8_lossy(&buffer[..5]));

    let counter = active.at(COUNTER)?;
    buffer = active.run(Work::fetch_add(counter, 40).memory((buffer, 8)))?;
    println!("fetch and add 40: was {}", word(&buffer));
    buffer = active.run(Work::compare_swap(counter, 40, 42).memory((buffer, 8)))?;
    println!("compare with 40 and swap: was {}", word(&buffer));
    println!("the counter is {}", memory.load(COUNTER).unwrap_or(0));
    Ok(())
}

/// The passive side: waits for the flag, then copies the text out.
fn watch(memory: &ExposedMemory) -> Option<Vec<u8>> {
    while memory.load(FLAG)? != 1 {
        std::thread::yield_now();
    }
    let mut text = vec![0; 5];
    memory.read(TEXT, &mut text).then_some(text)
}

/// The first 8 bytes of a buffer as a number.
fn word(buffer: &Buffer) -> u64 {
    buffer
        .first_chunk()
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

struct Active {
    cq: CompletionQueue,
    qp: QueuePair<Rc>,
    theirs: RemoteMemory,
}

impl Active {
    /// A position in the peer's memory.
    fn at(&self, offset: usize) -> Result<Remote, OutOfRange> {
        self.theirs.at(offset as u64)
    }

    /// Carries out one request and returns its buffer.
    fn run<K: Kind>(&mut self, work: Work<K>) -> Result<Buffer, Box<dyn Error>>
    where
        Rc: Carries<K>,
    {
        self.qp.post(work)?;
        loop {
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            let Ok(finished) = self.qp.complete(completion) else {
                continue;
            };
            if !finished.status().is_success() {
                return Err(finished.status().to_string().into());
            }
            return finished
                .into_memory()
                .into_buffer()
                .ok_or_else(|| "no buffer came back".into());
        }
    }
}
