//! A shared receive queue that owns the memory of its posted requests.
//!
//! # Safety
//!
//! Posted memory is in `receiving` from before it is rung until its completion was polled, or the
//! kernel confirmed that the queue is gone. Ids are of no use in any other table, so a completion
//! of another queue takes nothing out.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use uverbs_driver::types::SrqModify;
use uverbs_driver::{Error, ErrorKind, Op, PostError, Result};

use super::Buffer;
use super::qp::{Receive, post_receive};
use super::slab::Slab;
use super::work::{Finished, Memory, ReceiveRefused};
use crate::Completion;

/// A shared receive queue for posting without `unsafe`; see [the module](crate::owned).
///
/// It lends the queue underneath for building queue pairs and for queries.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    srq: Option<crate::SharedReceiveQueue>,
    receiving: Slab<Receive>,
}

impl SharedReceiveQueue {
    /// Takes a shared receive queue over. Memory posted on it before stays its poster's business.
    pub fn new(srq: crate::SharedReceiveQueue) -> Self {
        Self {
            receiving: Slab::new(srq.size().max_wr),
            srq: Some(srq),
        }
    }

    /// The queue underneath: what queue pairs are built with.
    ///
    /// # Errors
    /// Never for a queue that a caller can reach; it is taken out only to be destroyed.
    pub fn queue(&self) -> Result<&crate::SharedReceiveQueue> {
        self.srq
            .as_ref()
            .ok_or_else(|| Error::new(Op::QuerySharedReceiveQueue, ErrorKind::InvalidState))
    }

    /// How many receive requests are posted.
    pub fn receives_posted(&self) -> usize {
        self.receiving.len()
    }

    /// Posts `buffer` to receive a message into. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the buffer.
    pub fn recv(&mut self, buffer: Buffer, context: u64) -> Result<(), ReceiveRefused> {
        let Some(srq) = &mut self.srq else {
            return Err(ReceiveRefused::new(PostError::Poisoned, buffer));
        };
        let piece = buffer.whole_in(srq.pd());
        post_receive(&mut self.receiving, buffer, piece, context, |request| {
            // SAFETY: the memory of the piece is a buffer that the table owns until its completion
            // was polled, or a destroy was confirmed.
            unsafe { srq.post_recv(&[*request]) }.map_err(|failed| failed.error)
        })
    }

    /// Takes the memory of a finished request back. `None` when the completion is another queue's.
    pub fn complete(&mut self, completion: &Completion<'_>) -> Option<Finished> {
        let receive = self.receiving.remove(completion.wr_id)?;
        Some(Finished::new(receive.context, receive.memory, completion))
    }

    /// `ibv_modify_srq`—resizes or arms it, as [`SharedReceiveQueue::modify`](crate::SharedReceiveQueue::modify).
    ///
    /// # Errors
    /// As there.
    pub fn modify(&mut self, change: &SrqModify) -> Result<()> {
        let Some(srq) = &mut self.srq else {
            return Err(Error::new(
                Op::ModifySharedReceiveQueue,
                ErrorKind::InvalidState,
            ));
        };
        srq.modify(change)?;
        self.receiving.grow(srq.size().max_wr);
        Ok(())
    }

    /// `ibv_destroy_srq`—destroys it and returns the memory of requests that were not used.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while queue pairs use it: it lives on with them, and its memory with it.
    pub fn destroy(mut self) -> Result<Vec<Memory>> {
        let Some(srq) = self.srq.take() else {
            return Ok(Vec::new());
        };
        let table = std::mem::replace(&mut self.receiving, Slab::new(0));
        let mut unused = srq.destroy_keeping(table)?;
        Ok(unused
            .drain()
            .into_iter()
            .map(|receive| receive.memory)
            .collect())
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        if let Some(srq) = self.srq.take() {
            // Freed with the kernel's queue, which queue pairs may keep alive.
            srq.keep(std::mem::replace(&mut self.receiving, Slab::new(0)));
        }
    }
}
