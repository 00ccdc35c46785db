//! Datagrams.

use uverbs_core::PostError;
use uverbs_core::types::{Payload, SendRequest};

use super::SendRing;
use super::shape::Shape;
use super::usual::Spot;
use crate::wqe;

/// Blocks of a datagram with one entry.
const BLOCKS: u32 = 2;

impl SendRing {
    /// Puts datagrams and submits them, like [`post`](Self::post).
    #[inline]
    pub(crate) fn post_datagrams(
        &mut self,
        requests: &[SendRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        self.abort();
        for (posted, request) in requests.iter().enumerate() {
            if let Err(error) = self.put_datagram(request) {
                return self.stop(posted, error);
            }
        }
        self.submit().map_err(|error| (0, error))
    }

    /// Puts a datagram. Sends of one entry are written here; others go the way of any request.
    #[inline]
    pub(crate) fn put_datagram(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let to = request.destination.ok_or(PostError::InvalidRequest)?;
        let key = wqe::ud_key(to.qkey);
        let number = to.checked_qp_num()?;
        let route = wqe::datagram(to.address.vector(), key, number);
        let spot = Spot {
            is_free: !self.is_full() && self.end.flags == self.always,
            ..self.spot()
        };
        if let Payload::Gather([sge]) = request.payload
            && let Some(shape) = Shape::of(&request.operation)
            && shape.remote.is_none()
            && spot.is_free
            && self.fork.is_current()
            && self.gathered.contains(shape.needs)
            && shape.takes(sge)
        {
            let head = self.write_gather(
                (spot, self.common),
                &shape,
                route,
                request.wr_id,
                request.flags,
                sge,
            );
            self.go_on(BLOCKS, head);
            return Ok(());
        }
        self.put_behind(request, &route)
    }
}
