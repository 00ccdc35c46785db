//! A stream, and how threads use it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::chunk::Chunk;
use super::error::StreamError;
use super::state::{After, State, Step};
use super::wire::Hello;
use crate::hub::{Connection, Hub, Places, PooledBuffer, Wait};

/// Bytes to and from a peer, in order; see [the module](crate::stream).
///
/// Threads use it by [`Read`](io::Read) and [`Write`](io::Write), also of `&Stream`: one may read
/// while another writes. With the feature `tokio` it is `AsyncRead` and `AsyncWrite`, too.
///
/// Dropping it ends the connection. The peer can read what has arrived there, and then gets
/// [`Lost`](StreamError::Lost) instead of the end, unless this side was
/// [shut down](Self::shutdown) before.
#[derive(Debug)]
pub struct Stream {
    core: Core,
    local: SocketAddr,
    peer: SocketAddr,
    theirs: Hello,
    limits: Mutex<Limits>,
    /// The places of `AsyncRead` and `AsyncWrite`.
    #[cfg(feature = "tokio")]
    pub(super) reader: Places,
    #[cfg(feature = "tokio")]
    pub(super) writer: Places,
    /// Declared after the connection, which ends first.
    _hub: Arc<Hub>,
}

/// How long threads wait; `None` forever.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    read: Option<Duration>,
    write: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Core {
    connection: Connection,
    state: Mutex<State>,
}

impl Stream {
    pub(super) fn new(
        connection: Connection,
        hub: &Arc<Hub>,
        (ours, theirs): (Hello, Hello),
        (local, peer): (SocketAddr, SocketAddr),
    ) -> Self {
        Self {
            core: Core {
                state: Mutex::new(State::new(&connection, ours, theirs)),
                connection,
            },
            local,
            peer,
            theirs,
            limits: Mutex::default(),
            #[cfg(feature = "tokio")]
            reader: Places::default(),
            #[cfg(feature = "tokio")]
            writer: Places::default(),
            _hub: Arc::clone(hub),
        }
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address, as its kernel claims; it is not verified.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// How many bytes the peer takes in one message.
    pub fn peer_message_size(&self) -> u32 {
        self.theirs.message_size
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a thread waits for bytes; `None`, the default, forever.
    pub fn set_read_timeout(&self, limit: Option<Duration>) {
        self.limits().read = limit;
    }

    /// How long a thread waits until the peer has room, or has everything that was sent; `None`,
    /// the default, forever.
    pub fn set_write_timeout(&self, limit: Option<Duration>) {
        self.limits().write = limit;
    }

    /// A buffer for [`send`](Self::send), with whatever it held last. Registers more if there is
    /// none: a system call.
    ///
    /// # Errors
    /// [`Failed`](StreamError::Failed): all are in use, by chunks that were not dropped.
    pub fn buffer(&self) -> Result<PooledBuffer, StreamError> {
        Ok(self.core.connection.buffer()?)
    }

    /// Sends the first `len` bytes of a buffer, without copying them, once the peer has room.
    ///
    /// # Errors
    /// Those of writing. If nothing was sent, and the stream goes on:
    /// [`TooLong`](StreamError::TooLong), the peer [takes less](Self::peer_message_size) at a time;
    /// [`Failed`](StreamError::Failed), the buffer is of other [`Streams`](super::Streams).
    pub fn send(&self, buffer: PooledBuffer, len: usize) -> Result<(), StreamError> {
        self.core
            .wait(Wait::Patient, || self.limits().write, sending(buffer, len))
    }

    /// The same, for tasks. A future that is dropped has sent nothing.
    ///
    /// # Errors
    /// As [`send`](Self::send), without its time limit.
    pub async fn send_async(&self, buffer: PooledBuffer, len: usize) -> Result<(), StreamError> {
        self.core.attempt(sending(buffer, len)).await
    }

    /// Waits for bytes, and takes them without copying: those of one message, or what is left of
    /// it. `None` at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn recv(&self) -> Result<Option<Chunk>, StreamError> {
        self.core
            .wait(Wait::Eager, || self.limits().read, State::recv)
    }

    /// The same, for tasks. A future that is dropped has taken nothing.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), without its time limit.
    pub async fn recv_async(&self) -> Result<Option<Chunk>, StreamError> {
        self.core.attempt(State::recv).await
    }

    /// Tells the peer that no more bytes will come, and waits until it has all of them. It gets the
    /// end after them, and can still send.
    ///
    /// # Errors
    /// [`Lost`](StreamError::Lost): the peer may not have everything.
    /// [`TimedOut`](StreamError::TimedOut): it has not yet; call this again.
    #[doc(alias = "rshutdown")]
    pub fn shutdown(&self) -> Result<(), StreamError> {
        self.core
            .wait(Wait::Eager, || self.limits().write, State::shutdown)
    }

    /// The same, for tasks. A future that is dropped may have told the peer; call this again.
    ///
    /// # Errors
    /// As [`shutdown`](Self::shutdown), without its time limit.
    pub async fn shutdown_async(&self) -> Result<(), StreamError> {
        self.core.attempt(State::shutdown).await
    }

    #[cfg(feature = "tokio")]
    pub(super) fn parts(&mut self) -> (&Core, &mut Places, &mut Places) {
        (&self.core, &mut self.reader, &mut self.writer)
    }
}

impl io::Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = || self.limits().read;
        Ok((self.core).wait(Wait::Eager, limit, |state, connection| {
            state.read(connection, buffer)
        })?)
    }
}

