//! Dynamic connections: an initiator reaches any target, request by request, without a connection
//! to each.

use uverbs_core::types::SendRequest;
use uverbs_core::{PostError, Result};
use uverbs_mlx5::{DcDestination, QpExtra};

use super::Streams;
use crate::qp::After;
use crate::transport::{DcInitiator, DcTarget, NamesTarget, Transport};
use crate::{
    AddressHandle, CompletionQueue, ProtectionDomain, QueuePairBuilder, SendBatch,
    SharedReceiveQueue,
};

impl ProtectionDomain {
    /// `mlx5dv_create_qp` with `MLX5DV_DCTYPE_DCI`—returns a builder for a DC initiator, which
    /// sends to DC targets. mlx5 devices only.
    ///
    /// [`activate`](crate::PreparedQueuePair::activate) makes it ready; each request names its
    /// target ([`push_dc`](SendBatch::push_dc)).
    ///
    /// ```no_run
    /// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue, srq: uverbs::SharedReceiveQueue)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::SendRequest;
    ///
    /// let initiator = pd.dc_initiator(&cq).max_inline_data(64).build()?;
    /// let target = pd.dc_target(&srq, &cq, 0xfeed).build()?;
    /// let path = initiator.path_to(&target.endpoint())?;
    /// let target = target.activate()?;
    /// let mut initiator = initiator.activate()?;
    ///
    /// let address = pd.create_ah(&path)?;
    /// let mut batch = initiator.send_batch();
    /// let bytes: [&[u8]; 1] = [b"hello"];
    /// // SAFETY: inline data is copied; no memory is named.
    /// unsafe { batch.push_dc(&SendRequest::send_inline(&bytes), &address.to_dc_target(target.qp_num(), 0xfeed)) }?;
    /// batch.submit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "mlx5dv_create_qp")]
    #[doc(alias = "MLX5DV_DCTYPE_DCI")]
    pub fn dc_initiator<'a>(
        &'a self,
        cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, DcInitiator> {
        QueuePairBuilder::new(self, DcInitiator, cq, cq)
            .with_extra(QpExtra::dc_initiator())
            .with_after(After::Activate { sends: true })
    }

    /// `mlx5dv_create_qp` with `MLX5DV_DCTYPE_DCT`—returns a builder for a DC target, which
    /// receives through `srq` what initiators that know `access_key` send. mlx5 devices only.
    /// Receives complete in `cq`.
    ///
    /// It has a number once it is [activated](crate::PreparedQueuePair::activate). It accepts
    /// remote writes, reads and atomics if its [`access`](QueuePairBuilder::access) allows them.
    #[doc(alias = "mlx5dv_create_qp")]
    #[doc(alias = "MLX5DV_DCTYPE_DCT")]
    pub fn dc_target<'a>(
        &'a self,
        srq: &'a SharedReceiveQueue,
        cq: &'a CompletionQueue,
        access_key: u64,
    ) -> QueuePairBuilder<'a, DcTarget> {
        QueuePairBuilder::new(self, DcTarget, cq, cq)
            .with_extra(QpExtra::dc_target(access_key))
            .with_after(After::Activate { sends: false })
            .srq(srq)
    }
}

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// `mlx5dv_dci_streams`—gives a DC initiator streams: a failure in one does not stop the
    /// others. Each request says which one it is in ([`DcDestination::in_stream`]). Default: one
    /// stream, number 0.
    ///
    /// Building fails with [`LimitExceeded`](crate::ErrorKind::LimitExceeded) where the device has
    /// fewer ([`Caps::max_log_dci_streams`](crate::mlx5::caps::Caps), 0 for none). Ignored for
    /// other queue pairs.
    #[doc(alias = "mlx5dv_dci_streams")]
    #[doc(alias = "MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS")]
    pub fn dci_streams(self, streams: Streams) -> Self
    where
        T: NamesTarget,
    {
        match self.extra::<QpExtra>().cloned() {
            Some(extra) => self.with_extra(extra.with_streams(streams)),
            None => self,
        }
    }
}

impl AddressHandle {
    /// A DC target at the end of this path, with the key that it was created with. Requests to it
    /// are in the initiator's first stream, unless [`in_stream`](DcDestination::in_stream) names
    /// another.
    pub fn to_dc_target(&self, number: u32, access_key: u64) -> DcDestination<'_> {
        DcDestination {
            address: self.words(),
            number,
            access_key,
            stream: 0,
        }
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// Puts a request of a DC initiator into the ring. No system call.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type;
    /// [`PostError::NoSuchStream`].
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[doc(alias = "mlx5dv_wr_set_dc_addr")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    #[inline]
    pub unsafe fn push_dc(
        &mut self,
        request: &SendRequest<'_>,
        to: &DcDestination<'_>,
    ) -> Result<(), PostError>
    where
        T: NamesTarget,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_dc(request, to) }
    }
}
