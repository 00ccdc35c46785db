//! A connection: a queue pair, and the id that reports its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uverbs_core::Result;
use uverbs_core::cm::{self, ConnectionParams, Event, EventKind, PrivateData};
use uverbs_core::types::{QpAttr, QpState};

use super::channel::{Channel, EventChannel};
use super::error::{CmError, Step};
use super::handle::Handle;
use super::pair::{HasId, Pair};
use super::wait::{Blocking, Waits, deadline, now};
use crate::owned;
use crate::transport::Rc;

/// A connected queue pair.
///
/// Dropping it tells the peer, and destroys the queue pair, on another thread: nothing waits. The
/// memory of what is posted is freed once the kernel has confirmed the destroy.
#[derive(Debug)]
pub struct Connection {
    pair: Pair<Link>,
}

/// Reports the end of a connection, and ends it.
#[derive(Debug)]
pub struct Link {
    handle: Handle,
    local: SocketAddr,
    peer: SocketAddr,
    data: PrivateData,
    /// Whether it is known to be over.
    is_over: AtomicBool,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The peer's program disconnected, or went away; or it answered our
    /// [`disconnect`](Link::disconnect), or failed to do so in time.
    #[doc(alias = "RDMA_CM_EVENT_DISCONNECTED")]
    Disconnected,
    /// After a disconnect: no packet of the connection is under way any more, and its queue pair
    /// numbers may be used again. Not on iWARP.
    #[doc(alias = "RDMA_CM_EVENT_TIMEWAIT_EXIT")]
    TimewaitExit,
    /// The device was removed.
    #[doc(alias = "RDMA_CM_EVENT_DEVICE_REMOVAL")]
    DeviceRemoved,
    /// A bond failed over to another network interface; the connection stays on its path.
    #[doc(alias = "RDMA_CM_EVENT_ADDR_CHANGE")]
    AddressChanged,
    /// The link address of the peer's IP address changed; the connection itself may be unaffected.
    /// Since Linux 6.0.
    #[doc(alias = "RDMA_CM_EVENT_UNREACHABLE")]
    PeerMoved,
    /// An event that this version does not know.
    Other(EventKind),
}

impl Connection {
    pub(crate) fn new(queue: owned::QueuePair<Rc>, link: Link) -> Self {
        Self {
            pair: Pair::new(queue, link),
        }
    }

    /// Its queue pair.
    pub fn queue_pair(&mut self) -> &mut owned::QueuePair<Rc> {
        self.pair.queue()
    }

    /// The link, which reports its end.
    pub fn link(&self) -> &Link {
        self.pair.side()
    }

    /// The queue pair, and the link, which reports the connection's end.
    ///
    /// Drop the link first. While the kernel still knows the connection, a new queue pair that gets
    /// the number of the old one cannot be connected to the same peer: that is refused as
    /// [stale](super::RejectReason::StaleConnection), and ends the old connection.
    pub fn into_parts(self) -> (owned::QueuePair<Rc>, Link) {
        self.pair.into_parts()
    }

    /// Ends it as its drop does, and has `last` end the queue pair once the id is gone: on another
    /// thread, if that may take long.
    pub(crate) fn end_with(self, last: impl FnOnce(owned::QueuePair<Rc>) + Send + 'static) {
        self.pair.end_with(last);
    }

    /// The peer's address, as its kernel claims; it is not verified.
    pub fn peer_addr(&self) -> SocketAddr {
        self.link().peer_addr()
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        self.link().local_addr()
    }

    /// The peer's private data from the handshake, as [`Link::private_data`].
    pub fn private_data(&self) -> &[u8] {
        self.link().private_data()
    }

    /// The next event, as [`Link::event`].
    ///
    /// # Errors
    /// As there.
    pub fn event(&self, timeout: Option<Duration>) -> Result<Option<ConnectionEvent>> {
        self.link().event(timeout)
    }

    /// `rdma_disconnect`—ends it: moves the queue pair to the error state, which flushes what is
    /// posted, tells the peer, and waits until the peer has disconnected, too.
    ///
    /// What was posted completes, flushed. Requests that have to arrive must have completed before.
    ///
    /// # Errors
    /// [`TimedOut`](CmError::TimedOut): the peer's program did not disconnect within `limit`; it
    /// was told. [`DeviceRemoved`](CmError::DeviceRemoved).
    #[doc(alias = "rdma_disconnect")]
    pub fn disconnect(&mut self, limit: Duration) -> Result<(), CmError> {
        now(self.disconnect_by(&Blocking, limit))
    }

