//! The send ring of a queue pair: this side produces requests, the kernel consumes them when rung.

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
    /// Where the next request goes.
    tail: u32,
    /// Up to where the kernel may look.
    published: u32,
    limits: Limits,
    fork: ForkToken,
    /// A doorbell failed: what the kernel did with the ring is not known.
    poisoned: bool,
    /// Whoever is told what is handed over.
    #[cfg(feature = "rings")]
    watched: Option<Watched>,
}

/// rxe's `max_msg_sz`.
const MAX_MESSAGE: u64 = 1 << 31;

impl SendRing {
    /// A ring that starts where its shared producer index stands. `None` when that is no index.
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

    /// Tells of what is handed over from here on.
    #[cfg(feature = "rings")]
    pub(crate) fn watched(mut self, queue: Option<Watched>) -> Self {
        self.watched = queue;
        self
    }

    /// The bytes a slot must have for these capabilities.
    pub(crate) fn slot_size(caps: &QpCaps) -> usize {
        wqe::SEND_HEADER
            + (caps.max_send_sge as usize * size_of::<rxe_sge>()).max(caps.max_inline_data as usize)
    }

    #[inline]
    pub(crate) fn put(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // A child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PostError::Forked);
        }
        if self.poisoned {
            return Err(PostError::Poisoned);
        }
        let next = self.ring.next(self.tail);
        if next == self.ring.consumer().ok_or(PostError::Poisoned)? {
            return Err(PostError::QueueFull);
        }
        wqe::put_send(&self.ring, self.tail, &self.limits, request)?;
        self.tail = next;
        Ok(())
    }

    /// Publishes what was put and rings the doorbell: one system call for the batch.
    ///
    /// When the doorbell fails the queue takes no more. Requests that the kernel cannot have seen
    /// are taken back. While earlier ones are under way it goes on to these without being rung, and
    /// an index before its own would lead it once more through the whole ring, and through requests
    /// of old: then they stay.
    #[inline]
    pub(crate) fn ring(&mut self, file: &UverbsFile, qp: u32) -> Result<(), PostError> {
        if self.tail == self.published {
            return Ok(());
        }
        if !self.fork.is_current() {
            self.abort();
            return Err(PostError::Forked);
        }
        let idle = self.is_idle();
        // Before the kernel may look, which writes into requests, too.
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

    /// How many requests fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.mask()
    }

    /// True when the kernel has consumed everything that it was handed.
    pub(crate) fn is_idle(&self) -> bool {
        self.ring.consumer() == Some(self.published)
    }

    pub(crate) fn abort(&mut self) {
        self.tail = self.published;
    }
}
