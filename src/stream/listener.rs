//! Taking streams.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::error::StreamError;
use super::stream::Stream;
use super::streams::Streams;
use super::wire::Hello;
use crate::cm::wait::{Blocking, Waits, deadline, now};
use crate::cm::{AcceptData, CmError, Listener, RejectData, Request};

/// Takes streams at an address ([`Streams::listen`]).
///
/// Dropping it rejects the requests that were not taken. Streams go on.
#[derive(Debug)]
pub struct StreamListener {
    streams: Streams,
    listener: Listener,
    handshake: Duration,
    refused: AtomicU64,
}

impl StreamListener {
    pub(super) fn new(streams: &Streams, listener: Listener) -> Self {
        Self {
            streams: streams.clone(),
            listener,
            handshake: Duration::from_secs(10),
            refused: AtomicU64::new(0),
        }
    }

    /// How long a peer may take to confirm that it has a stream. Default: 10 s. A peer that does
    /// not confirm holds up the thread or task that accepts it for that long; any number may
    /// accept.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.handshake = limit;
        self
    }

    /// Its address, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// How many requests made no stream: their peers went away, speak something else, or came
    /// through another device.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed) + self.listener.lost()
    }

    /// Waits for a stream. Any number of threads may wait. Peers that went away meanwhile, or speak
    /// something else, are [counted](Self::refused).
    ///
    /// # Errors
    /// [`Failed`](StreamError::Failed): as many [connections](super::StreamsBuilder::connections)
    /// as there may be, or no memory; the peer is rejected. [`Connect`](StreamError::Connect): the
    /// device was removed, or the process has changed its credentials.
    pub fn accept(&self) -> Result<Stream, StreamError> {
        loop {
            if let Some(stream) = now(self.accept_by(&Blocking, None))? {
                return Ok(stream);
            }
        }
    }

    /// The same; `None` if no peer asked within `limit`.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_timeout(&self, limit: Duration) -> Result<Option<Stream>, StreamError> {
        now(self.accept_by(&Blocking, deadline(limit)))
    }

    pub(super) async fn accept_by<W: Waits>(
        &self,
        by: &W,
        until: Option<Instant>,
    ) -> Result<Option<Stream>, StreamError> {
        loop {
            let Some(request) = self.listener.accept_by(by, until).await? else {
                return Ok(None);
            };
            match self.answer(request, by).await {
                Ok(Some(stream)) => return Ok(Some(stream)),
                Ok(None)
                | Err(StreamError::Connect(
                    CmError::GaveUp
                    | CmError::Rejected(_)
                    | CmError::TimedOut(_)
                    | CmError::Unreachable(_)
                    | CmError::Disconnected,
                )) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Accepts a request, or rejects it if its peer speaks something else.
    async fn answer<W: Waits>(
        &self,
        request: Request,
        by: &W,
    ) -> Result<Option<Stream>, StreamError> {
        let Streams { hub, hello, pd, .. } = &self.streams;
        let ours = hello.to_bytes();
        let theirs = Hello::parse(request.peer_data());
        let (Ok(theirs), true) = (theirs, request.is_on(pd.context())) else {
            request.reject(RejectData::new(&ours)?)?;
            return Ok(None);
        };
        let addresses = (request.local_addr(), request.peer_addr());
        let request = request
            .private_data(AcceptData::new(&ours)?)
            .timeout(self.handshake);
        let connection = hub.prepare()?.accept_by(request, by).await?;
        let hellos = (*hello, theirs);
        Ok(Some(Stream::new(connection, hub, hellos, addresses)))
    }
}
