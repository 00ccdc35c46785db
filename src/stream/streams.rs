//! What the streams of a program share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use uverbs_core::{Error, Op, Result};

use super::Connector;
use super::error::StreamError;
use super::listener::StreamListener;
use super::state::INLINE;
use super::stream::Stream;
use super::wire::{BEYOND, Hello, Mismatch};
use crate::ProtectionDomain;
use crate::cm::wait::{Blocking, Waits, now};
use crate::cm::{self, CmError, ConnectData, EventChannel, RejectReason};
use crate::hub::Hub;

/// How many queue pairs may have numbers that the peer still knows, before that is an error.
const STALE: usize = 4;

/// What streams are made with: a hub, whose completion queue they share, and an event channel.
///
/// Cheap to clone. Streams and listeners keep it.
#[derive(Clone, Debug)]
pub struct Streams {
    pub(super) hub: Arc<Hub>,
    pub(super) pd: ProtectionDomain,
    pub(super) channel: EventChannel,
    pub(super) hello: Hello,
}

/// Streams to be made ([`ProtectionDomain::streams`]).
///
/// | setting | default |
/// |---|---|
/// | [`connections`](Self::connections) | 64 |
/// | [`message_size`](Self::message_size) | 4 KiB |
/// | [`credits`](Self::credits) | 64 messages |
/// | [`keepalive`](Self::keepalive) | 5 s |
/// | [`spin`](Self::spin) | 10 µs |
/// | [`channel`](Self::channel) | one of its own |
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct StreamsBuilder {
    pd: ProtectionDomain,
    connections: usize,
    message_size: u32,
    credits: u16,
    keepalive: Option<Duration>,
    spin: Duration,
    gid_index: Option<u8>,
    channel: Option<EventChannel>,
}

impl ProtectionDomain {
    /// A builder for [`Streams`]: bytes by IP address, over this device.
    pub fn streams(&self) -> StreamsBuilder {
        StreamsBuilder {
            pd: self.clone(),
            connections: 64,
            message_size: 4 << 10,
            credits: 64,
            keepalive: Some(Duration::from_secs(5)),
            spin: Duration::from_micros(10),
            gid_index: None,
            channel: None,
        }
    }
}

impl StreamsBuilder {
    /// How many streams there may be at a time.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// How many bytes fit into a message from the peer, and so into a buffer. Larger ones make
    /// [`send`](super::Stream::send) move more at a time; writing and reading gain little.
    pub fn message_size(mut self, bytes: u32) -> Self {
        self.message_size = bytes;
        self
    }

    /// How many messages a peer may send before they are read: a stream takes this many buffers
    /// while nobody reads it, and some more. Many small writes in a row are faster with 256 or 512.
    pub fn credits(mut self, messages: u16) -> Self {
        self.credits = messages;
        self
    }

    /// How often the device asks the peer of a quiet stream for a sign of life; `None` never does.
    /// A peer that vanished without a word is noticed about two seconds later.
    pub fn keepalive(mut self, every: Option<Duration>) -> Self {
        self.keepalive = every;
        self
    }

    /// How long whoever takes completions polls for more before sleeping. While that finds
    /// nothing, as with a peer that takes longer to answer, it is left out more and more often: at
    /// most 31 times of 32. Once it finds something, it is always done. A thread also lets others
    /// have the processor before it sleeps: up to 128 times while that finds something, else once.
    /// One that waits to write sleeps at once: its peer has messages to read first.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// The place in the port's GID table, as
    /// [`QueuePairBuilder::gid_index`](crate::QueuePairBuilder::gid_index). Not needed where the
    /// device has a GID that is chosen automatically; the connection manager's is used in the end.
    pub fn gid_index(mut self, index: u8) -> Self {
        self.gid_index = Some(index);
        self
    }

    /// The channel to use. A thread that it starts waits for its events.
    pub fn channel(mut self, channel: &EventChannel) -> Self {
        self.channel = Some(channel.clone());
        self
    }

