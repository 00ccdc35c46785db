//! The send ring of a queue pair: this side produces requests, the kernel consumes them after a
//! doorbell.

use uverbs_core::hw::SharedRing;
#[cfg(feature = "rings")]
use uverbs_core::rings::Watched;
use uverbs_core::sys::ForkToken;
use uverbs_core::types::{DeviceCaps, QpCaps, QpType, SendRequest};
use uverbs_core::{Error, Op, PostError, UverbsFile, cmd};
use uverbs_uapi::rdma_user_rxe::rxe_sge;

#[cfg(feature = "rings")]
use crate::rings;
use crate::wqe::{self, Limits};

/// A send ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    ring: SharedRing,
    /// Index of the next request.
    tail: u32,
    /// The published producer index.
    published: u32,
    limits: Limits,
    fork: ForkToken,
    /// A doorbell failed: it is unknown what the kernel did with the ring.
    poisoned: bool,
    /// The observer of submitted requests.
    #[cfg(feature = "rings")]
    watched: Option<Watched>,
}

/// rxe's `max_msg_sz`.
const MAX_MESSAGE: u64 = 1 << 31;

impl SendRing {
    /// A ring that starts at its shared producer index. `None` if that is not a valid index.
    pub(crate) fn new(
        ring: SharedRing,
        kind: QpType,
        caps: &QpCaps,
        device: DeviceCaps,
        fork: ForkToken,
    ) -> Option<Self> {
        let tail = ring.producer()?;
        Some(Self {
            ring,
            tail,
            published: tail,
            limits: Limits {
                kind,
                max_sge: caps.max_send_sge,
                max_inline: caps.max_inline_data,
                max_message: MAX_MESSAGE,
                device,
            },
            fork,
            poisoned: false,
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

    /// The slot size that these capabilities require, in bytes.
    pub(crate) fn slot_size(caps: &QpCaps) -> usize {
        wqe::SEND_HEADER
            + (caps.max_send_sge as usize * size_of::<rxe_sge>()).max(caps.max_inline_data as usize)
    }

    #[inline]
    pub(crate) fn put(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let (next, _) = self.room()?;
        wqe::put_send(&self.ring, self.tail, &self.limits, request)?;
        self.tail = next;
        Ok(())
    }

    /// The index after the next request, and how far the kernel is, if there is room for a request.
    #[inline]
    fn room(&self) -> Result<(u32, u32), PostError> {
        // A forked child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.poisoned {
            return Err(PostError::Poisoned);
        }
        let next = self.ring.next(self.tail);
        let consumed = self.ring.consumer().ok_or(PostError::Poisoned)?;
        if next == consumed {
            return Err(PostError::QueueFull);
        }
        Ok((next, consumed))
    }

    /// Publishes the requests that were put and rings the doorbell: one system call for the batch.
    ///
    /// If the doorbell fails, the queue accepts no more requests. Requests that the kernel cannot
    /// have seen are removed. But while earlier requests are under way, the kernel continues to the
    /// new ones without a doorbell, and if the producer index were moved back behind the kernel's
    /// own, it would wrap around the whole ring and process old requests again: in that case they
    /// stay.
    #[inline]
    pub(crate) fn submit(&mut self, file: &UverbsFile, qp: u32) -> Result<(), PostError> {
        if self.tail == self.published {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        self.submit_after(self.is_idle(), file, qp)
    }

    /// [Puts](Self::put) one request and [submits](Self::submit) it, in fewer steps. Requests that
    /// were put before and not submitted are removed.
    #[inline]
    pub(crate) fn post(
        &mut self,
        request: &SendRequest<'_>,
        file: &UverbsFile,
        qp: u32,
    ) -> Result<(), PostError> {
        self.abort();
        let (next, consumed) = self.room()?;
        wqe::put_send(&self.ring, self.tail, &self.limits, request)?;
        self.tail = next;
        self.submit_after(consumed == self.published, file, qp)
    }

    /// Publishes what was put; before that, the kernel had nothing to do if it was `idle`.
    #[inline]
    fn submit_after(&mut self, idle: bool, file: &UverbsFile, qp: u32) -> Result<(), PostError> {
        // Before the kernel may process the requests, since it also writes to them.
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            let datagrams = self.limits.kind == QpType::Ud;
            rings::sends(queue, &self.ring, self.published..self.tail, datagrams);
        }
        self.ring.publish(self.tail);
        match cmd::qp::doorbell(file, qp) {
            Ok(()) => {
                self.published = self.tail;
                Ok(())
            }
            Err(errno) => {
                self.poisoned = true;
                if idle && !Error::os(Op::PostSend, errno).outcome_is_unknown() {
                    self.ring.publish(self.published);
                    self.tail = self.published;
                } else {
                    self.published = self.tail;
                }
                Err(PostError::Doorbell(errno))
            }
        }
    }

    /// How many requests the ring holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.mask()
    }

    /// True if the kernel has consumed everything that was published.
    pub(crate) fn is_idle(&self) -> bool {
        self.ring.consumer() == Some(self.published)
    }

    pub(crate) fn abort(&mut self) {
        self.tail = self.published;
    }
}
