//! Small messages inside completions.

use uverbs_mlx5::QpExtra;

use crate::QueuePairBuilder;
use crate::transport::{Connected, Transport};

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// `MLX5_QP_FLAG_SCATTER_CQE`—asks for messages of up to 32 bytes to arrive inside their
    /// completions (64 where completions have 128 bytes: see
    /// [`EntrySize`](crate::mlx5::EntrySize)). The device then makes one write for a small message
    /// instead of two; polling copies it to where the receive request wanted it, and takes a lock
    /// of the queue pair for that. Requests and completions look the same. A device that does not
    /// support this ignores it. Default: no.
    ///
    /// Building fails with [`Unsupported`](crate::ErrorKind::Unsupported) for anything but RC and
    /// UC queue pairs of mlx5 devices, with a shared receive queue, and with
    /// [`signal_all`](Self::signal_all).
    ///
    /// # Safety
    /// The scatter/gather entries of every receive request that is posted to a queue pair built
    /// from this builder or a clone of it name, by their addresses, memory of this process that may
    /// be written until the request is completed, or the queue pair is reset or destroyed. Until
    /// then, any concurrent access to that memory by this process is an atomic access of the same
    /// width. So the entries are not of a region that has addresses of its own, nor of device
    /// memory. Requests of an [`owned::QueuePair`](crate::owned::QueuePair) satisfy this.
    ///
    /// ```no_run
    /// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> uverbs::Result<()> {
    /// use uverbs::owned;
    /// use uverbs::transport::Rc;
    ///
    /// let builder = pd.queue_pair(Rc, &cq, &cq);
    /// // SAFETY: all that is posted is posted by an owned queue pair.
    /// let prepared = unsafe { builder.scatter_to_completions() }.build()?;
    /// let endpoint = prepared.endpoint();
    /// let mut qp = owned::QueuePair::new(prepared.handshake(endpoint)?);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "MLX5_QP_FLAG_SCATTER_CQE")]
    #[doc(alias = "MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE")]
    #[expect(unsafe_code, reason = "the poller writes to memory that requests name")]
    pub unsafe fn scatter_to_completions(self) -> Self
    where
        T: Connected,
    {
        let extra = self.extra::<QpExtra>().cloned().unwrap_or_default();
        // SAFETY: the caller promises what is required.
        self.with_extra(unsafe { extra.scattering() })
    }
}
