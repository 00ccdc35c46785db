//! Copies from local memory to local memory by the device.

use uverbs_core::PostError;
use uverbs_core::types::{SendFlags, Sge};
use uverbs_mlx5::QpExtra;

use crate::transport::{Requests, Transport};
use crate::{QueuePairBuilder, SendBatch};

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// `MLX5DV_QP_EX_WITH_MEMCPY`—the queue pair can have the device copy local memory
    /// ([`push_copy`](SendBatch::push_copy)): RC queue pairs and DC initiators of mlx5 devices. Two
    /// more system calls when it is built, and one whenever it is initialised. Default: no.
    ///
    /// Building fails with [`Unsupported`](crate::ErrorKind::Unsupported) for other queue pairs,
    /// and on a device that makes no copies.
    #[doc(alias = "MLX5DV_QP_EX_WITH_MEMCPY")]
    pub fn copies(self) -> Self
    where
        T: Requests,
    {
        let extra = self.extra::<QpExtra>().cloned().unwrap_or_default();
        self.with_extra(extra.with_copies())
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// `mlx5dv_wr_memcpy`—puts a copy from one place of local memory to another, of the same
    /// length, into the ring; the device makes it by itself, and in order with the requests around
    /// it. No system call. Its completion has the opcode
    /// [`Driver3`](crate::completion::WcOpcode::Driver3).
    ///
    /// ```no_run
    /// use uverbs::{SendFlags, Sge};
    ///
    /// # fn f(qp: &mut uverbs::QueuePair, from: Sge, to: Sge) -> Result<(), uverbs::PostError> {
    /// let mut batch = qp.send_batch();
    /// // SAFETY: both regions stay registered, and nothing else accesses them until it completes.
    /// unsafe { batch.push_copy(7, SendFlags::SIGNALED, &from, &to) }?;
    /// batch.submit()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs that were built
    /// without [copies](QueuePairBuilder::copies); [`PostError::InvalidRequest`] for no bytes, and
    /// for places of different lengths; [`PostError::MessageTooLong`] for more than the device
    /// copies at a time ([`max_copy`](crate::mlx5::prm::GeneralCaps::max_copy)).
    ///
    /// # Safety
    /// 1. As [`push`](Self::push), for both places.
    #[doc(alias = "mlx5dv_wr_memcpy")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_copy(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        from: &Sge,
        to: &Sge,
    ) -> Result<(), PostError>
    where
        T: Requests,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_copy(wr_id, flags, from, to) }
    }
}
