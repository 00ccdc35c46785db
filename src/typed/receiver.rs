//! The receiving end of a queue pair.
#![expect(clippy::inline_always, reason = "a part of posting")]

use std::fmt;

use crate::typed::vendor::Vendor;
use uverbs_core::contract::{self, Receiver as _, RecvBatch as _, TypedQp};
use uverbs_core::types::RecvRequest;
use uverbs_core::{Op, PostError, Result};

use crate::QueuePair;
use crate::transport::Receives;

type End<'q, V> = <<V as contract::Vendor>::Qp as TypedQp>::Receiver<'q>;
type Batch<'q, 's, V> = <End<'q, V> as contract::Receiver>::Batch<'s>;

/// The receiving end of a queue pair of the vendor `V`.
pub struct Receiver<'q, V: Vendor> {
    end: End<'q, V>,
}

/// Receive requests of a [`Receiver`] that are submitted together. Dropped or forgotten, nothing of
/// it is posted.
#[must_use = "nothing is posted before `submit`"]
pub struct RecvBatch<'q: 's, 's, V: Vendor> {
    batch: Batch<'q, 's, V>,
}

impl<T: Receives> QueuePair<T> {
    /// Its receiving end, if it is of a device of the vendor `V`. No system call.
    ///
    /// A batch that was [started](Self::recv_batch) and forgotten is taken back.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): a device of another vendor; a queue pair
    /// with a shared receive queue, or without one; one whose small messages arrive in completions.
    #[inline]
    pub fn receiver<V: Vendor>(&mut self) -> Result<Receiver<'_, V>> {
        let own = self.of_vendor::<V>(Op::PostReceive)?;
        Ok(Receiver {
            end: own.receiver()?,
        })
    }
}

impl<'q, V: Vendor> Receiver<'q, V> {
    /// Starts a batch of requests that are submitted together.
    #[inline(always)]
    pub fn batch(&mut self) -> RecvBatch<'q, '_, V> {
        RecvBatch {
            batch: self.end.batch(),
        }
    }

    /// `ibv_post_recv`—posts one request. No system call.
    ///
    /// # Errors
    /// As [`RecvBatch::push`] and [`RecvBatch::submit`].
    ///
    /// # Safety
    /// As [`RecvBatch::push`](crate::RecvBatch::push).
    #[doc(alias = "ibv_post_recv")]
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    #[inline(always)]
    pub unsafe fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.end.post(request) }
    }
}

impl<V: Vendor> RecvBatch<'_, '_, V> {
    /// Puts a request into the ring, where the device does not see it yet.
    ///
    /// # Errors
    /// Why it was refused. The batch goes on without it.
    ///
    /// # Safety
    /// As [`RecvBatch::push`](crate::RecvBatch::push), from [`submit`](Self::submit) on.
    #[expect(unsafe_code, reason = "names memory that a device will write to")]
    #[inline(always)]
    pub unsafe fn push(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller promises what the provider requires.
        unsafe { self.batch.push(request) }
    }

    /// Hands the batch to the device. No system call.
    ///
    /// # Errors
    /// As [`RecvBatch::submit`](crate::RecvBatch::submit).
    #[inline(always)]
    pub fn submit(self) -> Result<(), PostError> {
        self.batch.submit()
    }
}

impl<V: Vendor> fmt::Debug for Receiver<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<V: Vendor> fmt::Debug for RecvBatch<'_, '_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch").finish_non_exhaustive()
    }
}
