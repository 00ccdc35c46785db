//! What arrived.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use super::pool::{Pool, PooledBuffer};
use crate::owned::Buffer;

/// A received message; it derefs to its bytes. Its buffer goes back to the hub when it is dropped.
#[derive(Debug)]
pub struct Message {
    buffer: PooledBuffer,
    len: usize,
    imm: Option<u32>,
}

/// A message as it lies in a queue of [`Arrivals`], which own its buffer's pool.
#[derive(Debug)]
pub(crate) struct Arrival {
    buffer: Buffer,
    len: usize,
    imm: Option<u32>,
    is_shared: bool,
}

/// Messages in the order in which they arrived. Their buffers go back to the hub together.
#[derive(Debug)]
pub(crate) struct Arrivals {
    all: VecDeque<Arrival>,
    /// How many of the first are [done](Self::finish).
    done: usize,
    pool: Arc<Pool>,
}

impl Message {
    /// The immediate value that it was sent with.
    pub fn imm(&self) -> Option<u32> {
        self.imm
    }

    /// Its buffer, for a reply, and how many bytes were received into it.
    pub fn into_buffer(self) -> (PooledBuffer, usize) {
        (self.buffer, self.len)
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl Arrival {
    pub(super) fn new(buffer: Buffer, len: usize, imm: Option<u32>, is_shared: bool) -> Self {
        Self {
            buffer,
            len,
            imm,
            is_shared,
        }
    }

    /// Whether its buffer came from the shared receive queue.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn imm(&self) -> Option<u32> {
        self.imm
    }
}

impl Arrivals {
    pub(super) fn new(pool: &Arc<Pool>) -> Self {
        Self {
            all: VecDeque::new(),
            done: 0,
            pool: Arc::clone(pool),
        }
    }

    pub(super) fn push(&mut self, arrival: Arrival) {
        self.all.push_back(arrival);
    }

    /// How many are not done.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.done
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first that is not done.
    pub(crate) fn first(&self) -> Option<&Arrival> {
        self.all.get(self.done)
    }

    /// Those that are not done.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arrival> {
        self.all.range(self.done..)
    }

    /// The first is done. Its buffer goes back with those that came with it, under one lock, or now
    /// if receives wait for buffers.
    ///
    /// No foreign code runs. True if [`Connection::tell`](super::Connection::tell) is to be called
    /// once it may.
    #[must_use = "receives may wait for its buffer"]
    pub(crate) fn finish(&mut self) -> bool {
        self.done = self.all.len().min(self.done + 1);
        (self.is_empty() || self.pool.is_hungry()) && self.settle()
    }

    /// Gives back the buffers of those that are done; otherwise as [`finish`](Self::finish).
    #[inline(never)]
    #[must_use = "receives may wait for them"]
    fn settle(&mut self) -> bool {
        let done = self.all.drain(..std::mem::take(&mut self.done));
        self.pool.put_all(done.map(|done| done.buffer));
        self.pool.is_hungry()
    }

    /// Takes the first out; the other result is that of [`finish`](Self::finish).
    pub(crate) fn pop(&mut self) -> (Option<Message>, bool) {
        let is_to_tell = self.done > 0 && self.settle();
        let message = self.all.pop_front().map(|arrival| Message {
            buffer: PooledBuffer::new(arrival.buffer, &self.pool),
            len: arrival.len,
            imm: arrival.imm,
        });
        (message, is_to_tell)
    }

    /// Moves those that are `wanted` behind the `others`, of the same hub, and gives back the
    /// buffers of the rest; the result is that of [`finish`](Self::finish).
    #[must_use = "receives may wait for the buffers"]
    pub(crate) fn move_to(
        &mut self,
        others: &mut Self,
        mut wanted: impl FnMut(&Arrival) -> bool,
    ) -> bool {
        let mut is_to_tell = self.settle();
        for arrival in self.all.drain(..) {
            if wanted(&arrival) {
                others.push(arrival);
            } else {
                self.pool.put_silently(arrival.buffer);
                is_to_tell |= self.pool.is_hungry();
            }
        }
        is_to_tell
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        if !self.all.is_empty() {
            let all = self.all.drain(..);
            self.pool.put_all(all.map(|arrival| arrival.buffer));
            self.pool.tell();
        }
    }
}
