//! Sending on queue pairs that need more than a request: extended and dynamic connections, Ethernet.

use uverbs_driver::PostError;
use uverbs_driver::types::{Address, QpType, SendRequest};

use super::{QueuePair, Role};
use crate::raw::Frame;
use crate::wqe;

/// The receiving end of a dynamic connection.
#[derive(Clone, Copy, Debug)]
pub struct DcDestination<'a> {
    /// The path.
    pub address: &'a Address,
    /// The target's number.
    pub number: u32,
    /// The target's access key.
    pub access_key: u64,
}

impl QueuePair {
    /// Puts a request on a queue pair that is neither of a plain connection nor for datagrams.
    pub(super) fn put_special(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let ring = self.send.as_mut().ok_or(PostError::UnsupportedOperation)?;
        match &self.ethernet {
            Some(ethernet) => ring.put_ethernet(ethernet, request),
            // Where the request goes is said by the functions below.
            None => Err(PostError::InvalidRequest),
        }
    }

    /// Puts a request on an XRC initiator, for the peer's shared receive queue `srq`; its number matters for sends and for
    /// writes with an immediate value.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other queue pairs.
    ///
    /// # Safety
    /// As `put_send`.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_xrc(&mut self, request: &SendRequest<'_>, srq: u32) -> Result<(), PostError> {
        if self.kind != QpType::XrcInitiator {
            return Err(PostError::UnsupportedOperation);
        }
        self.send_ring()?.put_routed(request, &[wqe::xrc(srq)])
    }

    /// Puts a request on a DC initiator.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other queue pairs.
    ///
    /// # Safety
    /// As `put_send`.
    #[doc(alias = "mlx5dv_wr_set_dc_addr")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_dc(
        &mut self,
        request: &SendRequest<'_>,
        to: &DcDestination<'_>,
    ) -> Result<(), PostError> {
        if self.role != Role::Initiator {
            return Err(PostError::UnsupportedOperation);
        }
        let route = wqe::datagram(&to.address.vector, to.access_key, to.number);
        self.send_ring()?.put_routed(request, &route)
    }

    /// Puts a frame whose header is apart, or one that the device cuts into many.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other than raw packet queue pairs.
    ///
    /// # Safety
    /// As `put_send`.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_frame(&mut self, frame: &Frame<'_>) -> Result<(), PostError> {
        let ring = self.send.as_mut().ok_or(PostError::UnsupportedOperation)?;
        let ethernet = self
            .ethernet
            .as_ref()
            .ok_or(PostError::UnsupportedOperation)?;
        ring.put_frame(ethernet, frame)
    }
}
