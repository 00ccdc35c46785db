//! Buffers that all connections of a hub share.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::{Error, Op, Result};

use super::bells::Bells;
use crate::ProtectionDomain;
use crate::owned::{Buffer, Memory};

/// How many buffers are registered at a time.
const CHUNK: usize = 64;

/// Buffers of one size, registered when they are first needed.
#[derive(Debug)]
pub(super) struct Pool {
    pd: ProtectionDomain,
    size: usize,
    max: usize,
    inner: Mutex<Inner>,
    /// Whether receives wait for a buffer; those who give one back ring then.
    is_hungry: AtomicBool,
    bells: Arc<Bells>,
}

#[derive(Debug, Default)]
struct Inner {
    free: Vec<Buffer>,
    made: usize,
    /// Whose receives wait for a buffer: the first is fed first.
    hungry: VecDeque<Hungry>,
}

/// Receives that wait for a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hungry {
    /// Those of the connection with this number.
    Connection(u32),
    /// Those of the shared receive queue.
    Shared,
}

/// A registered buffer of a hub. It goes back to the hub when it is dropped.
pub struct PooledBuffer {
    /// Present until it is taken or dropped.
    buffer: Option<Buffer>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(pd: &ProtectionDomain, size: usize, max: usize, bells: Arc<Bells>) -> Self {
        Self {
            pd: pd.clone(),
            size,
            max,
            inner: Mutex::default(),
            is_hungry: AtomicBool::new(false),
            bells,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is half done under the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes each holds.
    pub(super) fn buffer_size(&self) -> usize {
        self.size
    }

    /// A free buffer, with whatever bytes it held last.
    #[inline]
    pub(super) fn take(&self) -> Result<Buffer> {
        let free = self.lock().free.pop();
        free.map_or_else(|| self.make(), Ok)
    }

    /// The same if there was none: registers more, if there may be more.
    #[cold]
    fn make(&self) -> Result<Buffer> {
        let mut inner = self.lock();
        if let Some(buffer) = inner.free.pop() {
            return Ok(buffer);
        }
        let count = CHUNK.min(self.max.saturating_sub(inner.made));
        if count == 0 {
            let max = self.max as u64;
            return Err(Error::limit(Op::RegisterMemory, "buffers", max + 1, max)
                .hint("drop messages and buffers, or give the hub more of them"));
        }
        let mut fresh = self.pd.buffer_list(count, self.size)?;
        inner.made += count;
        let buffer = fresh.pop();
        inner.free.append(&mut fresh);
        buffer.ok_or_else(|| Error::invalid(Op::RegisterMemory, "count"))
    }

    /// As [`take`](Self::take), for a receive; if there is none, `who` is fed later.
    pub(super) fn take_for(&self, who: Hungry) -> Option<Buffer> {
        let buffer = self.take().ok();
        if buffer.is_none() {
            let mut inner = self.lock();
            if !inner.hungry.contains(&who) {
                inner.hungry.push_back(who);
            }
            self.is_hungry.store(true, Ordering::Relaxed);
            // One that was given back in between was not announced.
            return inner.free.pop();
        }
        buffer
    }

    /// Has up to so many free buffers used. Returns how many were, and one that was not.
    pub(super) fn take_each(
        &self,
        most: u32,
        mut used: impl FnMut(Buffer) -> Result<(), Buffer>,
    ) -> (u32, Option<Buffer>) {
        let mut inner = self.lock();
        let mut count = 0;
        while count < most
            && let Some(buffer) = inner.free.pop()
        {
            if let Err(buffer) = used(buffer) {
                return (count, Some(buffer));
            }
            count += 1;
        }
        (count, None)
    }

    /// Whether receives wait for buffers.
    pub(super) fn is_hungry(&self) -> bool {
        self.is_hungry.load(Ordering::Relaxed)
    }

    /// The receives that have waited longest, if there is a buffer. Those that get too few have to
    /// ask again.
    pub(super) fn next_hungry(&self) -> Option<Hungry> {
        let mut inner = self.lock();
        if inner.free.is_empty() {
            return None;
        }
        let next = inner.hungry.pop_front();
        let is_hungry = !inner.hungry.is_empty();
        self.is_hungry.store(is_hungry, Ordering::Relaxed);
        next
    }

    /// Gives a buffer back, and rings for those who wait for one: to be called without a lock.
    pub(super) fn put(&self, buffer: Buffer) {
        self.put_silently(buffer);
        self.tell();
    }

    /// Gives a buffer back where a lock is held, or a turn ends soon.
    pub(super) fn put_silently(&self, buffer: Buffer) {
        self.lock().free.push(buffer);
    }

    /// The same of several, under one lock.
    pub(super) fn put_all(&self, buffers: impl Iterator<Item = Buffer>) {
        self.lock().free.extend(buffers);
    }

    /// Rings if anybody waits for a buffer.
    pub(super) fn tell(&self) {
        if self.is_hungry() {
            self.bells.ring();
        }
    }

    /// As [`put`](Self::put).
    pub(super) fn put_memory(&self, memory: Memory) {
        if let Some(buffer) = memory.into_buffer() {
            self.put(buffer);
        }
    }

    /// As [`put_silently`](Self::put_silently).
    pub(super) fn put_memory_silently(&self, memory: Memory) {
        if let Some(buffer) = memory.into_buffer() {
            self.put_silently(buffer);
        }
    }

    /// How many there are, and how many of those are free.
    pub(super) fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.made, inner.free.len())
    }
}

impl PooledBuffer {
    pub(super) fn new(buffer: Buffer, pool: &Arc<Pool>) -> Self {
        Self {
            buffer: Some(buffer),
            pool: Arc::clone(pool),
        }
    }

    /// Whether it is one of this pool's.
    pub(super) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// The buffer itself, which from now on its user returns.
    ///
    /// # Errors
    /// It is of another pool: to be dropped without a lock.
    pub(super) fn into_inner(mut self, pool: &Arc<Pool>) -> Result<Buffer, Self> {
        if !self.is_of(pool) {
            return Err(self);
        }
        self.buffer.take().ok_or(self)
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.put(buffer);
        }
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl fmt::Debug for PooledBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledBuffer({} bytes)", self.len())
    }
}
