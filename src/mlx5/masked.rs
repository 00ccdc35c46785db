//! Atomic operations on some bits of a word.

use uverbs_core::types::{Remote, SendFlags, Sge};
use uverbs_core::{PostError, Result};
use uverbs_mlx5::MaskedAtomic;

use crate::SendBatch;
use crate::transport::{Requests, Transport};

impl<T: Transport> SendBatch<'_, T> {
    /// Puts a masked atomic operation on 8 bytes of the peer's memory into the ring: the old value
    /// is written to `sge`. Reliable connections of mlx5 devices only; no system call.
    /// (`IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP` and `…_FETCH_AND_ADD` of the vendor's older
    /// libraries; rdma-core has no name for it.)
    ///
    /// Not every device supports it. The kernel does not say which do; one that does not completes
    /// the request with [`LocalQpOperation`](crate::WcStatus::LocalQpOperation), after which the
    /// queue pair is in ERROR.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device, or where the device announces no atomics; [`PostError::InvalidRequest`] for a
    /// `sge` that is not 8 bytes long or an address that is not aligned to 8.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[doc(alias = "IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP")]
    #[doc(alias = "IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_masked_atomic(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        remote: Remote,
        operation: MaskedAtomic,
        sge: &Sge,
    ) -> Result<(), PostError>
    where
        T: Requests,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_masked_atomic(wr_id, flags, remote, operation, sge) }
    }
}
