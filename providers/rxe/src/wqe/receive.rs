//! Receive requests.

use uverbs_core::PostError;
use uverbs_core::hw::SharedRing;
use uverbs_core::types::{RecvRequest, Sge};
use uverbs_uapi::rdma_user_rxe::{rxe_recv_wqe, rxe_sge};
use zerocopy::{Immutable, IntoBytes};

use super::{RECV_WORDS, dma, put_sges, sge};

/// A receive request with one entry, as most have.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct ReceiveOfOne(rxe_recv_wqe, rxe_sge);

/// Writes a receive request into slot `index`.
#[inline]
pub(crate) fn put_recv(
    ring: &SharedRing,
    index: u32,
    request: &RecvRequest<'_>,
) -> Result<(), PostError> {
    let written = match request.scatter {
        [one] => put_recv_of_one(ring, index, request.wr_id, one),
        all => {
            let header = header(request.wr_id, total(all)?, all.len());
            ring.put(index, 0, &header) && put_sges(ring, index, RECV_WORDS, all)
        }
    };
    if written {
        Ok(())
    } else {
        Err(PostError::InvalidRequest)
    }
}

/// The same with one scatter/gather entry. False, and nothing is written, if that does not fit.
#[inline]
pub(crate) fn put_recv_of_one(ring: &SharedRing, index: u32, wr_id: u64, one: &Sge) -> bool {
    let header = header(wr_id, one.length, 1);
    ring.put(index, 0, &ReceiveOfOne(header, sge(one)))
}

#[inline]
fn header(wr_id: u64, length: u32, sges: usize) -> rxe_recv_wqe {
    rxe_recv_wqe {
        wr_id,
        dma: dma(length, sges),
        ..rxe_recv_wqe::default()
    }
}

/// The total length of the scatter/gather entries, which the device counts with 32 bits.
fn total(sges: &[Sge]) -> Result<u32, PostError> {
    let requested = sges.iter().map(|sge| u64::from(sge.length)).sum();
    u32::try_from(requested).map_err(|_| PostError::MessageTooLong {
        requested,
        max: u32::MAX.into(),
    })
}
