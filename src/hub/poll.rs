//! A connection for users that keep no futures of it: streams.

use std::task::{Poll, Waker};
use std::time::Duration;

use uverbs_core::{PostError, Result};

use super::connection::Connection;
use super::error::ConnectionError;
use super::message::Message;
use super::pool::PooledBuffer;
use super::state::Posting;
use crate::owned::{Memory, Work};

/// Places among those that wait for a connection; each is given back by [`Connection::leave`].
#[derive(Debug, Default)]
pub(crate) struct Places {
    receivers: Option<usize>,
    room: Option<usize>,
}

impl Connection {
    /// As [`Hub::buffer`](super::Hub::buffer).
    pub(crate) fn buffer(&self) -> Result<PooledBuffer> {
        let pool = &self.conn().pool;
        Ok(PooledBuffer::new(pool.take()?, pool))
    }

    /// Runs `future` on this thread, for at most `limit`. Drives the hub if nothing else does.
    pub(crate) fn block_on<F: Future>(&self, future: F, limit: Duration) -> Option<F::Output> {
        self.shared().block_on(future, limit)
    }

    /// The oldest message, if there is one.
    pub(crate) fn try_message(&self) -> Poll<Result<Message, ConnectionError>> {
        let conn = self.conn();
        let mut state = conn.lock();
        if let Some((message, refused)) = state.take_message(&conn.pool) {
            drop(state);
            conn.put_back(refused);
            return Poll::Ready(Ok(message));
        }
        match state.over {
            Some(over) => Poll::Ready(Err(over)),
            None => Poll::Pending,
        }
    }

    /// Has `waker` woken by the next message. Returns a waker that is no longer needed.
    pub(crate) fn wait_for_messages(&self, places: &mut Places, waker: Waker) -> Option<Waker> {
        let mut state = self.conn().lock();
        state.receivers.register(&mut places.receivers, waker)
    }

    /// Has `waker` woken when the next request ends. Returns a waker that is no longer needed.
    pub(crate) fn wait_for_room(&self, places: &mut Places, waker: Waker) -> Option<Waker> {
        self.conn().lock().room.register(&mut places.room, waker)
    }

    /// Gives the places back. Returns wakers that are no longer needed.
    pub(crate) fn leave(&self, places: &mut Places) -> [Option<Waker>; 2] {
        let mut state = self.conn().lock();
        [
            state.receivers.remove(&mut places.receivers),
            state.room.remove(&mut places.room),
        ]
    }

    /// Whether another request can be posted now, or ever.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.conn().lock();
        state.over.is_some() || state.under_way() < self.conn().sends
    }

    /// Posts a send whose result nobody waits for: its buffer goes back to the hub when it has
    /// ended, and a failure ends the connection. Returns the buffer if there is no room.
    pub(crate) fn post_send(
        &self,
        data: Option<(PooledBuffer, usize)>,
        imm: u32,
    ) -> Result<(), (ConnectionError, Option<PooledBuffer>)> {
        let conn = self.conn();
        let work = Work::send_imm(imm);
        let work = if let Some((buffer, len)) = data {
            let Some(buffer) = buffer.into_inner(&conn.pool) else {
                let error = ConnectionError::Refused(PostError::InvalidRequest);
                return Err((error, None));
            };
            work.memory((buffer, len))
        } else {
            work
        };
        let mut state = conn.lock();
        let (error, memory) = match conn.post(work.untyped(), &mut state) {
            Posting::Posted(slot) => {
                // It was posted just now: there is neither memory nor a waker in its slot.
                state.abandon(slot);
                return Ok(());
            }
            Posting::Full(work) => {
                let full = PostError::QueueFull;
                (ConnectionError::Refused(full), Some(work.take_memory()))
            }
            Posting::Refused(error, memory) => (error, memory),
        };
        drop(state);
        let buffer = memory.and_then(Memory::into_buffer);
        Err((
            error,
            buffer.map(|buffer| PooledBuffer::new(buffer, &conn.pool)),
        ))
    }

    /// Whether everything that was posted has arrived; an error if that will never be.
    pub(crate) fn has_sent(&self) -> Poll<Result<(), ConnectionError>> {
        let state = self.conn().lock();
        match state.over {
            _ if state.is_idle() => Poll::Ready(Ok(())),
            Some(over) => Poll::Ready(Err(over)),
            None => Poll::Pending,
        }
    }
}
