//! A connection for users that keep no futures of it: streams.

use std::task::{Poll, Waker};
use std::time::Duration;

use uverbs_core::{PostError, Result};

use super::connection::Connection;
use super::error::ConnectionError;
use super::message::Arrivals;
use super::pool::PooledBuffer;
use super::spin::Wait;
use crate::owned::{Buffer, Carried};

/// Places among those that wait for a connection; each is given back by [`Connection::leave`].
#[derive(Debug, Default)]
pub(crate) struct Places {
    receivers: Option<usize>,
    room: Option<usize>,
}

/// Buffers that are filled to be sent together: empty in between, and kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Copies(Vec<(Buffer, usize)>);

/// Copies bytes into a buffer, as many as fit and at most `most`. Returns how many.
fn fill(buffer: &mut [u8], bytes: &[u8], most: usize) -> usize {
    let len = bytes.len().min(most).min(buffer.len());
    if let (Some(to), Some(from)) = (buffer.get_mut(..len), bytes.get(..len)) {
        to.copy_from_slice(from);
    }
    len
}

impl Connection {
    /// As [`Hub::buffer`](super::Hub::buffer).
    pub(crate) fn buffer(&self) -> Result<PooledBuffer> {
        let pool = &self.conn().pool;
        Ok(PooledBuffer::new(pool.take()?, pool))
    }

    /// Runs `future` on this thread, for at most `limit`. Drives the hub if nothing else does.
    pub(crate) fn block_on<F: Future>(
        &self,
        future: F,
        wait: Wait,
        limit: Duration,
    ) -> Option<F::Output> {
        self.shared().block_on(future, wait, limit)
    }

    /// A queue for messages of this connection.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals::new(&self.conn().pool)
    }

    /// Says that there are buffers, if anybody waits for one: to be called without a lock.
    pub(crate) fn tell(&self) {
        self.conn().pool.tell();
    }

    /// Whether there may be messages, or it is over.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.conn().has_news()
    }

    /// Takes all messages that there are, into a queue that is empty; others may arrive in their
    /// place. Returns why there will be no more, once there are none, and whether somebody is to be
    /// [told](Self::tell) of a buffer.
    pub(crate) fn take_messages(&self, into: &mut Arrivals) -> (Option<ConnectionError>, bool) {
        let conn = self.conn();
        if !conn.has_news() {
            return (None, false);
        }
        let mut state = conn.lock();
        let refused = state.take_messages(into, &conn.pool);
        conn.found_none(&state);
        let over = state.over.filter(|_| into.is_empty());
        drop(state);
        let is_to_tell = refused.is_some();
        if let Some(buffer) = refused {
            conn.pool.put_silently(buffer);
        }
        (over, is_to_tell)
    }

    /// Whether a buffer is one of this hub's.
    pub(crate) fn is_own(&self, buffer: &PooledBuffer) -> bool {
        buffer.is_of(&self.conn().pool)
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
        // Most who come need not wait.
        if places.receivers.is_none() && places.room.is_none() {
            return [None, None];
        }
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

    /// How many requests can be posted now.
    pub(crate) fn room(&self) -> usize {
        let posted = self.conn().lock().under_way();
        self.conn().sends.saturating_sub(posted)
    }

    /// Posts a send whose result nobody waits for: its buffer goes back to the hub some time after
    /// it has ended, and a failure ends the connection. Whether it arrived is known sooner if it
    /// `is_last`. Returns a buffer that is not sent.
    pub(crate) fn post_send(
        &self,
        data: Option<(PooledBuffer, usize)>,
        imm: u32,
        is_last: bool,
    ) -> Result<(), (ConnectionError, Option<PooledBuffer>)> {
        let conn = self.conn();
        let carried = if let Some((buffer, len)) = data {
            let buffer = buffer.into_inner(&conn.pool).map_err(|other| {
                let error = ConnectionError::Refused(PostError::InvalidRequest);
                (error, Some(other))
            })?;
            Carried::Buffer(buffer, len)
        } else {
            Carried::Nothing
        };
        let posted = conn.post_unwatched(imm, carried, is_last, &mut conn.lock());
        posted.map_err(|(error, buffer)| {
            let buffer = buffer.map(|buffer| PooledBuffer::new(buffer, &conn.pool));
            (error, buffer)
        })
    }

    /// The same, of the first bytes, copied into a buffer: as many as fit, and at most `most`.
    /// Returns how many.
    ///
    /// # Errors
    /// Those of taking a buffer: nothing has changed then.
    pub(crate) fn post_copy(
        &self,
        bytes: &[u8],
        most: usize,
        imm: u32,
    ) -> Result<Result<usize, ConnectionError>> {
        let conn = self.conn();
        let mut buffer = conn.pool.take()?;
        let len = fill(&mut buffer, bytes, most);
        let carried = Carried::Buffer(buffer, len);
        let posted = conn.post_unwatched(imm, carried, false, &mut conn.lock());
        Ok(posted.map(|()| len).map_err(|(error, buffer)| {
            if let Some(buffer) = buffer {
                conn.pool.put_silently(buffer);
            }
            error
        }))
    }

    /// The same of several messages, with one doorbell: as many as there are immediate values,
    /// buffers and bytes for. There has to be [room](Self::room). Returns how many messages and
    /// bytes; all are refused, or none.
    pub(crate) fn post_copies(
        &self,
        bytes: &[u8],
        most: usize,
        imms: impl ExactSizeIterator<Item = u32>,
        copies: &mut Copies,
    ) -> Result<(usize, usize), ConnectionError> {
        let conn = self.conn();
        let Copies(copies) = copies;
        let size = most.min(conn.pool.buffer_size()).max(1);
        let wanted = bytes.len().div_ceil(size).min(imms.len());
        let count = u32::try_from(wanted).unwrap_or(u32::MAX);
        conn.pool.take_each(count, |buffer| {
            copies.push((buffer, 0));
            Ok(())
        });
        while copies.len() < wanted
            && let Ok(buffer) = conn.pool.take()
        {
            copies.push((buffer, 0));
        }
        let mut sent = 0;
        for ((buffer, len), bytes) in copies.iter_mut().zip(bytes.chunks(size)) {
            *len = fill(buffer, bytes, size);
            sent += *len;
        }
        let count = copies.len();
        let messages = copies.drain(..).zip(imms);
        let messages = messages.map(|((buffer, len), imm)| (buffer, len, imm));
        conn.post_unwatched_batch(messages, &mut conn.lock())?;
        Ok((count, sent))
    }

    /// The same of one message, of bytes that are copied into the queue.
    pub(crate) fn post_inline(&self, bytes: &[u8], imm: u32) -> Result<(), ConnectionError> {
        let conn = self.conn();
        let posted = conn.post_unwatched(imm, Carried::Bytes(bytes), false, &mut conn.lock());
        posted.map_err(|(error, _)| error)
    }

    /// Whether everything has arrived that was posted until the last one that `is_last`; an error
    /// if that will never be.
    pub(crate) fn has_sent(&self) -> Poll<Result<(), ConnectionError>> {
        let state = self.conn().lock();
        match state.over {
            _ if state.is_idle() => Poll::Ready(Ok(())),
            Some(over) => Poll::Ready(Err(over)),
            None => Poll::Pending,
        }
    }
}
