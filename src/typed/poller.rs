//! The poller of a completion queue.
#![expect(clippy::inline_always, reason = "a part of polling")]

use std::fmt;
use std::marker::PhantomData;

use crate::typed::vendor::Vendor;
use uverbs_core::PollError;
use uverbs_core::Result;
use uverbs_core::contract::{self, Entry as _, TypedCq as _};
use uverbs_core::types::{WcFlags, WcOpcode, WcStatus, WorkCompletion};

use crate::CompletionQueue;
use crate::completion::CqId;

type Cq<V> = <V as contract::Vendor>::Cq;

/// A completion of a queue of the vendor `V` as it was found in the ring: its fields are decoded
/// when they are asked for ([`Entry`](crate::typed::Entry)).
///
/// Like [`WorkCompletion`] it is data, which may be copied and kept.
pub type EntryOf<V> = <V as Vendor>::Entry;

/// The poller of a completion queue of the vendor `V`.
pub struct Poller<'cq, V: Vendor> {
    cq: &'cq mut Cq<V>,
    queue: CqId,
}

/// A completion that was taken out of its queue, which cannot be polled again while the completion
/// lives. It cannot be copied or forged.
pub struct Completion<'p, V: Vendor> {
    entry: EntryOf<V>,
    queue: CqId,
    bound: PhantomData<&'p mut ()>,
}

impl CompletionQueue {
    /// Its poller, if it is of a device of the vendor `V`. No system call.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): a device of another vendor.
    #[inline]
    pub fn poller<V: Vendor>(&mut self) -> Result<Poller<'_, V>> {
        let queue = self.id();
        Ok(Poller {
            cq: self.of_vendor::<V>()?,
            queue,
        })
    }
}

impl<V: Vendor> Poller<'_, V> {
    /// Takes the oldest completion, if there is one. No system call.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`].
    #[doc(alias = "ibv_start_poll")]
    #[doc(alias = "ibv_next_poll")]
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Option<Completion<'_, V>>, PollError> {
        match self.cq.poll_entry() {
            Ok(Some(entry)) => Ok(Some(Completion {
                entry,
                queue: self.queue,
                bound: PhantomData,
            })),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `ibv_poll_cq` for one—takes the oldest completion, if there is one, and writes all of its
    /// fields to `out`; returns whether there was one.
    ///
    /// For programs that keep completions: less work than to take one and copy the
    /// [whole](Completion::whole). No system call.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`]; `out` keeps its value.
    #[doc(alias = "ibv_poll_cq")]
    #[inline(always)]
    pub fn poll_whole(&mut self, out: &mut WorkCompletion) -> Result<bool, PollError> {
        self.cq.poll_whole(out)
    }

    /// `ibv_poll_cq`—takes as many completions as there are, up to the room in `out`, oldest first.
    ///
    /// Returns how many were taken. No system call.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll_into`].
    #[doc(alias = "ibv_poll_cq")]
    #[inline(always)]
    pub fn poll_into(&mut self, out: &mut [EntryOf<V>]) -> Result<usize, PollError> {
        self.cq.poll_entries(out)
    }
}

impl<'p, V: Vendor> Completion<'p, V> {
    /// The number of its request.
    #[inline(always)]
    pub fn wr_id(&self) -> u64 {
        self.entry.wr_id()
    }

    /// How the request ended.
    #[inline(always)]
    pub fn status(&self) -> WcStatus {
        self.entry.status()
    }

    /// What it completed.
    #[doc(alias = "ibv_wc_read_opcode")]
    #[inline(always)]
    pub fn opcode(&self) -> WcOpcode {
        self.entry.opcode()
    }

    /// Bytes that were received or read; 0 for other requests.
    #[doc(alias = "ibv_wc_read_byte_len")]
    #[inline(always)]
    pub fn byte_len(&self) -> u32 {
        self.entry.byte_len()
    }

    /// The immediate value, if the message has one.
    #[doc(alias = "ibv_wc_read_imm_data")]
    #[inline(always)]
    pub fn imm(&self) -> Option<u32> {
        self.entry.imm()
    }

    /// The number of the queue pair.
    #[doc(alias = "ibv_wc_read_qp_num")]
    #[inline(always)]
    pub fn qp_num(&self) -> u32 {
        self.entry.qp_num()
    }

    /// Flags of a received message.
    #[doc(alias = "ibv_wc_read_wc_flags")]
    #[inline(always)]
    pub fn flags(&self) -> WcFlags {
        self.entry.flags()
    }

    /// A copy of all fields.
    #[inline(always)]
    pub fn whole(&self) -> WorkCompletion {
        self.entry.whole()
    }

    /// The same completion as any queue returns it, which [`owned`](crate::owned) queues take.
    #[inline(always)]
    pub fn untyped(self) -> crate::Completion<'p> {
        crate::Completion::of(self.entry.whole(), self.queue)
    }

    /// The queue it was taken from.
    #[inline]
    pub fn queue(&self) -> CqId {
        self.queue
    }
}

impl<V: Vendor> fmt::Debug for Poller<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<V: Vendor> fmt::Debug for Completion<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole().fmt(f)
    }
}
