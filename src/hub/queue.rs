//! The queue pair of a connection, and what ends with it.

use std::sync::Arc;

use super::pool::Pool;
use super::shared::Place;
use crate::transport::Rc;
use crate::{cm, owned};

#[derive(Debug)]
pub(super) enum Queue {
    Alone(owned::QueuePair<Rc>),
    /// In a handshake by address, which ends it if it fails.
    InHandshake(owned::QueuePair<Rc>),
    /// Made by address, with its room in the completion queue: that is needed until the queue pair
    /// is gone, which may be later, on another thread.
    ByAddress(Box<(cm::Connection, Arc<Place>)>),
}

impl Queue {
    pub(super) fn queue(&mut self) -> &mut owned::QueuePair<Rc> {
        match self {
            Self::Alone(queue) | Self::InHandshake(queue) => queue,
            Self::ByAddress(both) => both.0.queue_pair(),
        }
    }

    /// Destroys it, and gives its memory back to the pool, where the caller has yet to tell of it.
    pub(super) fn end(self, pool: &Arc<Pool>) {
        match self {
            Self::Alone(queue) | Self::InHandshake(queue) => destroy(queue, pool),
            Self::ByAddress(both) => {
                let (connection, place) = *both;
                let pool = Arc::clone(pool);
                connection.end_with(move |queue| {
                    destroy(queue, &pool);
                    pool.tell();
                    drop(place);
                });
            }
        }
    }
}

/// If the kernel does not confirm it, the memory is leaked, and counted.
pub(super) fn destroy(queue: owned::QueuePair<Rc>, pool: &Pool) {
    for memory in queue.destroy().unwrap_or_default() {
        pool.put_memory_silently(memory);
    }
}
