//! Buffers that all connections of a hub share.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::{Error, Op, Result};

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
}

#[derive(Debug, Default)]
struct Inner {
    free: Vec<Buffer>,
    made: usize,
}

/// A registered buffer of a hub. It goes back to the hub when it is dropped.
pub struct PooledBuffer {
    /// Present until it is taken or dropped.
    buffer: Option<Buffer>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(pd: &ProtectionDomain, size: usize, max: usize) -> Self {
        Self {
            pd: pd.clone(),
            size,
            max,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is half done under the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free buffer, with whatever bytes it held last.
    pub(super) fn take(&self) -> Result<Buffer> {
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

    pub(super) fn put(&self, buffer: Buffer) {
        self.lock().free.push(buffer);
    }

    pub(super) fn put_memory(&self, memory: Memory) {
        if let Some(buffer) = memory.into_buffer() {
            self.put(buffer);
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

    /// The buffer itself, which from now on its user returns; itself if it is of another pool.
    pub(super) fn into_inner(mut self, pool: &Arc<Pool>) -> Option<Buffer> {
        if Arc::ptr_eq(&self.pool, pool) {
            self.buffer.take()
        } else {
            None
        }
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