impl io::Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let limit = || self.limits().write;
        Ok((self.core).wait(Wait::Patient, limit, |state, connection| {
            state.write(connection, bytes)
        })?)
    }

    /// Nothing is kept back; [`shutdown`](Stream::shutdown) waits until the peer has everything.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.core.writable()?)
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

fn sending(
    buffer: PooledBuffer,
    len: usize,
) -> impl FnMut(&mut State, &Connection) -> Step<()> + Send + 'static {
    let mut place = Some(buffer);
    move |state, connection| state.send(connection, &mut place, len)
}

impl Core {
    pub(super) fn writable(&self) -> Result<(), StreamError> {
        let step =
            |state: &mut State, connection: &Connection| Poll::Ready(state.writable(connection));
        match self.step(step).0 {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// A future that is ready once `step` is.
    fn attempt<T, F>(&self, step: F) -> Attempt<'_, F>
    where
        F: FnMut(&mut State, &Connection) -> Step<T>,
    {
        Attempt {
            core: self,
            places: Places::default(),
            step,
        }
    }

    /// Blocks this thread, which takes completions meanwhile if nothing else does.
    fn wait<T, F>(
        &self,
        wait: Wait,
        limit: impl FnOnce() -> Option<Duration>,
        mut step: F,
    ) -> Result<T, StreamError>
    where
        F: FnMut(&mut State, &Connection) -> Step<T>,
    {
        // Most need not wait: then there is nothing to be woken.
        if let (Poll::Ready(result), _) = self.step(&mut step) {
            return result;
        }
        let limit = limit().unwrap_or(Duration::MAX);
        let result = self.connection.block_on(self.attempt(step), wait, limit);
        result.unwrap_or(Err(StreamError::TimedOut))
    }

    /// Tries `step`; also returns whether it waits for a request to end. What is left over is
    /// dropped without the lock.
    fn step<T>(&self, step: impl FnOnce(&mut State, &Connection) -> Step<T>) -> (Step<T>, bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = step(&mut state, &self.connection);
        let after = state.after();
        drop(state);
        let Some(After {
            wants_room,
            is_to_end,
            is_to_tell,
            unsent,
        }) = after
        else {
            return (result, false);
        };
        drop(unsent);
        if is_to_tell {
            self.connection.tell();
        }
        if is_to_end {
            self.connection.close();
        }
        (result, wants_room)
    }

    /// Tries `step`, and has `waker` woken when it is worth another try.
    pub(super) fn poll<T>(
        &self,
        places: &mut Places,
        waker: &Waker,
        mut step: impl FnMut(&mut State, &Connection) -> Step<T>,
    ) -> Step<T> {
        let (mut is_waiting, mut waits_for_room) = (false, false);
        loop {
            let (result, wants_room) = self.step(&mut step);
            if result.is_ready() {
                return result;
            }
            if is_waiting && (waits_for_room || !wants_room) {
                return Poll::Pending;
            }
            // Then it is tried again: what came before is not announced.
            if !is_waiting {
                let waker = waker.clone();
                drop(self.connection.wait_for_messages(places, waker));
                is_waiting = true;
            }
            if wants_room {
                drop(self.connection.wait_for_room(places, waker.clone()));
                waits_for_room = true;
            }
        }
    }
}

/// Something that is tried until it can be done. It is done in the poll that returns its result, or
/// not at all.
struct Attempt<'s, F> {
    core: &'s Core,
    places: Places,
    step: F,
}

// Nothing is pinned: the step is only ever called.
impl<F> Unpin for Attempt<'_, F> {}

impl<T, F> Future for Attempt<'_, F>
where
    F: FnMut(&mut State, &Connection) -> Step<T>,
{
    type Output = Result<T, StreamError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.core.poll(&mut this.places, cx.waker(), &mut this.step)
    }
}

impl<F> Drop for Attempt<'_, F> {
    fn drop(&mut self) {
        drop(self.core.connection.leave(&mut self.places));
    }
}