    pub(crate) async fn disconnect_by<W: Waits>(
        &mut self,
        by: &W,
        limit: Duration,
    ) -> Result<(), CmError> {
        let queue = self.pair.queue();
        if !matches!(queue.state(), QpState::Error | QpState::Reset) {
            queue.modify(&QpAttr::to(QpState::Error))?;
        }
        self.link().disconnect_by(by, limit).await
    }
}

impl Link {
    pub(super) fn new(
        handle: Handle,
        local: SocketAddr,
        peer: SocketAddr,
        said: &ConnectionParams,
    ) -> Self {
        Self {
            handle,
            local,
            peer,
            data: said.private_data,
            is_over: AtomicBool::new(false),
        }
    }

    /// The peer's address, as its kernel claims; it is not verified.
    #[doc(alias = "rdma_get_peer_addr")]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The local address.
    #[doc(alias = "rdma_get_local_addr")]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's private data from the handshake, padded with zeros: 196 bytes on the active side,
    /// 56 on the passive side; on iWARP as many as the peer gave.
    pub fn private_data(&self) -> &[u8] {
        self.data.as_bytes()
    }

    /// The channel of its events.
    pub fn channel(&self) -> EventChannel {
        EventChannel {
            shared: self.handle.channel().clone(),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Channel> {
        self.handle.channel()
    }

    /// What its events carry.
    pub(crate) fn number(&self) -> u64 {
        self.handle.number()
    }

    /// Whether an event that was read has reported the end of the connection.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// `rdma_get_cm_event`—waits for the next event, for at most `timeout` (`None`: forever).
    /// `None` when the time is up. There is nothing to acknowledge.
    ///
    /// # Errors
    /// EACCES: the process no longer has the credentials with which it opened the channel.
    /// [`Forked`](crate::ErrorKind::Forked): it is a child.
    #[doc(alias = "rdma_get_cm_event")]
    pub fn event(&self, timeout: Option<Duration>) -> Result<Option<ConnectionEvent>> {
        let until = timeout.and_then(deadline);
        let event = self.handle.wait(until)?;
        Ok(event.map(|event| self.seen(&event)))
    }

    /// The next event, if there is one. At most one system call, and one more for each event of
    /// others; never waits.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub fn try_event(&self) -> Result<Option<ConnectionEvent>> {
        let event = self.handle.look()?;
        Ok(event.map(|event| self.seen(&event)))
    }

    pub(crate) async fn event_by<W: Waits>(
        &self,
        by: &W,
        until: Option<Instant>,
    ) -> Result<Option<ConnectionEvent>> {
        let event = by.event(&self.handle, until).await?;
        Ok(event.map(|event| self.seen(&event)))
    }

    fn seen(&self, event: &Event) -> ConnectionEvent {
        let event = match event.kind {
            EventKind::Disconnected => ConnectionEvent::Disconnected,
            EventKind::TimewaitExit => ConnectionEvent::TimewaitExit,
            EventKind::DeviceRemoval => ConnectionEvent::DeviceRemoved,
            EventKind::AddressChange => ConnectionEvent::AddressChanged,
            EventKind::Unreachable => ConnectionEvent::PeerMoved,
            other => ConnectionEvent::Other(other),
        };
        if matches!(
            event,
            ConnectionEvent::Disconnected
                | ConnectionEvent::TimewaitExit
                | ConnectionEvent::DeviceRemoved
        ) {
            self.is_over.store(true, Ordering::Release);
        }
        event
    }

    /// `rdma_disconnect`—tells the peer that the connection is over, or answers when the peer did.
    /// One command, which does not wait. The queue pair stays as it is: destroy it, or move it to
    /// the error state.
    ///
    /// # Errors
    /// [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved); those of [`event`](Self::event).
    #[doc(alias = "rdma_disconnect")]
    pub fn disconnect(&self) -> Result<()> {
        cm::disconnect(self.handle.file(), self.handle.id())
    }

    async fn disconnect_by<W: Waits>(&self, by: &W, limit: Duration) -> Result<(), CmError> {
        let until = deadline(limit);
        let was_over = self.is_over();
        self.disconnect()?;
        if was_over {
            return Ok(());
        }
        loop {
            match self.event_by(by, until).await? {
                None => return Err(CmError::TimedOut(Step::Disconnect)),
                Some(ConnectionEvent::Disconnected | ConnectionEvent::TimewaitExit) => {
                    return Ok(());
                }
                Some(ConnectionEvent::DeviceRemoved) => return Err(CmError::DeviceRemoved),
                Some(_) => {}
            }
        }
    }
}

impl HasId for Link {
    fn handle(&self) -> &Handle {
        &self.handle
    }
}
