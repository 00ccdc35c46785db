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
    /// Index of the next request.
    tail: u32,
    /// The published producer index.
    published: u32,
    max_sge: u32,
    fork: ForkToken,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Watched>,
}

impl ReceiveRing {
    /// A ring that starts at its shared producer index. `None` if that is not a valid index.
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

    /// Reports requests submitted from now on to `queue`.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        self.watched = queue;
        self
    }

    /// The slot size that `max_sge` scatter/gather entries require, in bytes.
    pub(crate) fn slot_size(max_sge: u32) -> usize {
        wqe::RECV_HEADER + max_sge as usize * size_of::<rxe_sge>()
    }

    /// How many requests the ring holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.mask()
    }

    /// How many requests are waiting; 0 if that is unknown.
    pub(crate) fn waiting(&self) -> u32 {
        let consumed = self.ring.consumer().unwrap_or(self.published);
        self.published.wrapping_sub(consumed) & self.ring.mask()
    }

    #[inline]
    pub(crate) fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // A forked child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        let sges = request.scatter.len();
        if sges > self.max_sge as usize {
            return Err(PostError::TooManySges {
                requested: u32::try_from(sges).unwrap_or(u32::MAX),
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

    /// Puts a request and submits it, if it has one entry and there is room. Whether it did.
    #[inline]
    pub(crate) fn post_usual(&mut self, request: &RecvRequest<'_>) -> bool {
        let [one] = request.scatter else {
            return false;
        };
        #[cfg(feature = "rings")]
        if self.watched.is_some() {
            return false;
        }
        let next = self.ring.next(self.published);
        let posted = self.fork.is_current()
            && self.max_sge > 0
            && self
                .ring
                .consumer()
                .is_some_and(|consumed| consumed != next)
            && wqe::put_recv_of_one(&self.ring, self.published, request.wr_id, one);
        if posted {
            self.ring.publish(next);
            (self.tail, self.published) = (next, next);
        }
        posted
    }

    #[inline]
    pub(crate) fn submit(&mut self) -> Result<(), PostError> {
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
