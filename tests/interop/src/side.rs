//! One end of connections by address, in programs that have both.

use std::error::Error;
use std::net::SocketAddr;

use uverbs::cm::{self, Connection, EventChannel, Listener};
use uverbs::owned::{Buffer, QueuePair};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, ProtectionDomain};

/// What these programs end with.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What completions of its receives say.
pub const RECEIVE: u64 = 1;

/// A channel, and what queue pairs are made of.
#[derive(Debug)]
pub struct Side {
    channel: EventChannel,
    /// Of the device.
    pub pd: ProtectionDomain,
    /// Of all queue pairs.
    pub cq: CompletionQueue,
}

impl Side {
    /// On the device that has the address.
    ///
    /// # Errors
    /// Those of the library.
    pub fn new(at: SocketAddr) -> Outcome<Self> {
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

    /// A listener there.
    ///
    /// # Errors
    /// Those of the library.
    pub fn listen(&self, at: SocketAddr) -> Outcome<Listener> {
        Ok(cm::listen(at).channel(&self.channel).build()?)
    }

    /// A connection to a listener, which has this memory for a message from the beginning.
    ///
    /// # Errors
    /// Those of the library.
    pub fn connect(&self, to: SocketAddr, receive: Option<Buffer>) -> Outcome<Connection> {
        let resolved = cm::connect(to).channel(&self.channel).resolve()?;
        let prepared = resolved.queue_pair(&self.pd, &self.cq, &self.cq).build()?;
        let mut attached = resolved.attach(prepared)?;
        post(attached.queue_pair(), receive)?;
        Ok(attached.connect()?)
    }

    /// The next connection of a listener, which has this memory for a message from the beginning.
    ///
    /// # Errors
    /// Those of the library.
    pub fn accept(&self, listener: &Listener, receive: Option<Buffer>) -> Outcome<Connection> {
        let request = listener.accept()?;
        let prepared = self.pd.queue_pair(Rc, &self.cq, &self.cq).build()?;
        let mut attached = request.attach(prepared)?;
        post(attached.queue_pair(), receive)?;
        Ok(attached.accept()?)
    }

    /// How many ids and queue pairs of dropped connections are not destroyed yet.
    pub fn destroying(&self) -> u64 {
        self.channel.destroying()
    }
}

fn post(queue: &mut QueuePair<Rc>, receive: Option<Buffer>) -> Outcome<()> {
    match receive {
        Some(buffer) => Ok((queue.recv(buffer, RECEIVE)).map_err(|refused| refused.error)?),
        None => Ok(()),
    }
}
