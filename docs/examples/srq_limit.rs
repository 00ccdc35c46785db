//! Two queue pairs receive through one shared receive queue, which reports when it runs low, is
//! made larger, and is filled up again.
//!
//! `srq_limit [DEVICE]`

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use uverbs::attr::SrqModify;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::owned::{QueuePair, SharedReceiveQueue};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ProtectionDomain};

/// The size of a message in bytes.
const SIZE: usize = 64;
/// The `user_data` that the queue's events carry.
const SRQ: u64 = 7;

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
    let mut cq = context.create_cq(64)?;
    let srq = pd.shared_receive_queue(8).user_data(SRQ).build()?;
    let mut srq = SharedReceiveQueue::new(srq);
    for buffer in pd.buffer_list(8, SIZE)? {
        srq.recv(buffer, 0)?;
    }

    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..2 {
        let (sender, receiver) = connect(&pd, &cq, &srq)?;
        senders.push(sender);
        receivers.push(receiver);
    }

    // One event when fewer than 6 of the 8 requests are left.
    srq.modify(&SrqModify::new().limit(6))?;
    for number in 0..3_u8 {
        for sender in &mut senders {
            sender.send(&[number; SIZE])?;
        }
    }
    let event = context
        .async_event(Some(Duration::from_secs(10)))?
        .ok_or("no event within 10 s")?;
    match (event.event, event.source) {
        (AsyncEventType::SrqLimitReached, EventSource::SharedReceiveQueue { user_data: SRQ }) => {
            println!("event: {}", event.event);
        }
        other => return Err(format!("another event: {other:?}").into()),
    }

    // The event disarmed it. Make it larger, put more buffers in, arm it again.
    srq.modify(&SrqModify::new().max_wr(32))?;
    for buffer in pd.buffer_list(16, SIZE)? {
        srq.recv(buffer, 0)?;
    }
    srq.modify(&SrqModify::new().limit(4))?;
    let now = srq.queue().query()?;
    println!("resized to {} requests, armed at {}", now.max_wr, now.limit);

    let mut messages = 0;
    while messages < 6 {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        let qp_num = completion.qp_num;
        let Ok(finished) = srq.complete(completion) else {
            continue;
        };
        if !finished.status().is_success() {
            return Err(format!("queue pair {qp_num}: {}", finished.status()).into());
        }
        messages += 1;
        println!("queue pair {qp_num} got {} bytes", finished.len());
        if let Some(buffer) = finished.into_buffer() {
            srq.recv(buffer, 0)?;
        }
    }
    println!(
        "{messages} messages, {} requests posted",
        srq.receives_posted()
    );
    Ok(())
}

/// A queue pair that sends small messages, and its completion queue.
struct Sender {
    cq: CompletionQueue,
    qp: QueuePair<Rc>,
}

/// A sender, and a queue pair connected to it that receives through `srq`.
fn connect(
    pd: &ProtectionDomain,
    incoming: &CompletionQueue,
    srq: &SharedReceiveQueue,
) -> Result<(Sender, QueuePair<Rc>), uverbs::Error> {
    let cq = pd.context().create_cq(16)?;
    let sender = pd.queue_pair(Rc, &cq, &cq).max_inline_data(64).build()?;
    let receiver = pd
        .queue_pair(Rc, incoming, incoming)
        .srq(srq.queue())
        .build()?;
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let receiver = QueuePair::new(receiver.handshake(to_sender)?);
    let qp = QueuePair::new(sender.handshake(to_receiver)?);
    Ok((Sender { cq, qp }, receiver))
}

impl Sender {
    /// Sends bytes that are copied into the queue, and waits until they have arrived.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
        self.qp.send_inline(bytes, 0)?;
        loop {
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            let Ok(finished) = self.qp.complete(completion) else {
                continue;
            };
            if finished.status().is_success() {
                return Ok(());
            }
            return Err(finished.status().to_string().into());
        }
    }
}
