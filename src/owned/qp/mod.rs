//! A queue pair that owns the memory of its posted work.
//!
//! # Safety
//!
//! Posted memory is in the tables from before it is submitted until its completion (of an
//! unsignaled request: that of a later one of its send queue) has been polled, or the kernel has
//! confirmed a destroy or a reset. A completion belongs to a request in the tables if it has its
//! id: ids are unique in the process, assigned to one request at a time, and unavailable to
//! requests that are posted elsewhere (see `slab`). A completion can be used once, because it is
//! moved in and cannot be created or copied. Tables that are left behind by a drop or an unwind are
//! kept with the kernel's queue pair until it is gone.

mod batch;
mod control;
mod post;
pub(crate) mod put;
mod recv;
mod tables;

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr;

use uverbs_core::Result;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{QpAttr, QpState, QpType};

use super::Memory;
use super::finished::Finished;
use super::work::Released;
use crate::destroy::{DestroyError, Failing};
use crate::transport::{Connected, Transport, Unconnected};
use crate::{Completion, QueuePairEndpoint};

pub use batch::Batch;
pub(crate) use put::Carried;
pub(super) use recv::post_receive;
use tables::Tables;

/// A queue pair for posting without `unsafe`; see [the module](crate::owned).
///
/// Its [transport](crate::transport) says what it can post.
#[derive(Debug)]
pub struct QueuePair<T: Transport = QpType> {
    owner: Owner,
    transport: PhantomData<T>,
}

/// The queue pair, and the memory of what is posted on it.
#[derive(Debug)]
struct Owner {
    qp: crate::QueuePair,
    tables: Tables,
    /// The identity of its protection domain.
    domain: usize,
    /// Its number, when last asked.
    number: u32,
}

impl<T: Transport> QueuePair<T> {
    /// Takes over a queue pair. Memory of work that was posted on it before remains the
    /// responsibility of the code that posted it; completions of that work finish nothing here.
    pub fn new(qp: crate::QueuePair<T>) -> Self {
        let owner = Owner {
            tables: Tables::of(&qp.caps()),
            domain: qp.pd().identity(),
            number: qp.qp_num(),
            qp: qp.untyped(),
        };
        Self {
            owner,
            transport: PhantomData,
        }
    }

    /// The same queue pair, with its transport checked at run time. No system call.
    pub fn untyped(self) -> QueuePair {
        QueuePair {
            owner: self.owner,
            transport: PhantomData,
        }
    }

    /// How many send requests are outstanding.
    pub fn sends_posted(&self) -> usize {
        self.owner.tables.sending.len()
    }

    /// How many receive requests are posted.
    pub fn receives_posted(&self) -> usize {
        self.owner.tables.receiving.len()
    }

