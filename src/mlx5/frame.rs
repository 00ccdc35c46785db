//! Raw packet queue pairs: Ethernet frames, as they are on the wire.

use uverbs_core::{PostError, Result};
use uverbs_mlx5::{Frame, QpExtra};

use crate::{QueuePairBuilder, SendBatch, SendRequest};

impl QueuePairBuilder<'_> {
    /// Makes room for `bytes` of header in each request of a raw packet queue pair, as segmentation
    /// needs. Default: 0. mlx5 devices only.
    ///
    /// Building fails with [`InvalidInput`](crate::ErrorKind::InvalidInput) for queue pairs of
    /// another type.
    #[doc(alias = "IBV_QP_INIT_ATTR_MAX_TSO_HEADER")]
    pub fn max_tso_header(self, bytes: u16) -> Self {
        let extra = self.extra::<QpExtra>().cloned().unwrap_or_default();
        self.with_extra(extra.with_headers(bytes))
    }
}

impl SendBatch<'_> {
    /// Puts a frame that lies in registered memory as a whole into the ring of a raw packet queue
    /// pair. No system call.
    ///
    /// Some devices (ConnectX-4, virtual functions of some others) want the first 18 bytes of each
    /// frame in the request itself. There, [`push`](Self::push) refuses pieces
    /// ([`UnsupportedOperation`](PostError::UnsupportedOperation)), because the address in a piece
    /// need not be one of this process's. This method copies these bytes from where the pieces are.
    /// For mlx5 devices that want none, and for inline frames, it is `push`.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device; [`PostError::InvalidRequest`] for a frame that is shorter than what the device
    /// wants.
    ///
    /// # Safety
    /// As [`push`](Self::push). And the first 18 bytes of the pieces, or all where there are fewer,
    /// are memory of this process at the addresses that the pieces name: no piece there is of a
    /// region with addresses of its own (`iova`), of device memory, or imported. Nothing writes to
    /// them before this returns, no peer either.
    #[doc(alias = "ibv_post_send")]
    #[expect(unsafe_code, reason = "names memory that is read now and by a device")]
    pub unsafe fn push_packet(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller's promise is the one that the provider asks for.
        unsafe { qp.put_packet(request) }
    }

    /// Puts a frame whose header is apart, or one that the device cuts into many, into the ring of
    /// a raw packet queue pair. No system call.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device, and for segmentation or checksums that the device does not have;
    /// [`PostError::InlineTooLong`] for a header longer than [there is room
    /// for](QueuePairBuilder::max_tso_header); [`PostError::InvalidRequest`] for an empty frame, or
    /// a header that is shorter than what the device wants in the request.
    ///
    /// # Safety
    /// As [`push`](Self::push), for the pieces of [`Frame::rest`].
    #[doc(alias = "IBV_WR_TSO")]
    #[doc(alias = "ibv_wr_send_tso")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_frame(&mut self, frame: &Frame<'_>) -> Result<(), PostError> {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller's promise is the one that the provider asks for.
        unsafe { qp.put_frame(frame) }
    }
}
