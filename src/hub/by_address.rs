//! Connections that are made by IP address.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use uverbs_core::ErrorKind;
use uverbs_core::cm::{EventKind, PrivateData};

use super::connection::{Connection, Prepared};
use super::error::ConnectionError;
use super::queue::Queue;
use super::shared::Shared;
use super::state::Conn;
use crate::cm::channel::Channel;
use crate::cm::wait::{Blocking, Waits, now};
use crate::cm::{self, CmError, ConnectError, Request, Resolved};

impl Prepared {
    /// `rdma_connect`—connects it by address, as [`Resolved::connect`], and posts its receives.
    ///
    /// When the peer's program disconnects, or goes away, everything that waits on the connection
    /// ends with [`PeerLeft`](ConnectionError::PeerLeft). A thread that the event channel starts
    /// for this waits for its events.
    ///
    /// # Errors
    /// As [`Resolved::connect`]; [`Failed`](CmError::Failed): the hub was closed, or is of another
    /// device.
    pub fn connect_to(self, peer: Resolved) -> Result<Connection, CmError> {
        let made = now(async { Ok::<_, CmError>(self.connect_by(peer, &Blocking).await) })?;
        Ok(made?.0)
    }

    /// `rdma_accept`—connects it to a peer that asked for it, as [`Request::accept`], and posts its
    /// receives. Otherwise as [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// As [`Request::accept`]; [`Failed`](CmError::Failed): the hub was closed, or is of another
    /// device.
    pub fn accept(self, request: Request) -> Result<Connection, CmError> {
        now(self.accept_by(request, &Blocking))
    }

    // No receive is posted before it is connected, so nothing completes before: a peer that is
    // faster waits. What a shared queue receives meanwhile finds the connection.
    pub(crate) async fn connect_by<W: Waits>(
        self,
        peer: Resolved,
        by: &W,
    ) -> Result<(Connection, PrivateData), ConnectError> {
        let (queue, connection) = self.announced().map_err(|error| ConnectError {
            cause: error.into(),
            prepared: None,
            memory: Vec::new(),
        })?;
        let made = peer.attach(queue)?.connect_by(by).await?;
        let said = made.link().said();
        Ok((connection.joined(made), said))
    }

    pub(crate) async fn accept_by<W: Waits>(
        self,
        request: Request,
        by: &W,
    ) -> Result<Connection, CmError> {
        let (queue, connection) = self.announced()?;
        let made = request.attach(queue)?.accept_by(by).await?;
        Ok(connection.joined(made))
    }
}

impl Connection {
    fn joined(self, made: cm::Connection) -> Self {
        let channel = Arc::clone(made.link().shared());
        let watch = Arc::new(Watch {
            conn: Arc::downgrade(&self.conn),
            shared: Arc::downgrade(&self.place.shared),
            channel: Arc::downgrade(&channel),
            number: made.link().number(),
        });
        let place = Arc::clone(&self.place);
        self.conn
            .connected(Queue::ByAddress(Box::new((made, place))));
        channel.keep_attended();
        watch.look();
        self
    }
}

/// Ends a connection when its peer does. It is woken by the events of the connection's id, on the
/// thread that reads them.
struct Watch {
    conn: Weak<Conn>,
    shared: Weak<Shared>,
    channel: Weak<Channel>,
    number: u64,
}

impl Watch {
    /// Takes the events that there are, and waits for more.
    fn look(self: &Arc<Self>) {
        let Some(channel) = self.channel.upgrade() else {
            return;
        };
        channel.wake(self.number, Waker::from(Arc::clone(self)));
        while let Some(event) = channel.take(self.number) {
            let why = match event.kind {
                EventKind::Disconnected | EventKind::TimewaitExit => ConnectionError::PeerLeft,
                EventKind::DeviceRemoval => ConnectionError::Failed(ErrorKind::DeviceRemoved),
                _ => continue,
            };
            if let (Some(shared), Some(conn)) = (self.shared.upgrade(), self.conn.upgrade()) {
                shared.lost(&conn, why);
            }
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Shared {
    /// A connection is over; what arrived before is taken first.
    fn lost(&self, conn: &Conn, why: ConnectionError) {
        let mut poller = self.poller();
        // A queue that cannot be polled ends the hub elsewhere.
        let _ = self.take_all_completions(&mut poller);
        conn.lose(why, &mut poller.wake);
        let mut wake = std::mem::take(&mut poller.wake);
        drop(poller);
        self.bells.wake(&mut wake);
    }
}
