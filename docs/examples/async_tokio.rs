//! Two tasks on one thread send a message back and forth, and sleep while there is nothing to do.
//! Needs the feature `tokio`.
//!
//! `async_tokio [DEVICE [ROUNDS]]`

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use uverbs::asynchronous::{AsyncCompletionChannel, AsyncEvents};
use uverbs::owned::{Buffer, Finished, QueuePair};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, Notify, PreparedQueuePair, QueuePairEndpoint};

/// The size of a message in bytes.
const SIZE: usize = 64;
/// What a request was posted for.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let device = args.next().unwrap_or_else(|| "rxe0".to_owned());
    let rounds: u32 = args.next().map_or(Ok(100), |text| text.parse())?;
    let context = Context::open(&device)?;
    let a = Prepared::new(&context)?;
    let b = Prepared::new(&context)?;
    let (endpoint_a, endpoint_b) = (a.qp.endpoint(), b.qp.endpoint());
    let mut a = a.connect(endpoint_b)?;
    let mut b = b.connect(endpoint_a)?;

    let start = Instant::now();
    let work = async { tokio::try_join!(ping(&mut a, rounds), pong(&mut b, rounds)) };
    // Waiting can be cancelled at any point: an event is taken in the same poll that returns it.
    tokio::time::timeout(Duration::from_secs(30), work).await??;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    println!(
        "{rounds} round trips, {:.1} µs each",
        micros / f64::from(rounds.max(1))
    );

    // The same for asynchronous events of the device; none occur here.
    let events = AsyncEvents::new(&context)?;
    match tokio::time::timeout(Duration::from_millis(20), events.event()).await {
        Ok(event) => println!("event: {:?}", event?),
        Err(_) => println!("no event within 20 ms"),
    }
    Ok(())
}

async fn ping(end: &mut End, rounds: u32) -> Result<(), Box<dyn Error>> {
    for round in 0..rounds {
        end.send(&round.to_be_bytes()).await?;
        if end.receive().await? != round.to_be_bytes() {
            return Err(format!("round {round} came back changed").into());
        }
    }
    Ok(())
}

async fn pong(end: &mut End, rounds: u32) -> Result<(), Box<dyn Error>> {
    for _ in 0..rounds {
        let heard = end.receive().await?;
        end.send(&heard).await?;
    }
    Ok(())
}

/// One side before it is connected to the other.
struct Prepared {
    channel: AsyncCompletionChannel,
    cq: CompletionQueue,
    qp: PreparedQueuePair<Rc>,
}

impl Prepared {
    fn new(context: &Context) -> Result<Self, uverbs::Error> {
        let pd = context.alloc_pd()?;
        let channel = context.create_completion_channel()?;
        let cq = context.completion_queue(16).channel(&channel).build()?;
        let qp = pd.queue_pair(Rc, &cq, &cq).build()?;
        let channel = AsyncCompletionChannel::new(channel)?;
        Ok(Self { channel, cq, qp })
    }

    fn connect(self, remote: QueuePairEndpoint) -> Result<End, Box<dyn Error>> {
        let qp = self.qp.handshake(remote)?;
        let [outgoing, incoming] = qp.pd().buffers::<2>(SIZE)?;
        let mut qp = QueuePair::new(qp);
        qp.recv(incoming, RECEIVE)?;
        Ok(End {
            channel: self.channel,
            cq: self.cq,
            qp,
            outgoing: Some(outgoing),
            received: None,
        })
    }
}

/// One side.
struct End {
    channel: AsyncCompletionChannel,
    cq: CompletionQueue,
    qp: QueuePair<Rc>,
    outgoing: Option<Buffer>,
    received: Option<Vec<u8>>,
}

impl End {
    async fn send(&mut self, message: &[u8]) -> Result<(), Box<dyn Error>> {
        while self.outgoing.is_none() {
            self.progress().await?;
        }
        let mut buffer = self.outgoing.take().ok_or("no buffer to send from")?;
        buffer
            .get_mut(..message.len())
            .ok_or("the message is too long")?
            .copy_from_slice(message);
        self.qp.send(buffer, message.len(), SEND)?;
        Ok(())
    }

    async fn receive(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        loop {
            if let Some(message) = self.received.take() {
                return Ok(message);
            }
            self.progress().await?;
        }
    }

    /// Waits for one completion.
    async fn progress(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            if let Some(finished) = self.poll()? {
                return self.take(finished);
            }
            // A completion that arrived before the request sends no event, so poll once more.
            self.cq.request_notification(Notify::Any)?;
            if let Some(finished) = self.poll()? {
                return self.take(finished);
            }
            self.channel.event().await?;
        }
    }

    fn poll(&mut self) -> Result<Option<Finished>, Box<dyn Error>> {
        let Some(completion) = self.cq.poll()? else {
            return Ok(None);
        };
        let finished = self
            .qp
            .complete(completion)
            .map_err(|_| "a completion of another queue pair")?;
        Ok(Some(finished))
    }

    fn take(&mut self, finished: Finished) -> Result<(), Box<dyn Error>> {
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
