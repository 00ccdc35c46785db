//! Bytes that were not copied.

use std::ops::Deref;

use crate::hub::{Message, PooledBuffer};

/// Bytes of a stream, where the device has put them; it derefs to them. The memory goes back to the
/// [`Streams`](super::Streams) when it is dropped.
#[derive(Debug)]
pub struct Chunk {
    message: Message,
    from: usize,
}

impl Chunk {
    pub(super) fn new(message: Message, from: usize) -> Self {
        Self { message, from }
    }

    /// Its buffer, for sending: whatever it holds.
    pub fn into_buffer(self) -> PooledBuffer {
        self.message.into_buffer().0
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.message.get(self.from..).unwrap_or_default()
    }
}
