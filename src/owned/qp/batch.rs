//! Several requests with one doorbell.
//!
//! The members of a batch are in the table from before they are in the ring. A batch that is
//! dropped is taken out of the ring at once; one that is forgotten, before the queue pair's next
//! request or batch, and before any of its memory is given back. From when it is submitted on, its
//! members are requests like all others.

use std::marker::PhantomData;

use uverbs_core::contract::Qp as _;
use uverbs_core::types::QpType;
use uverbs_core::{PostError, Result};

use super::put::{Behind, Carried, Put};
use super::{Owner, QueuePair};
use crate::owned::Buffer;
use crate::owned::kind::{Kind, MessageImm};
use crate::owned::work::{Parts, Refused, Work};
use crate::transport::{Carries, Sends, Transport};

/// Send requests that are submitted with one doorbell, from [`QueuePair::batch`].
///
/// Dropping it posts none of them; their memory comes back from [`QueuePair::released`].
#[derive(Debug)]
#[must_use = "nothing is posted before `submit`"]
pub struct Batch<'qp, T: Transport = QpType> {
    owner: &'qp mut Owner,
    transport: PhantomData<T>,
}

impl<T: Transport> QueuePair<T> {
    /// Starts a batch of send requests.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair, buffers: Vec<uverbs::owned::Buffer>) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::owned::Work;
    ///
    /// let mut batch = qp.batch();
    /// for buffer in buffers {
    ///     batch.push(Work::send().memory(buffer).unsignaled())?;
    /// }
    /// // Its completion stands for all of them.
    /// batch.push_inline(Work::send().user_data(1), &[b"end"])?;
    /// batch.submit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ibv_wr_start")]
    pub fn batch(&mut self) -> Batch<'_, T>
    where
        T: Sends,
    {
        self.owner.settle();
        // A request that an unwind left in the ring must not be submitted with this batch.
        self.owner.qp.queue.abort_send();
        Batch {
            owner: &mut self.owner,
            transport: PhantomData,
        }
    }
}

impl<T: Transport> Batch<'_, T> {
    /// Adds a request, which the device does not see yet. No system call.
    ///
    /// # Errors
    /// Why it was refused, and the request with its memory. The batch goes on without it.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn push<K: Kind>(&mut self, work: Work<K>) -> Result<(), Box<Refused>>
    where
        T: Carries<K>,
    {
        self.owner.push(work.parts, None)
    }

    /// Adds a request whose data is copied into the queue, as
    /// [`post_inline`](QueuePair::post_inline) does. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn push_inline<K: Kind>(
        &mut self,
        work: Work<K>,
        bytes: &[&[u8]],
    ) -> Result<(), Box<Refused>>
    where
        T: Carries<K>,
    {
        self.owner.push(work.parts, Some(bytes))
    }

    /// Adds a request that `put` puts into the ring.
    pub(crate) fn push_by<K: Kind>(
        &mut self,
        work: Work<K>,
        inline: Option<&[&[u8]]>,
        put: impl Put,
    ) -> Result<(), Box<Refused>> {
        self.owner.push_by(work.parts, inline, put)
    }

    /// Adds a message, as [`QueuePair::post_message`] posts one.
    #[inline]
    pub(crate) fn push_message(
        &mut self,
        imm: u32,
        carried: Carried<'_>,
        user_data: u64,
        signaled: bool,
    ) -> Result<(), (PostError, Option<Buffer>)>
    where
        T: Carries<MessageImm>,
    {
        let about = (user_data, signaled);
        let id = self.owner.put_message(imm, carried, about, Behind)?;
        self.owner.tables.sending.joined(id);
        Ok(())
    }

    /// How many requests it has.
    pub fn len(&self) -> usize {
        self.owner.tables.sending.batched()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the batch to the device with one doorbell. One system call on rxe, none for an empty
    /// batch.
    ///
    /// # Errors
    /// [`Doorbell`](PostError::Doorbell) when the kernel refused the doorbell but may have seen the
    /// requests: the queue then keeps their memory until it is destroyed or reset. Any other: none
    /// of them is posted, and their memory comes back from [`QueuePair::released`].
    #[doc(alias = "ibv_wr_complete")]
    pub fn submit(self) -> Result<(), PostError> {
        let Owner { qp, tables, .. } = &mut *self.owner;
        let members = tables.sending.submitting();
        match qp.queue.submit_send() {
            Ok(()) => {
                tables.sending.submitted(members);
                Ok(())
            }
            Err(error @ PostError::Doorbell(_)) => Err(error),
            Err(error) => {
                qp.queue.abort_send();
                tables.sending.not_submitted(members);
                Err(error)
            }
        }
    }
}

impl Owner {
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn push(&mut self, parts: Parts, inline: Option<&[&[u8]]>) -> Result<(), Box<Refused>> {
        self.push_by(parts, inline, Behind)
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn push_by(
        &mut self,
        parts: Parts,
        inline: Option<&[&[u8]]>,
        put: impl Put,
    ) -> Result<(), Box<Refused>> {
        let id = self.put_by(parts, inline, put)?;
        self.tables.sending.joined(id);
        Ok(())
    }
}

impl<T: Transport> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        self.owner.settle();
    }
}
