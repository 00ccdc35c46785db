//! Connections that are made by IP address.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use uverbs_core::cm::{ConnectionParams, EventKind, PrivateData};
use uverbs_core::{Error, ErrorKind, Op};

use super::connection::{Connection, Prepared};
use super::error::ConnectionError;
use super::queue::{Queue, destroy};
use super::shared::{Place, Shared};
use super::state::Conn;
use crate::cm::channel::Channel;
use crate::cm::handshake::{self, Holds, Side};
use crate::cm::pair::Pair;
use crate::cm::wait::{Blocking, Waits, now};
use crate::cm::{self, CmError, ConnectError, Request, Resolved};
use crate::owned;
use crate::transport::Rc;

impl Prepared {
    /// `rdma_connect`—connects it by address, as [`Resolved::connect`]. Its receives are posted
    /// before the peer learns of it.
    ///
    /// When the peer's program disconnects, or goes away, everything that waits on the connection
    /// ends with [`PeerLeft`](ConnectionError::PeerLeft); at most 0.25 s later if signaled requests
    /// are under way, which may have arrived. A thread that the event channel starts for this waits
    /// for its events.
    ///
    /// # Errors
    /// As [`Resolved::connect`]; [`Failed`](CmError::Failed): the hub was closed, or belongs to
    /// another device.
    pub fn connect_to(self, peer: Resolved) -> Result<Connection, CmError> {
        let made = now(async { Ok::<_, CmError>(self.connect_by(peer, &Blocking).await) })?;
        Ok(made?.0)
    }

    /// `rdma_accept`—connects it to a peer that asked for it, as [`Request::accept`].
    /// Otherwise as [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// As [`Request::accept`]; [`Failed`](CmError::Failed): the hub was closed, or belongs to
    /// another device.
    pub fn accept(self, request: Request) -> Result<Connection, CmError> {
        now(self.accept_by(request, &Blocking))
    }

    pub(crate) async fn connect_by<W: Waits>(
        self,
        peer: Resolved,
        by: &W,
    ) -> Result<(Connection, PrivateData), ConnectError> {
        let (connection, mut pair) = self.begin(peer)?;
        let (held, peer) = pair.both();
        let said = peer.connect_queue(held, by).await;
        connection.made(pair, said)
    }

    pub(crate) async fn accept_by<W: Waits>(
        self,
        request: Request,
        by: &W,
    ) -> Result<Connection, CmError> {
        let (connection, mut pair) = self.begin(request)?;
        let (held, request) = pair.both();
        let said = request.accept_queue(held, by).await;
        Ok(connection.made(pair, said)?.0)
    }

    /// Moves the queue pair to INIT, and into the hub, which posts its receives: a peer may send
    /// before this side learns that it is connected.
    fn begin<S: Side>(self, side: S) -> Result<(Connection, Pair<S, Held>), ConnectError> {
        if let Err(error) = handshake::check(&side, &self.queue) {
            return Err(ConnectError::new(error, self.queue));
        }
        let (queue, connection) = self.announced().map_err(ConnectError::without_queue)?;
        let mut queue = owned::QueuePair::new(queue.into_raw());
        if let Err(error) = handshake::initialize(&side, &mut queue) {
            return Err(handshake::failed(queue, side, error));
        }
        connection.conn.take_over(Queue::InHandshake(queue));
        let held = Held {
            conn: Arc::clone(&connection.conn),
            place: Arc::clone(&connection.place),
        };
        Ok((connection, Pair::new(held, side)))
    }
}

/// The queue pair of a handshake, which is in the hub. Its drop destroys it, unless the handshake
/// has succeeded.
struct Held {
    conn: Arc<Conn>,
    /// Its room in the completion queue.
    place: Arc<Place>,
}

impl Holds for Held {
    fn with<R>(
        &mut self,
        act: impl FnOnce(&mut owned::QueuePair<Rc>) -> R,
    ) -> uverbs_core::Result<R> {
        self.conn.with_held(act).ok_or_else(gone)
    }
}

