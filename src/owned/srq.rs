//! A shared receive queue that owns the memory of its posted requests.
//!
//! # Safety
//!
//! Posted memory is in `receiving` from before it is submitted until its completion has been polled
//! or was lost unpolled, or the kernel has confirmed that the queue is gone. Ids are unique in the
//! process and unavailable to requests that are posted elsewhere (see `slab`), so a completion of
//! any other request takes nothing out.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use uverbs_core::Result;
use uverbs_core::contract::Srq as _;
use uverbs_core::types::SrqModify;

use super::Buffer;
use super::finished::Finished;
use super::qp::post_receive;
use super::slab::Slab;
use super::work::{Memory, ReceiveRefused};
use crate::Completion;
use crate::destroy::{DestroyError, Failing};
use crate::unpolled::Noted;

/// A shared receive queue for posting without `unsafe`; see [the module](crate::owned).
///
/// It lends the underlying queue for building queue pairs and for queries.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    srq: crate::SharedReceiveQueue,
    receiving: Slab,
    /// The identity of its protection domain.
    domain: usize,
    unpolled: Noted,
    /// Ids of receives that are over, whose completions will never be polled.
    over: Vec<u64>,
}

impl SharedReceiveQueue {
    /// Takes over a shared receive queue. Memory posted on it before remains the responsibility of
    /// the code that posted it.
    pub fn new(srq: crate::SharedReceiveQueue) -> Self {
        let receiving = Slab::new(srq.size().max_wr);
        Self {
            unpolled: Noted::new(receiving.base()),
            over: Vec::new(),
            domain: srq.pd().identity(),
            receiving,
            srq,
        }
    }

    /// The underlying queue, which queue pairs are built with.
    pub fn queue(&self) -> &crate::SharedReceiveQueue {
        &self.srq
    }

    /// How many receive requests are posted.
    pub fn receives_posted(&self) -> usize {
        self.receiving.len()
    }

    /// Posts `buffer` to receive a message into. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the buffer.
    pub fn recv(&mut self, buffer: Buffer, user_data: u64) -> Result<(), ReceiveRefused> {
        let srq = &mut self.srq;
        let (table, domain) = (&mut self.receiving, self.domain);
        post_receive(table, buffer, domain, user_data, |request| {
            // SAFETY: the memory of the scatter/gather entry is a buffer that the table owns until
            // its completion has been polled, or a destroy has been confirmed.
            unsafe { srq.post_recv(&[*request]) }.map_err(|failed| failed.error)
        })
    }

    /// Exchanges a completion for the memory of the finished request. No system call.
    ///
    /// # Errors
    /// The completion, if it does not belong to a request of this queue.
    #[inline]
    pub fn complete<'cq>(
        &mut self,
        completion: Completion<'cq>,
    ) -> Result<Finished, Completion<'cq>> {
        match self.receiving.find(completion.wr_id) {
            Some(received) => Ok(Finished::new(received.take(), &completion)),
            None => Err(completion),
        }
    }

    /// Takes back a request that was used up and no longer has a completion, if there is one.
    ///
    /// Completions that were not polled are lost when their queue pair is destroyed or reset, or
    /// their completion queue is destroyed; so a server whose clients come and go calls this now
    /// and then. Such requests end with [`WcStatus::Flushed`](crate::WcStatus::Flushed) and name no
    /// queue pair. No system call.
    pub fn unpolled(&mut self) -> Option<Finished> {
        if self.over.is_empty() {
            self.learn();
        }
        while let Some(wr_id) = self.over.pop().or_else(|| self.unpolled.take()) {
            if let Some(received) = self.receiving.take(wr_id) {
                return Some(Finished::unpolled(received));
            }
        }
        None
    }

    /// Learns which requests are over. The provider reports each only once, and only until its slot
    /// is reused.
    fn learn(&mut self) {
        let over = &mut self.over;
        let mut note = |wr_id| over.push(wr_id);
        self.srq.queue.take_unreported(&mut note);
    }

    /// `ibv_modify_srq`—resizes or arms it, like
    /// [`SharedReceiveQueue::modify`](crate::SharedReceiveQueue::modify).
    ///
    /// # Errors
    /// As there.
    pub fn modify(&mut self, change: &SrqModify) -> Result<()> {
        self.srq.modify(change)?;
        self.receiving.grow(self.srq.size().max_wr);
        Ok(())
    }

    /// `ibv_destroy_srq`—destroys it and returns the memory of unused requests.
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) while queue pairs use it: it lives on with them, and its
    /// memory with it.
    pub fn destroy(mut self) -> Result<Vec<Memory>> {
        self.srq.end(Failing::GivenUp)?;
        Ok(self.take_memory())
    }

    /// `ibv_destroy_srq`—as [`destroy`](Self::destroy), but returns the queue if that fails, for
    /// another try.
    ///
    /// # Errors
    /// As there.
    pub fn try_destroy(mut self) -> Result<Vec<Memory>, DestroyError<Self>> {
        match self.srq.end(Failing::Left) {
            Ok(_) => Ok(self.take_memory()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }

    /// The memory of what was posted, which nothing else uses any more.
    fn take_memory(&mut self) -> Vec<Memory> {
        let unused = std::mem::take(&mut self.receiving);
        let unused = unused.into_iter();
        unused
            .filter(|memory| !matches!(memory, Memory::None))
            .collect()
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        if self.receiving.len() > 0 {
            // It is freed with the kernel's queue, which queue pairs may keep alive.
            self.srq.keep(std::mem::take(&mut self.receiving));
        }
    }
}
