//! Many connections on one completion queue, each with a handle that blocks or is awaited.
//!
//! A [`Hub`] owns a completion queue, the queue pairs (RC) of up to thousands of connections, and
//! registered buffers for all of them. [`Hub::prepare`] makes a queue pair, [`Prepared::connect`]
//! makes it a [`Connection`]; both at any time and from any thread. A connection sends, receives,
//! reads, writes and does atomic operations; each of these is a future, and has a `wait` that
//! blocks with a time limit.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # fn f(pd: &uverbs::ProtectionDomain, peer: uverbs::QueuePairEndpoint)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let hub = pd.hub().connections(1000).keepalive(Duration::from_secs(1)).build()?;
//! let driver = hub.driver();
//! std::thread::spawn(move || driver.run());
//!
//! let connection = hub.prepare()?.connect(peer)?;
//! let mut buffer = hub.buffer()?;
//! buffer[..5].copy_from_slice(b"hello");
//! connection.send(buffer, 5).wait(Duration::from_secs(5))?;
//! let reply = connection.recv().wait(Duration::from_secs(5))?;
//! println!("{} bytes", reply.len());
//! # Ok(())
//! # }
//! ```
//!
//! # Who drives
//!
//! A [`Driver`] takes completions and wakes tasks and threads: on a thread of its own, or as a task
//! of an executor ([`Events`]; tokio's is
//! [`AsyncCompletionChannel`](crate::asynchronous::AsyncCompletionChannel)). Without one, threads
//! that `wait` do it in turn. While nothing happens, all of them sleep; only
//! [keepalives](HubBuilder::keepalive) wake them.
//!
//! # Memory
//!
//! A buffer is in one place at a time: with the user ([`PooledBuffer`], [`Message`]), in an
//! [owned](crate::owned) queue, with an ended request whose result was not taken yet, or free.
//! There is no unsafe code here; the owned queues keep memory away from users while a device may
//! touch it.
//!
//! | what happens | where the buffer goes |
//! |---|---|
//! | a future is dropped | it stays with the queue until the request ends, then it is free |
//! | a future is forgotten | the same, but free only once the connection is gone |
//! | a connection is dropped | free when the kernel has confirmed that its queue pair is gone; otherwise leaked, and counted |
//! | a completion arrives for a connection that is gone | its memory came back with the queue pair; a receive of the shared queue is posted again |
//! | the hub is dropped | every wait ends; handles remain, and do nothing |
//!
//! A completion finds its connection by the queue pair's number, then its request by an id that is
//! never used again. A number is only used again after the completion queue was seen empty.
//!
//! # Limits and fairness
//!
//! A connection has at most [`sends`](HubBuilder::sends) requests under way; others wait. Receives
//! are posted again only when their messages are taken, so a connection that is not read makes its
//! own peer wait, and no other. With a shared receive queue such a connection ends when it has a
//! [`backlog`](HubBuilder::backlog), and the others go on. The completion queue has room for
//! everything that may be under way: it cannot overflow. The driver takes at most 64 completions
//! before it wakes those concerned and lets others have the completion queue.
//!
//! # When a peer dies
//!
//! A request to a peer that does not answer ends with
//! [`Disconnected`](ConnectionError::Disconnected) after the retries, and so does everything that
//! waits on the connection. A connection that only receives sends nothing and so notices nothing:
//! [`keepalive`](HubBuilder::keepalive) is for these.

mod bells;
mod builder;
mod by_address;
mod connection;
mod drive;
mod error;
mod message;
mod poll;
mod pool;
mod queue;
mod request;
mod shared;
mod spin;
mod state;
#[cfg(feature = "tokio")]
mod tokio;
mod wait;

use std::sync::Arc;

use uverbs_core::Result;

pub use builder::HubBuilder;
pub use connection::{Connection, Prepared};
pub use drive::{Driver, Events};
pub use error::ConnectionError;
pub(crate) use message::Arrivals;
pub use message::Message;
pub(crate) use poll::{Copies, Places};
pub use pool::PooledBuffer;
pub use request::{Atomic, Receive, Request};
pub(crate) use spin::Wait;

