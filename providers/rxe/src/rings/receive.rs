//! Receive requests.

use uverbs_core::rings::Fields;
use uverbs_uapi::rdma_user_rxe::rxe_recv_wqe;
use zerocopy::FromBytes;

/// Decodes a receive request.
pub(super) fn fields(bytes: &[u8]) -> Fields {
    let mut fields = Fields::of(Some("RECEIVE"));
    let Ok((request, rest)) = rxe_recv_wqe::read_from_prefix(bytes) else {
        fields.rest(bytes);
        return fields;
    };
    fields.hex("wr_id", request.wr_id);
    fields.number("total", request.dma.length);
    fields.number("sges", request.dma.num_sge);
    super::add_sges(&mut fields, rest, request.dma.num_sge);
    fields
}
