//! Two sides find each other over TCP, one sends a message, and the other notices that its peer has
//! gone. Here both are threads of one process; nothing but the stream connects them.
//!
//! `exchange [DEVICE]`

use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use uverbs::exchange::{Exchange, Offer};
use uverbs::owned::{Finished, QueuePair};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ProtectionDomain};

/// How long a step of the exchange may take.
const LIMIT: Duration = Duration::from_secs(10);

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
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn({
        let device = device.clone();
        move || serve(&device, &listener).map_err(|error| error.to_string())
    });
    let mut side = Side::new(&device, TcpStream::connect(address)?)?;
    let [mut message] = side.pd.buffers::<1>(64)?;
    message[..5].copy_from_slice(b"hello");
    side.qp.send(message, 5, 0)?;
    side.finished()?.ok_or("the server went away")?;
    // Dropping this side closes its stream, however the process ends.
    drop(side);
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}

fn serve(device: &str, listener: &TcpListener) -> Result<(), Box<dyn Error>> {
    let (stream, _) = listener.accept()?;
    let mut side = Side::new(device, stream)?;
    let finished = side.finished()?.ok_or("the client went away")?;
    let text = finished.bytes().map(String::from_utf8_lossy);
    println!("heard {:?}", text.unwrap_or_default());
    // Nothing else will ever arrive, and no completion says so: the stream does.
    while side.finished()?.is_some() {}
    println!("the peer has gone");
    Ok(())
}

/// One side: a queue pair, and the stream that tells whether the peer is alive.
struct Side {
    qp: QueuePair<Rc>,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    stream: TcpStream,
}

impl Side {
    fn new(device: &str, stream: TcpStream) -> Result<Self, Box<dyn Error>> {
        let context = Context::open(device)?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(16)?;
        let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;
        let [first, second] = pd.buffers::<2>(64)?;

        let mut exchange = Exchange::new(stream, LIMIT);
        let peer = exchange.offer(&Offer::of(prepared.endpoint()))?;
        let mut qp = QueuePair::new(prepared.handshake(peer.endpoint()?)?);
        // What the peer's first messages need must be there before it may send.
        qp.recv(first, 0)?;
        qp.recv(second, 0)?;
        exchange.ready()?;
        let stream = exchange.into_inner();
        stream.set_nonblocking(true)?;

        Ok(Self { qp, cq, pd, stream })
    }

    /// The next finished request; `None` once the peer has gone and everything was taken.
    fn finished(&mut self) -> Result<Option<Finished>, Box<dyn Error>> {
        loop {
            // In this order: what arrived before the end is still taken.
            let gone = self.is_gone()?;
            if let Some(completion) = self.cq.poll()? {
                let finished = self.qp.complete(completion);
                let finished = finished.map_err(|_| "a completion of another queue pair")?;
                if finished.status().is_success() {
                    return Ok(Some(finished));
                }
                return Err(finished.status().to_string().into());
            }
            if gone {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    /// Whether the peer has ended the stream. Does not wait.
    fn is_gone(&self) -> Result<bool, Box<dyn Error>> {
        match self.stream.peek(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // The end of the stream, or a reset.
            Ok(0) | Err(_) => Ok(true),
            Ok(_) => Err("the peer speaks on the stream".into()),
        }
    }
}
