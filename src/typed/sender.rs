//! The sending end of a queue pair.
#![expect(clippy::inline_always, reason = "a part of posting")]

use std::fmt;

use crate::typed::vendor::Vendor;
use uverbs_core::contract::{self, SendBatch as _, Sender as _, TypedQp};
use uverbs_core::types::{Posting, RESERVED_WR_IDS, SendRequest, Template};
use uverbs_core::{Op, PostError, Result};

use crate::QueuePair;
use crate::qp::names_no_memory;
use crate::transport::Sends;

type Qp<V> = <V as contract::Vendor>::Qp;
type End<'q, V> = <Qp<V> as TypedQp>::Sender<'q>;
type Batch<'q, 's, V> = <End<'q, V> as contract::Sender>::Batch<'s>;

/// The sending end of a queue pair of the vendor `V`.
pub struct Sender<'q, V: Vendor> {
    end: End<'q, V>,
}

/// Send requests of a [`Sender`] that are submitted together. Dropped or forgotten, nothing of it
/// is sent.
#[must_use = "nothing is sent before `submit`"]
pub struct SendBatch<'q: 's, 's, V: Vendor> {
    batch: Batch<'q, 's, V>,
}

/// A [`Template`] in the form that devices of the vendor `V` read ([`Sender::prepare`]).
#[derive(Clone, Copy, Debug)]
pub struct Prepared<V: Vendor> {
    words: <Qp<V> as TypedQp>::Prepared,
}

impl<T: Sends> QueuePair<T> {
    /// Its sending end, if it is of a device of the vendor `V`. No system call.
    ///
    /// A batch that was [started](Self::send_batch) and forgotten is taken back.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): a device of another vendor; a queue pair
    /// that is not of type RC, UC or UD, or that has no send queue.
    #[inline]
    pub fn sender<V: Vendor>(&mut self) -> Result<Sender<'_, V>> {
        let own = self.of_vendor::<V>(Op::PostSend)?;
        Ok(Sender { end: own.sender()? })
    }
}

impl<'q, V: Vendor> Sender<'q, V> {
    /// Starts a batch of requests that are submitted with one doorbell.
    #[doc(alias = "ibv_wr_start")]
    #[inline(always)]
    pub fn batch(&mut self) -> SendBatch<'q, '_, V> {
        SendBatch {
            batch: self.end.batch(),
        }
    }

    /// Converts a template into the form that the device reads. It can be posted with every sender
    /// of this vendor.
    pub fn prepare(&self, template: &Template) -> Prepared<V> {
        Prepared {
            words: self.end.prepare(template),
        }
    }

    /// `ibv_post_send`—posts one request. One system call on rxe.
    ///
    /// # Errors
    /// As [`SendBatch::push`] and [`SendBatch::submit`].
    ///
    /// # Safety
    /// As [`SendBatch::push`](crate::SendBatch::push).
    #[doc(alias = "ibv_post_send")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline(always)]
    pub unsafe fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.end.post(request) }
    }

    /// The same for a template, with what is different this time.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::QueuePair, region: &uverbs::MemoryRegion, to: uverbs::Remote) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::typed::{Posting, Template, vendor::Mlx5};
    ///
    /// let mut sender = qp.sender::<Mlx5>()?;
    /// let write = sender.prepare(&Template::write(region.lkey(), to.key).signaled());
    /// let sge = region.sge(0, 64).expect("inside the region");
    /// let posting = Posting { wr_id: 7, address: sge.address, length: 64, remote: to.address };
    /// // SAFETY: the region outlives the completion, and nothing writes to it until then.
    /// unsafe { sender.post_prepared(&write, &posting) }?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`post`](Self::post).
    ///
    /// # Safety
    /// As [`SendBatch::push`](crate::SendBatch::push), for the request that the template describes
    /// and the posting completes.
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline(always)]
    pub unsafe fn post_prepared(
        &mut self,
        prepared: &Prepared<V>,
        posting: &Posting,
    ) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.end.post_prepared(&prepared.words, posting) }
    }
}

impl<V: Vendor> SendBatch<'_, '_, V> {
    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// Why it was refused. The batch goes on without it.
    ///
    /// # Safety
    /// As [`SendBatch::push`](crate::SendBatch::push), from [`submit`](Self::submit) on.
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline(always)]
    pub unsafe fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.batch.push(request) }
    }

    /// The same for a template, with what is different this time.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Safety
    /// As [`push`](Self::push), for the request that the template describes and the posting
    /// completes.
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline(always)]
    pub unsafe fn push_prepared(
        &mut self,
        prepared: &Prepared<V>,
        posting: &Posting,
    ) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.batch.push_prepared(&prepared.words, posting) }
    }

    /// Puts a request that uses no registered memory into the ring, as
    /// [`push_inline`](crate::SendBatch::push_inline) does. Safe, because the bytes are copied
    /// immediately.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`] for a request with scatter/gather entries or with keys;
    /// [`PostError::ReservedId`] for a `wr_id` of
    /// [`RESERVED_WR_IDS`](crate::request::RESERVED_WR_IDS) or above; else as [`push`](Self::push).
    #[expect(unsafe_code, reason = "posts what needs no promise")]
    #[inline(always)]
    pub fn push_inline(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if request.wr_id >= RESERVED_WR_IDS {
            return Err(PostError::ReservedId);
        }
        if !names_no_memory(request) {
            return Err(PostError::InvalidRequest);
        }
        // SAFETY: the request names no memory of this process and changes no key, and its number is
        // not reserved.
        unsafe { self.batch.push(request) }
    }

    /// Hands the batch to the device with one doorbell. One system call on rxe, none for an empty
    /// batch.
    ///
    /// # Errors
    /// As [`SendBatch::submit`](crate::SendBatch::submit).
    #[doc(alias = "ibv_wr_complete")]
    #[inline(always)]
    pub fn submit(self) -> Result<(), PostError> {
        self.batch.submit()
    }
}

impl<V: Vendor> fmt::Debug for Sender<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<V: Vendor> fmt::Debug for SendBatch<'_, '_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch").finish_non_exhaustive()
    }
}
