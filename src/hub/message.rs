//! What arrived.

use std::ops::Deref;

use super::pool::PooledBuffer;

/// A received message; it derefs to its bytes. Its buffer goes back to the hub when it is dropped.
#[derive(Debug)]
pub struct Message {
    buffer: PooledBuffer,
    len: usize,
    imm: Option<u32>,
    is_shared: bool,
}

impl Message {
    pub(super) fn new(buffer: PooledBuffer, len: usize, imm: Option<u32>, is_shared: bool) -> Self {
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