    /// Exchanges a completion for the memory of the finished request.
    ///
    /// No system call, and no search: the completion identifies the request.
    ///
    /// # Errors
    /// The completion, if it does not belong to a request of this queue pair: one of another queue,
    /// one that was posted before the queue pair was taken over, or one that a
    /// [`reset`](Self::reset) discarded.
    #[expect(clippy::inline_always, reason = "so that no completion is copied")]
    #[inline(always)]
    pub fn complete<'cq>(
        &mut self,
        completion: Completion<'cq>,
    ) -> Result<Finished, Completion<'cq>> {
        // Only a precaution: the ids are enough, as long as the kernel tells the truth.
        if completion.qp_num != self.owner.number && !self.owner.has_number(completion.qp_num) {
            return Err(completion);
        }
        let Tables { sending, receiving } = &mut self.owner.tables;
        let found = match sending.find(completion.wr_id) {
            Some(sent) => sent,
            None => match receiving.find(completion.wr_id) {
                Some(received) => received,
                None => match sending.find_special(completion.wr_id) {
                    Some(sent) => sent,
                    None => return Err(completion),
                },
            },
        };
        Ok(Finished::new(found.take(), &completion))
    }

    /// Takes back memory that has no completion of its own, if there is any: of
    /// [unsignaled](super::Work::unsignaled) requests, once a completion of a later request of the
    /// send queue has been exchanged, and of a [batch](Self::batch) that was dropped or forgotten
    /// instead of submitted. No system call.
    ///
    /// Until it is taken back, it occupies its place in the queue. Requests without memory are not
    /// reported.
    pub fn released(&mut self) -> Option<Released> {
        self.owner.settle();
        self.owner.tables.sending.released()
    }

    /// Moves it to RESET, which discards posted work, and returns the memory of all of it.
    ///
    /// Completions of that work that are still in a completion queue no longer finish anything.
    ///
    /// It can then be connected again, with [`reconnect`](Self::reconnect) or
    /// [`reactivate`](Self::reactivate). One system call.
    ///
    /// # Errors
    /// As [`modify`](Self::modify); the memory then stays in the queue.
    pub fn reset(&mut self) -> Result<Vec<Memory>> {
        // Created first, so that nothing can fail afterwards.
        let fresh = Tables::of(&self.owner.qp.caps());
        self.owner.qp.modify(&QpAttr::to(QpState::Reset))?;
        Ok(mem::replace(&mut self.owner.tables, fresh).into_memory())
    }

    /// The queue pair for raw posting. No system call.
    ///
    /// # Errors
    /// This queue pair, while requests are posted or memory was not
    /// [taken back](Self::released): wait for their completions, or [`reset`](Self::reset) it.
    #[expect(
        clippy::result_large_err,
        reason = "it is the queue pair, nothing is lost"
    )]
    #[expect(unsafe_code, reason = "moves a field out of a value that has a drop")]
    pub fn into_raw(mut self) -> Result<crate::QueuePair<T>, Self> {
        self.owner.settle();
        if !self.owner.tables.are_empty() {
            return Err(self);
        }
        drop(mem::take(&mut self.owner.tables));
        let owner = ManuallyDrop::new(self.owner);
        // SAFETY: the queue pair is moved out once: `owner` is neither used nor dropped afterwards,
        // and its other fields, empty tables and a number, own nothing.
        let qp = unsafe { ptr::read(&raw const owner.qp) };
        Ok(qp.with_transport())
    }

    /// `ibv_destroy_qp`—destroys it and returns the memory of discarded work.
    ///
    /// # Errors
    /// As [`QueuePair::destroy`](crate::QueuePair::destroy); the memory is then leaked.
    pub fn destroy(mut self) -> Result<Vec<Memory>> {
        self.owner.qp.end(Failing::GivenUp)?;
        Ok(mem::take(&mut self.owner.tables).into_memory())
    }

    /// `ibv_destroy_qp`—as [`destroy`](Self::destroy), but returns the queue pair with its memory
    /// if that fails, for another try.
    ///
    /// # Errors
    /// As [`QueuePair::try_destroy`](crate::QueuePair::try_destroy).
    pub fn try_destroy(mut self) -> Result<Vec<Memory>, DestroyError<Self>> {
        match self.owner.qp.end(Failing::Left) {
            Ok(_) => Ok(mem::take(&mut self.owner.tables).into_memory()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }

    /// Connects it to a peer again after a [`reset`](Self::reset), like
    /// [`QueuePair::reconnect`](crate::QueuePair::reconnect).
    ///
    /// # Errors
    /// As there.
    pub fn reconnect(&mut self, remote: QueuePairEndpoint) -> Result<()>
    where
        T: Connected,
    {
        self.owner.qp.reconnect(remote)
    }

    /// Makes a queue pair without a peer ready again after a [`reset`](Self::reset), like
    /// [`QueuePair::reactivate`](crate::QueuePair::reactivate).
    ///
    /// # Errors
    /// As there.
    pub fn reactivate(&mut self) -> Result<()>
    where
        T: Unconnected,
    {
        self.owner.qp.reactivate()
    }
}

impl Owner {
    /// Whether `number` is its number, which a target of dynamic connections gets late.
    #[cold]
    #[inline(never)]
    fn has_number(&mut self, number: u32) -> bool {
        self.number = self.qp.qp_num();
        self.number == number
    }

    /// Gives up a batch that was forgotten: takes it out of the ring, where the device has not seen
    /// it.
    #[inline]
    fn settle(&mut self) {
        if self.tables.sending.has_batch() {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&mut self) {
        self.qp.queue.abort_send();
        self.tables.sending.given_up();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.tables.are_empty() {
            // Freed with the kernel's queue pair, which is destroyed after this.
            self.qp.keep(mem::take(&mut self.tables));
        }
    }
}
