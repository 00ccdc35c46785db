//! Raw packet queue pairs: Ethernet frames, as they are on the wire.

use uverbs_core::{PostError, Result};
use uverbs_mlx5::{Frame, QpExtra};

use crate::transport::{Frames, Transport};
use crate::{QueuePairBuilder, SendBatch, SendRequest};

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// Reserves `bytes` for a header in each request of a raw packet queue pair, which segmentation
    /// needs. Default: 0. mlx5 devices only.
    ///
    /// Building fails with [`InvalidInput`](crate::ErrorKind::InvalidInput) for queue pairs of
    /// another type.
    #[doc(alias = "IBV_QP_INIT_ATTR_MAX_TSO_HEADER")]
    pub fn max_tso_header(self, bytes: u16) -> Self
    where
        T: Frames,
    {
        let extra = self.extra::<QpExtra>().cloned().unwrap_or_default();
        self.with_extra(extra.with_headers(bytes))
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// Puts a frame that lies entirely in registered memory into the ring of a raw packet queue
    /// pair. No system call.
    ///
    /// Some devices (ConnectX-4, virtual functions of some others) require the first 18 bytes of
    /// each frame in the request itself. There, [`push`](Self::push) refuses scatter/gather entries
    /// ([`UnsupportedOperation`](PostError::UnsupportedOperation)), because the address in an entry
    /// need not be an address of this process. This method copies these bytes from the memory that
    /// the entries name. For mlx5 devices that require none, and for inline frames, it is the same
    /// as `push`.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device; [`PostError::InvalidRequest`] for a frame that is shorter than what the device
    /// requires.
    ///
    /// # Safety
    /// As [`push`](Self::push). In addition, the first 18 bytes of the scatter/gather entries, or
    /// all if there are fewer, are memory of this process at the addresses that the entries name:
    /// none of these entries is of a region with addresses of its own (`iova`), of device memory,
    /// or of imported memory. Nothing, not even a peer, writes to them before this returns.
    #[doc(alias = "ibv_post_send")]
    #[expect(unsafe_code, reason = "names memory that is read now and by a device")]
    pub unsafe fn push_packet(&mut self, request: &SendRequest<'_>) -> Result<(), PostError>
    where
        T: Frames,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_packet(request) }
    }

    /// Puts a frame whose header is separate, or one that the device cuts into segments, into the
    /// ring of a raw packet queue pair. No system call.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device, and for segmentation or checksums that the device does not have;
    /// [`PostError::InlineTooLong`] for a header longer than [there is room
    /// for](QueuePairBuilder::max_tso_header); [`PostError::InvalidRequest`] for an empty frame, or
    /// a header that is shorter than what the device requires in the request.
    ///
    /// # Safety
    /// As [`push`](Self::push), for the scatter/gather entries of [`Frame::rest`].
    #[doc(alias = "IBV_WR_TSO")]
    #[doc(alias = "ibv_wr_send_tso")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_frame(&mut self, frame: &Frame<'_>) -> Result<(), PostError>
    where
        T: Frames,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_frame(frame) }
    }
}
