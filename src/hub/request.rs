//! The futures of a connection: requests, and waiting for messages.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::Connection;
use super::error::ConnectionError;
use super::message::Message;
use super::pool::PooledBuffer;
use super::spin::Wait;
use super::state::Posting;
use crate::owned::{Memory, Work};

/// A request of a [`Connection`]: a future of its result, with its buffer.
///
/// It is posted as soon as there is room, without waiting for the first poll. Dropping it cancels
/// the wait, not the request: the queue keeps the buffer until the device has finished with it, and
/// the hub gets it back then. A request that has not been posted yet is never posted.
#[derive(Debug)]
#[must_use = "it may not be posted yet, and its result is lost"]
pub struct Request<'c> {
    connection: &'c Connection,
    phase: Phase,
    /// Its place among those that wait for room.
    key: Option<usize>,
}

#[derive(Debug)]
enum Phase {
    /// Not posted yet.
    Waiting(Box<Work>),
    UnderWay(usize),
    Refused(ConnectionError),
    Over,
}

/// An atomic operation of a [`Connection`]: a future of the old value, and of the buffer that it
/// was written to. Otherwise like a [`Request`].
#[derive(Debug)]
#[must_use = "it may not be posted yet, and its result is lost"]
pub struct Atomic<'c>(pub(super) Request<'c>);

/// Waits for the next message of a [`Connection`]. Dropping it loses no message.
#[derive(Debug)]
#[must_use = "nothing is received before it is awaited"]
pub struct Receive<'c> {
    connection: &'c Connection,
    key: Option<usize>,
}

impl<'c> Request<'c> {
    pub(super) fn new(connection: &'c Connection, work: Work) -> Self {
        let conn = connection.conn();
        let posting = conn.post(work, &mut conn.lock());
        let mut request = Self {
            connection,
            phase: Phase::Over,
            key: None,
        };
        request.advance(posting);
        request
    }

    pub(super) fn refused(connection: &'c Connection, error: ConnectionError) -> Self {
        Self {
            connection,
            phase: Phase::Refused(error),
            key: None,
        }
    }

    /// Blocks until it has ended, for at most `timeout`.
    ///
    /// If no thread or task [drives](super::Driver) the hub, this one does while it waits.
    ///
    /// # Errors
    /// [`TimedOut`](ConnectionError::TimedOut), after which the request is as if it had been
    /// dropped; else as awaiting it.
    pub fn wait(self, timeout: Duration) -> Result<PooledBuffer, ConnectionError> {
        let hub = self.connection.shared();
        hub.block_on(self, Wait::Eager, timeout)
            .unwrap_or(Err(ConnectionError::TimedOut))
    }

    fn advance(&mut self, posting: Posting) {
        self.phase = match posting {
            Posting::Posted(slot) => Phase::UnderWay(slot),
            Posting::Full(work) => Phase::Waiting(work),
            Posting::Refused(error, memory) => {
                if let Some(memory) = memory {
                    self.connection.conn().pool.put_memory(memory);
                }
                Phase::Refused(error)
            }
        };
    }

    fn finish(&self, memory: Memory) -> Result<PooledBuffer, ConnectionError> {
        // Every request is posted with a buffer.
        let buffer = memory.into_buffer().ok_or(ConnectionError::Closed)?;
        Ok(PooledBuffer::new(buffer, &self.connection.conn().pool))
    }
}

impl Future for Request<'_> {
    type Output = Result<PooledBuffer, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let conn = this.connection.conn();
        // Dropped after the lock, which is acquired later.
        let _old;
        if let Phase::Waiting(_) = this.phase {
            let waker = cx.waker().clone();
            let mut state = conn.lock();
            if let Phase::Waiting(work) = std::mem::replace(&mut this.phase, Phase::Over) {
                let posting = conn.post(*work, &mut state);
                if matches!(posting, Posting::Full(_)) {
                    _old = state.room.register(&mut this.key, waker);
                } else {
                    _old = state.room.remove(&mut this.key).or(Some(waker));
                }
                drop(state);
                this.advance(posting);
            }
        }
        match this.phase {
            Phase::Waiting(_) => Poll::Pending,
            Phase::Refused(error) => Poll::Ready(Err(error)),
            Phase::Over => Poll::Ready(Err(ConnectionError::Closed)),
            Phase::UnderWay(slot) => {
                let waker = cx.waker().clone();
                let (outcome, old) = conn.lock().result(slot, waker);
                drop(old);
                let Some(outcome) = outcome else {
                    return Poll::Pending;
                };
                this.phase = Phase::Over;
                Poll::Ready(match outcome {
                    Ok((status, memory)) if status.is_success() => this.finish(memory),
                    Ok((status, memory)) => {
                        conn.pool.put_memory(memory);
                        Err(ConnectionError::Disconnected(status))
                    }
                    Err(over) => Err(over),
                })
            }
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let conn = self.connection.conn();
        let mut state = conn.lock();
        let place = state.room.remove(&mut self.key);
        let (memory, waker) = match self.phase {
            Phase::UnderWay(slot) => state.abandon(slot),
            _ => (None, None),
        };
        drop(state);
        drop((place, waker));
        if let Some(memory) = memory {
            conn.pool.put_memory(memory);
        }
        if let Phase::Waiting(work) = std::mem::replace(&mut self.phase, Phase::Over) {
            conn.pool.put_memory(work.take_memory());
        }
    }
}

impl Atomic<'_> {
    /// Blocks until it has ended, for at most `timeout`; returns the old value, and the buffer.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait(self, timeout: Duration) -> Result<(u64, PooledBuffer), ConnectionError> {
        self.0.wait(timeout).map(old_value)
    }
}

/// Devices write it in the byte order of this machine.
fn old_value(buffer: PooledBuffer) -> (u64, PooledBuffer) {
    let old = buffer.first_chunk().copied().unwrap_or_default();
    (u64::from_ne_bytes(old), buffer)
}

impl Future for Atomic<'_> {
    type Output = Result<(u64, PooledBuffer), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|ended| ended.map(old_value))
    }
}

impl<'c> Receive<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            key: None,
        }
    }

    /// Blocks until a message has arrived, for at most `timeout`; zero only looks.
    ///
    /// If no thread or task [drives](super::Driver) the hub, this one does while it waits.
    ///
    /// # Errors
    /// [`TimedOut`](ConnectionError::TimedOut); else as awaiting it.
    pub fn wait(self, timeout: Duration) -> Result<Message, ConnectionError> {
        let hub = self.connection.shared();
        hub.block_on(self, Wait::Eager, timeout)
            .unwrap_or(Err(ConnectionError::TimedOut))
    }
}

impl Future for Receive<'_> {
    type Output = Result<Message, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let conn = this.connection.conn();
        let waker = cx.waker().clone();
        // Dropped after the lock, which is acquired later.
        let _old;
        let mut state = conn.lock();
        if let Some((message, refused)) = state.take_message(&conn.pool) {
            _old = state.receivers.remove(&mut this.key).or(Some(waker));
            drop(state);
            conn.put_back(refused);
            return Poll::Ready(Ok(message));
        }
        if let Some(over) = state.over {
            _old = state.receivers.remove(&mut this.key).or(Some(waker));
            return Poll::Ready(Err(over));
        }
        _old = state.receivers.register(&mut this.key, waker);
        Poll::Pending
    }
}

impl Drop for Receive<'_> {
    fn drop(&mut self) {
        let old = self
            .connection
            .conn()
            .lock()
            .receivers
            .remove(&mut self.key);
        drop(old);
    }
}