fn gone() -> Error {
    Error::new(Op::Handshake, ErrorKind::InvalidState).hint("the hub was closed")
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(queue) = self.conn.release() {
            destroy(queue, &self.conn.pool);
            self.conn.pool.tell();
        }
    }
}

impl Connection {
    /// The result of the handshake.
    fn made<S: Side>(
        self,
        pair: Pair<S, Held>,
        said: Result<ConnectionParams, CmError>,
    ) -> Result<(Self, PrivateData), ConnectError> {
        let (held, side) = pair.into_parts();
        let said = match said {
            Ok(said) => said,
            Err(cause) => return Err(held.failed(side, cause)),
        };
        let link = side.into_link(&said);
        let (channel, number) = (Arc::clone(link.shared()), link.number());
        let place = Arc::clone(&held.place);
        self.conn.made(|queue| {
            let made = cm::Connection::new(queue, link);
            Queue::ByAddress(Box::new((made, place)))
        });
        // A hub that was closed before left the queue pair to the handshake: our drop ends it.
        if self.over() == Some(ConnectionError::Closed) {
            return Err(ConnectError::without_queue(gone()));
        }
        let watch = Arc::new(Watch {
            conn: Arc::downgrade(&self.conn),
            shared: Arc::downgrade(&self.place.shared),
            channel: Arc::downgrade(&channel),
            number,
            key: Mutex::default(),
        });
        channel.keep_attended();
        watch.look();
        Ok((self, said.private_data))
    }
}

impl Held {
    /// Takes the queue pair out of the hub; the memory of its receives goes back.
    fn failed(self, side: impl Side, cause: CmError) -> ConnectError {
        let Some(queue) = self.conn.release() else {
            return ConnectError::without_queue(cause);
        };
        let mut failed = handshake::failed(queue, side, cause);
        for memory in failed.memory.drain(..) {
            self.conn.pool.put_memory_silently(memory);
        }
        self.conn.pool.tell();
        failed
    }
}

/// Ends a connection when its peer does. It is woken by the events of the connection's id, on the
/// thread that reads them.
struct Watch {
    conn: Weak<Conn>,
    shared: Weak<Shared>,
    channel: Weak<Channel>,
    number: u64,
    /// Its place among those that wait for the id's events.
    key: Mutex<Option<usize>>,
}

/// How long requests that were under way when the peer left may take to end. That all have arrived
/// is known from acknowledgements, which the peer's device sent before; but this one may look at
/// them later than at the word that the peer has left, which comes another way.
const MOMENT: Duration = Duration::from_millis(250);

impl Watch {
    /// Takes the events that there are, and waits for more.
    fn look(self: &Arc<Self>) {
        let Some(channel) = self.channel.upgrade() else {
            return;
        };
        {
            let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
            channel.wake(self.number, &mut key, Waker::from(Arc::clone(self)));
        }
        let (Some(shared), Some(conn)) = (self.shared.upgrade(), self.conn.upgrade()) else {
            // Nobody is left to be told.
            while channel.take(self.number).is_some() {}
            return;
        };
        while let Some(event) = channel.take(self.number) {
            match event.kind {
                EventKind::Disconnected => self.peer_left(&channel, &shared, &conn),
                EventKind::TimewaitExit => shared.lost(&conn, ConnectionError::PeerLeft),
                EventKind::DeviceRemoval => {
                    let why = ConnectionError::Failed(ErrorKind::DeviceRemoved);
                    shared.lost(&conn, why);
                }
                _ => {}
            }
        }
        if conn.is_left_since(Instant::now()) {
            shared.lost(&conn, ConnectionError::PeerLeft);
        }
    }

    /// What is under way gets its moment, if there is anybody to say when that is over.
    fn peer_left(self: &Arc<Self>, channel: &Channel, shared: &Shared, conn: &Conn) {
        let end = Instant::now() + MOMENT;
        let waits = || channel.wake_at(end, Waker::from(Arc::clone(self)));
        if !(conn.leave_by(end) && waits()) {
            shared.lost(conn, ConnectionError::PeerLeft);
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
