//! Two queue pairs of one process send a message back and forth over a reliable connection, without
//! `unsafe`: buffers move into a queue pair and come back when their requests are finished.
//!
//! `ping_pong_rc [DEVICE [ROUNDS]]`

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use uverbs::owned::{Buffer, QueuePair};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, PreparedQueuePair};

/// The size of a message in bytes.
const SIZE: usize = 64;
/// What a request was posted for; comes back when it is finished.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

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
    let mut args = std::env::args().skip(1);
    let device = args.next().unwrap_or_else(|| "rxe0".to_owned());
    let rounds: u32 = args.next().map_or(Ok(1000), |text| text.parse())?;

    let context = Context::open(&device)?;
    let (cq_a, a) = prepare(&context)?;
    let (cq_b, b) = prepare(&context)?;
    // Between two processes these two values are sent over any other connection, as text or bytes.
    let (endpoint_a, endpoint_b) = (a.endpoint(), b.endpoint());
    println!("a {endpoint_a}\nb {endpoint_b}");
    let mut a = End::new(cq_a, a.handshake(endpoint_b)?)?;
    let mut b = End::new(cq_b, b.handshake(endpoint_a)?)?;

    let start = Instant::now();
    for round in 0..rounds {
        a.send(&round.to_be_bytes())?;
        let heard = b.receive()?;
        b.send(&heard)?;
        if a.receive()? != round.to_be_bytes() {
            return Err(format!("round {round} came back changed").into());
        }
    }
    let each = start.elapsed() / rounds.max(1);
    println!("{rounds} round trips, {each:.1?} each");
    Ok(())
}

fn prepare(context: &Context) -> Result<(CompletionQueue, PreparedQueuePair<Rc>), uverbs::Error> {
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(16)?;
    let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;
    Ok((cq, prepared))
}

/// One side. It holds everything it needs in one struct: handles keep their parents alive.
struct End {
    cq: CompletionQueue,
    qp: QueuePair<Rc>,
    /// The buffer to send from, while it is not in the queue.
    outgoing: Option<Buffer>,
    received: Option<Vec<u8>>,
}

impl End {
    fn new(cq: CompletionQueue, qp: uverbs::QueuePair<Rc>) -> Result<Self, Box<dyn Error>> {
        let [outgoing, incoming] = qp.pd().buffers::<2>(SIZE)?;
        let mut qp = QueuePair::new(qp);
        qp.recv(incoming, RECEIVE)?;
        Ok(Self {
            cq,
            qp,
            outgoing: Some(outgoing),
            received: None,
        })
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Box<dyn Error>> {
        let mut buffer = loop {
            match self.outgoing.take() {
                Some(buffer) => break buffer,
                None => self.progress()?,
            }
        };
        buffer
            .get_mut(..message.len())
            .ok_or("the message is too long")?
            .copy_from_slice(message);
        self.qp.send(buffer, message.len(), SEND)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        loop {
            if let Some(message) = self.received.take() {
                return Ok(message);
            }
            self.progress()?;
        }
    }

    /// Takes one completion, if there is one.
    fn progress(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(completion) = self.cq.poll()? else {
            // rxe runs on the processors of this machine: let it run.
            std::thread::yield_now();
            return Ok(());
        };
        let Ok(finished) = self.qp.complete(completion) else {
            return Err("a completion of another queue pair".into());
        };
        if !finished.status().is_success() {
            return Err(format!("request {}: {}", finished.user_data(), finished.status()).into());
        }
        if finished.user_data() == SEND {
            self.outgoing = finished.into_buffer();
            return Ok(());
        }
        self.received = finished.bytes().map(<[u8]>::to_vec);
        if let Some(buffer) = finished.into_buffer() {
            self.qp.recv(buffer, RECEIVE)?;
        }
        Ok(())
    }
}
