//! A receive ring, of a queue pair or shared: this side produces requests, the kernel consumes
//! them.

use uverbs_core::PostError;
use uverbs_core::hw::SharedRing;
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::RecvRequest;
use uverbs_uapi::rdma_user_rxe::rxe_sge;

#[cfg(feature = "rings")]
use crate::rings;
use crate::wqe;

/// A receive ring.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    ring: SharedRing,
    /// Where the next request goes.
    tail: u32,
    /// Up to where the kernel may look.
    published: u32,
    max_sge: u32,
    fork: ForkToken,
    /// Whoever is told what is handed over.
    #[cfg(feature = "rings")]
    watched: Option<Watched>,
}

impl ReceiveRing {
    /// A ring that starts where its shared producer index stands. `None` when that is no index.
    pub(crate) fn new(ring: SharedRing, max_sge: u32, fork: ForkToken) -> Option<Self> {
        let tail = ring.producer()?;
        Some(Self {
            ring,
            tail,
            published: tail,
            max_sge,
            fork,
            #[cfg(feature = "rings")]
            watched: None,
        })
    }

    /// Tells of what is handed over from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        self.watched = queue;
        self
    }

    /// The bytes a slot must have for requests of `max_sge` pieces.
    pub(crate) fn slot_size(max_sge: u32) -> usize {
        wqe::RECV_HEADER + max_sge as usize * size_of::<rxe_sge>()
    }

    /// How many requests fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.mask()
    }

    /// How many requests wait; 0 when that cannot be known.
    pub(crate) fn waiting(&self) -> u32 {
        let consumed = self.ring.consumer().unwrap_or(self.published);
        self.published.wrapping_sub(consumed) & self.ring.mask()
    }

    #[inline]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        let pieces = request.scatter.len();
        if pieces > self.max_sge as usize {
            return Err(PostError::TooManySges {
                asked: u32::try_from(pieces).unwrap_or(u32::MAX),
                max: self.max_sge,
            });
        }
        let next = self.ring.next(self.tail);
        if next == self.ring.consumer().ok_or(PostError::Poisoned)? {
            return Err(PostError::QueueFull);
        }
        wqe::put_recv(&self.ring, self.tail, request)?;
        self.tail = next;
        Ok(())
    }

    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), PostError> {
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            rings::receives(queue, &self.ring, self.published..self.tail);
        }
        self.ring.publish(self.tail);
        self.published = self.tail;
        Ok(())
    }

    pub(crate) fn abort(&mut self) {
        self.tail = self.published;
    }
}