    /// Creates the hub, and opens the channel.
    ///
    /// # Errors
    /// Those of [`HubBuilder::build`](crate::hub::HubBuilder::build) and [`EventChannel::open`].
    pub fn build(self) -> Result<Streams> {
        let op = Op::CreateCompletionQueue;
        if self.credits == 0 {
            return Err(Error::invalid(op, "credits"));
        }
        if self.message_size == 0 {
            return Err(Error::invalid(op, "message_size"));
        }
        let size =
            usize::try_from(self.message_size).map_err(|_| Error::invalid(op, "message_size"))?;
        let queue = u32::from(self.credits) + BEYOND;
        // What is posted, what has arrived, what is sent; and as much again for the user.
        let buffers = self
            .connections
            .saturating_mul(queue as usize)
            .saturating_mul(6);
        let gid_index = self.gid_index;
        let hub = self
            .pd
            .hub()
            .connections(self.connections)
            .sends(queue)
            .receives(queue)
            .buffer_size(size)
            .buffers(buffers)
            .spin_if_useful(self.spin)
            .queue_pairs(move |queue| {
                let queue = queue.max_inline_data(INLINE);
                match gid_index {
                    Some(index) => queue.gid_index(index),
                    None => queue,
                }
            });
        let hub = match self.keepalive {
            Some(every) => hub.keepalive(every),
            None => hub,
        };
        let hub = Arc::new(hub.build()?);
        let channel = match self.channel {
            Some(channel) => channel,
            None => EventChannel::open()?,
        };
        channel.keep_attended();
        Ok(Streams {
            hub,
            pd: self.pd,
            channel,
            hello: Hello {
                credits: self.credits,
                message_size: self.message_size,
            },
        })
    }
}

impl Streams {
    /// Listens at `address`, as [`cm::listen`]. Requests that come through another device are
    /// refused.
    ///
    /// # Errors
    /// Those of [`ListenerBuilder::build`](cm::ListenerBuilder::build).
    pub fn listen(&self, address: SocketAddr) -> Result<StreamListener> {
        let listener = cm::listen(address).channel(&self.channel).build()?;
        Ok(StreamListener::new(self, listener))
    }

    /// Connects to a listener; blocks. The [`Connector`] sets the local address, and the limit of
    /// each step if it is not to be 10 seconds.
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`Connect`](StreamError::Connect) | those of [`Connector::resolve`] and [`Resolved::connect`](cm::Resolved::connect) |
    /// | [`Failed`](StreamError::Failed) | as many [connections](StreamsBuilder::connections) as there may be; no memory; the peer is reached by another device |
    /// | [`NotAStream`](StreamError::NotAStream), [`Version`](StreamError::Version) | the peer speaks something else |
    pub fn connect(&self, to: Connector) -> Result<Stream, StreamError> {
        now(self.connect_by(to, &Blocking))
    }

    pub(super) async fn connect_by<W: Waits>(
        &self,
        to: Connector,
        by: &W,
    ) -> Result<Stream, StreamError> {
        // Kept, so that the next queue pair has another number.
        let mut stale = Vec::new();
        loop {
            let to = to.clone().channel(&self.channel);
            let resolved = to.resolve_by(&self.channel, by).await?;
            let addresses = (resolved.local_addr(), resolved.peer_addr());
            let resolved = resolved.private_data(ConnectData::new(&self.hello.to_bytes())?);
            let failed = match self.hub.prepare()?.connect_by(resolved, by).await {
                Ok((connection, said)) => {
                    let hellos = (self.hello, Hello::parse(said.as_bytes())?);
                    return Ok(Stream::new(connection, &self.hub, hellos, addresses));
                }
                Err(failed) => failed,
            };
            // The peer's kernel still knows a connection of that number, which has just ended.
            let is_stale = failed.cause.reason() == Some(RejectReason::StaleConnection);
            if !is_stale || stale.len() == STALE {
                return Err(refused(failed.cause));
            }
            stale.push(failed.prepared);
        }
    }

    /// What takes completions: threads that wait do it in turn, but tasks need a
    /// [driver](Hub::driver).
    pub fn hub(&self) -> &Hub {
        &self.hub
    }
}

/// A listener of another version says which.
fn refused(cause: CmError) -> StreamError {
    if let CmError::Rejected(rejection) = &cause
        && let Err(Mismatch::Version(version)) = Hello::parse(rejection.private_data())
    {
        return StreamError::Version(version);
    }
    cause.into()
}
