//! Messages of connected queue pairs, the most frequent requests: only the fields that the kernel
//! reads of them are written. What depends on the operation keeps what a former request left there.

use std::mem::offset_of;

use uverbs_core::PostError;
use uverbs_core::hw::SharedRing;
use uverbs_core::types::{Payload, SendRequest};
use uverbs_uapi::rdma_user_rxe::{rxe_dma_info, rxe_send_wqe, rxe_send_wr, rxe_sge};
use zerocopy::{Immutable, IntoBytes};

use super::{
    KNOWN, Limits, SEND_INLINE, SEND_WORDS, dma, gathered, put_inline, put_sges, sge, words_of,
};

/// The fields before those of the operation.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Front {
    wr_id: u64,
    reserved: u32,
    opcode: u32,
    send_flags: u32,
    /// The immediate value, big-endian.
    ex: u32,
}

/// The fields after those, of which the kernel sets what is zero here.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Back {
    status: u32,
    state: u32,
    iova: u64,
    mask: u32,
    first_psn: u32,
    last_psn: u32,
    ack_length: u32,
    ssn: u32,
    has_rd_atomic: u32,
    dma: rxe_dma_info,
}

/// The same and the entry behind it, where there is one alone.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct BackOfOne(Back, rxe_sge);

const BACK: u32 = words_of(offset_of!(rxe_send_wqe, status));

const _: () = {
    assert!(size_of::<Front>() == offset_of!(rxe_send_wr, wr));
    assert!(offset_of!(Front, opcode) == offset_of!(rxe_send_wr, opcode));
    assert!(offset_of!(Front, ex) == offset_of!(rxe_send_wr, ex));
    assert!(offset_of!(rxe_send_wqe, status) + size_of::<Back>() == size_of::<rxe_send_wqe>());
    let dma = offset_of!(rxe_send_wqe, dma) - offset_of!(rxe_send_wqe, status);
    assert!(offset_of!(Back, dma) == dma);
};

impl Back {
    #[inline]
    fn of(dma: rxe_dma_info) -> Self {
        Self {
            status: 0,
            state: 0,
            iova: 0,
            mask: 0,
            first_psn: 0,
            last_psn: 0,
            ack_length: 0,
            ssn: 0,
            has_rd_atomic: 0,
            dma,
        }
    }
}

#[inline]
pub(super) fn put(
    ring: &SharedRing,
    index: u32,
    limits: &Limits,
    request: &SendRequest<'_>,
    opcode: u32,
    ex: u32,
) -> Result<(), PostError> {
    let (inline, fits) = match request.payload {
        Payload::Gather(sges) => {
            let back = Back::of(dma(gathered(limits, sges)?, sges.len()));
            let fits = match sges {
                [one] => ring.put(index, BACK, &BackOfOne(back, sge(one))),
                all => put_sges(ring, index, SEND_WORDS, all) && ring.put(index, BACK, &back),
            };
            (0, fits)
        }
        Payload::Inline(parts) => {
            let length = put_inline(ring, index, parts, limits)?;
            let back = Back::of(dma(length, 0));
            (SEND_INLINE, ring.put(index, BACK, &back))
        }
        _ => return Err(PostError::UnsupportedOperation),
    };
    let front = Front {
        wr_id: request.wr_id,
        reserved: 0,
        opcode,
        send_flags: request.flags.bits() & KNOWN.bits() | inline,
        ex,
    };
    if fits && ring.put(index, 0, &front) {
        Ok(())
    } else {
        Err(PostError::InvalidRequest)
    }
}
