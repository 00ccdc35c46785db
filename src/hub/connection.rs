//! The handle of one connection, before and after it is connected.

use std::sync::Arc;

use uverbs_core::types::Remote;
use uverbs_core::{PostError, Result};

use super::error::ConnectionError;
use super::pool::PooledBuffer;
use super::queue::Queue;
use super::request::{Atomic, Receive, Request};
use super::shared::{Place, Shared};
use super::state::Conn;
use crate::owned::kind::Kind;
use crate::owned::{self, Work};
use crate::transport::{Carries, Rc};
use crate::{PreparedQueuePair, QueuePairEndpoint};

/// A connection that waits for its peer's endpoint ([`Hub::prepare`](super::Hub::prepare)).
#[derive(Debug)]
#[must_use = "it does nothing before it is connected"]
pub struct Prepared {
    pub(super) queue: PreparedQueuePair<Rc>,
    pub(super) place: Place,
}

/// One connection of a [`Hub`](super::Hub).
///
/// Its methods take `&self`: any number of threads and tasks may use it. Each takes the
/// connection's own lock, and no other but the one of the buffers. Dropping it destroys its queue
/// pair; its memory goes back to the hub once the kernel has confirmed that.
#[derive(Debug)]
pub struct Connection {
    pub(super) conn: Arc<Conn>,
    pub(super) place: Arc<Place>,
}

impl Prepared {
    /// What the peer needs to know.
    pub fn endpoint(&self) -> QueuePairEndpoint {
        self.queue.endpoint()
    }

    /// Connects it to the peer and posts its receives. Three system calls on rxe.
    ///
    /// # Errors
    /// As [`PreparedQueuePair::handshake`];
    /// [`InvalidState`](crate::ErrorKind::InvalidState) after the hub was closed.
    pub fn connect(self, remote: QueuePairEndpoint) -> Result<Connection> {
        let (queue, connection) = self.announced()?;
        let qp = owned::QueuePair::new(queue.handshake(remote)?);
        connection.conn.take_over(Queue::Alone(qp));
        Ok(connection)
    }

    /// Lets completions find the connection, whose drop undoes everything from here on.
    pub(super) fn announced(self) -> Result<(PreparedQueuePair<Rc>, Connection)> {
        let conn = self.place.shared.announce(self.queue.qp_num())?;
        let place = Arc::new(self.place);
        Ok((self.queue, Connection { conn, place }))
    }
}

impl Connection {
    pub(super) fn conn(&self) -> &Conn {
        &self.conn
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.place.shared
    }

    /// The number of its queue pair, 24 bits.
    pub fn qp_num(&self) -> u32 {
        self.conn.number
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<ConnectionError> {
        self.conn.lock().over
    }

    /// Sends the first `len` bytes of `buffer`. One system call on rxe, unless the send queue is
    /// full; it never blocks.
    pub fn send(&self, buffer: PooledBuffer, len: usize) -> Request<'_> {
        self.request(Work::send(), buffer, len)
    }

    /// The same, with a 32-bit immediate value.
    pub fn send_imm(&self, buffer: PooledBuffer, len: usize, imm: u32) -> Request<'_> {
        self.request(Work::send_imm(imm), buffer, len)
    }

    /// Writes the first `len` bytes of `buffer` into the peer's memory.
    pub fn write(
        &self,
        buffer: PooledBuffer,
        len: usize,
        remote: impl Into<Remote>,
    ) -> Request<'_> {
        self.request(Work::write(remote), buffer, len)
    }

    /// The same, and then completes a receive of the peer, whose message has no bytes and this
    /// immediate value.
    pub fn write_imm(
        &self,
        buffer: PooledBuffer,
        len: usize,
        remote: impl Into<Remote>,
        imm: u32,
    ) -> Request<'_> {
        self.request(Work::write_imm(remote, imm), buffer, len)
    }

    /// Reads `len` bytes of the peer's memory into `buffer`.
    pub fn read(&self, buffer: PooledBuffer, len: usize, remote: impl Into<Remote>) -> Request<'_> {
        self.request(Work::read(remote), buffer, len)
    }

    /// Replaces 8 aligned bytes of the peer's if they equal `compare`; the old value comes back,
    /// in a buffer of 8 bytes or more that is used for it.
    ///
    /// The queue pairs of hubs allow it on devices that have atomics; the memory has to be exposed
    /// for them, too.
    pub fn compare_swap(
        &self,
        buffer: PooledBuffer,
        remote: impl Into<Remote>,
        compare: u64,
        swap: u64,
    ) -> Atomic<'_> {
        let work = Work::compare_swap(remote, compare, swap);
        Atomic(self.request(work, buffer, size_of::<u64>()))
    }

    /// Adds to 8 aligned bytes of the peer's, modulo 2^64; the old value comes back, as that of
    /// [`compare_swap`](Self::compare_swap).
    pub fn fetch_add(
        &self,
        buffer: PooledBuffer,
        remote: impl Into<Remote>,
        add: u64,
    ) -> Atomic<'_> {
        let work = Work::fetch_add(remote, add);
        Atomic(self.request(work, buffer, size_of::<u64>()))
    }

    /// Waits for the next message.
    ///
    /// Messages that arrived before the connection was lost can still be received.
    pub fn recv(&self) -> Receive<'_> {
        Receive::new(self)
    }

    /// Ends it: every wait ends with [`Closed`](ConnectionError::Closed), the queue pair is
    /// destroyed. Dropping it does the same. One system call.
    pub fn close(&self) {
        self.place
            .shared
            .remove(&self.conn, ConnectionError::Closed);
    }

    fn request<K: Kind>(&self, work: Work<K>, buffer: PooledBuffer, len: usize) -> Request<'_>
    where
        Rc: Carries<K>,
    {
        match buffer.into_inner(&self.conn.pool) {
            Ok(buffer) => Request::new(self, work.memory((buffer, len)).untyped()),
            Err(_) => Request::refused(self, ConnectionError::Refused(PostError::InvalidRequest)),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}
