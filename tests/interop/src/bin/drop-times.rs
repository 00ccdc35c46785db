//! How long a program waits for dropping its connections: `drop-times ADDRESS COUNT`, where both
//! ends are in this process. Prints the microseconds of all of them and of the longest.

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use uverbs::cm::{self, Connection, EventChannel, Listener};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, ProtectionDomain};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, count] = &args[..] else {
        return Err("ADDRESS COUNT".into());
    };
    let count: u32 = count.parse()?;
    let at = SocketAddr::new(address.parse()?, 0);
    let (client, server) = (Side::new(at)?, Side::new(at)?);
    let listener = cm::listen(at).channel(&server.channel).build()?;
    let to = listener.local_addr();
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| (0..count).map(|_| server.accept(&listener)).collect());
        let ours: Outcome<Vec<_>> = (0..count).map(|_| client.connect(to)).collect();
        let theirs: Outcome<Vec<_>> = theirs.join().map_err(|_| "the server failed")?;
        Ok::<_, Box<dyn Error + Send + Sync>>((ours?, theirs?))
    })?;
    let begin = Instant::now();
    let times: Vec<_> = ours.into_iter().map(drop_timed).collect();
    let all = begin.elapsed();
    let longest = times.into_iter().max().unwrap_or_default();
    println!("{} {}", all.as_micros(), longest.as_micros());
    drop(theirs);
    Ok(())
}

fn drop_timed(connection: Connection) -> Duration {
    let start = Instant::now();
    drop(connection);
    start.elapsed()
}

struct Side {
    channel: EventChannel,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl Side {
    /// On the device that has the address.
    fn new(at: SocketAddr) -> Outcome<Self> {
        let channel = EventChannel::open()?;
        let there = SocketAddr::new(at.ip(), 1);
        let pd = cm::connect(there)
            .channel(&channel)
            .resolve()?
            .open()?
            .alloc_pd()?;
        let cq = pd.context().create_cq(16)?;
        Ok(Self { channel, pd, cq })
    }

    fn connect(&self, to: SocketAddr) -> Outcome<Connection> {
        let resolved = cm::connect(to).channel(&self.channel).resolve()?;
        let prepared = resolved.queue_pair(&self.pd, &self.cq, &self.cq).build()?;
        Ok(resolved.connect(prepared)?)
    }

    fn accept(&self, listener: &Listener) -> Outcome<Connection> {
        let request = listener.accept()?;
        let prepared = self.pd.queue_pair(Rc, &self.cq, &self.cq).build()?;
        Ok(request.accept(prepared)?)
    }
}