use self::shared::Shared;
use crate::{CompletionChannel, ProtectionDomain};

/// Many connections on one completion queue; see [the module](crate::hub).
///
/// Dropping it closes all connections.
#[derive(Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

/// Counts of a [`Hub`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HubCounts {
    /// Connections that have not ended on this side.
    pub connections: usize,
    /// Buffers that were registered.
    pub buffers: usize,
    /// Buffers that are not in use.
    pub free_buffers: usize,
    /// Wakers of tasks that panicked when they were called.
    pub panicked_wakers: u64,
}

impl ProtectionDomain {
    /// A builder for a [`Hub`]: many connections on one completion queue.
    pub fn hub(&self) -> HubBuilder<'_> {
        HubBuilder::new(self)
    }
}

impl Hub {
    /// Creates a queue pair for a connection. One command on rxe, and two system calls for its
    /// mapping; completions are not taken meanwhile.
    ///
    /// # Errors
    /// As [`QueuePairBuilder::build`](crate::QueuePairBuilder::build);
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) with as many
    /// [connections](HubBuilder::connections) as there may be;
    /// [`InvalidState`](crate::ErrorKind::InvalidState) after [`close`](Self::close).
    pub fn prepare(&self) -> Result<Prepared> {
        self.shared.prepare()
    }

    /// A free buffer, with whatever it held last. Registers more if there is none: a system call.
    ///
    /// # Errors
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if all [buffers](HubBuilder::buffers) are
    /// in use; else as [`ProtectionDomain::buffer_list`].
    pub fn buffer(&self) -> Result<PooledBuffer> {
        let buffer = self.shared.pool.take()?;
        Ok(PooledBuffer::new(buffer, &self.shared.pool))
    }

    /// What takes the completions of this hub, for a thread or a task.
    pub fn driver(&self) -> Driver {
        Driver::new(&self.shared)
    }

    /// Takes the completions that there are, up to 64, and wakes those who wait for them; returns
    /// how many. Then posts receives that waited for buffers. For a program that has a loop of its
    /// own. Never waits.
    ///
    /// ```no_run
    /// # fn f(hub: &uverbs::hub::Hub, sleep: impl Fn(std::os::fd::BorrowedFd<'_>))
    /// # -> uverbs::Result<()> {
    /// use std::os::fd::AsFd;
    ///
    /// loop {
    ///     while hub.turn()? > 0 {}
    ///     if hub.arm()? == 0 {
    ///         // `poll(2)`, with the descriptors of everything else.
    ///         sleep(hub.channel().as_fd());
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BadReply`](crate::ErrorKind::BadReply) for a completion queue that holds something
    /// impossible.
    pub fn turn(&self) -> Result<usize> {
        self.shared.turn()
    }

    /// Takes the channel's events, has the next completion make it readable, and then takes
    /// completions as [`turn`](Self::turn) does; returns how many. If there were none, the loop can
    /// sleep until the [channel](Self::channel) is readable, but no longer than the interval of
    /// [keepalives](HubBuilder::keepalive), if there are any, and for a limited time if buffers may
    /// have run out. Two system calls on rxe; never waits.
    ///
    /// # Errors
    /// As [`turn`](Self::turn), and as
    /// [`CompletionChannel::try_event`](crate::CompletionChannel::try_event).
    pub fn arm(&self) -> Result<usize> {
        self.shared.arm_anew()
    }

    /// The channel that announces completions. Its events are for a [driver](Self::driver), or for
    /// [`arm`](Self::arm): a driver is not woken by completions whose event something else took.
    pub fn channel(&self) -> &CompletionChannel {
        &self.shared.channel
    }

    /// The current counts.
    pub fn counts(&self) -> HubCounts {
        let (buffers, free_buffers) = self.shared.pool.counts();
        HubCounts {
            connections: self.shared.connections(),
            buffers,
            free_buffers,
            panicked_wakers: self.shared.bells.panicked(),
        }
    }

    /// Closes all connections and ends every wait with [`Closed`](ConnectionError::Closed). Drivers
    /// end.
    pub fn close(&self) {
        self.shared.close(ConnectionError::Closed);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}
