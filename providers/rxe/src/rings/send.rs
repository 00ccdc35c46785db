//! Send requests.

use uverbs_core::rings::Fields;
use uverbs_core::types::SendFlags;
use uverbs_uapi::ib_user_verbs::{
    IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, IB_UVERBS_WR_ATOMIC_WRITE,
    IB_UVERBS_WR_BIND_MW, IB_UVERBS_WR_FLUSH, IB_UVERBS_WR_LOCAL_INV, IB_UVERBS_WR_RDMA_READ,
    IB_UVERBS_WR_RDMA_WRITE, IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, IB_UVERBS_WR_SEND,
    IB_UVERBS_WR_SEND_WITH_IMM, IB_UVERBS_WR_SEND_WITH_INV,
};
use uverbs_uapi::rdma_user_rxe::{rxe_send_wqe, rxe_send_wr};
use zerocopy::FromBytes;

use crate::wqe::SEND_INLINE;

/// Decodes a send request. `datagrams`: messages of this queue pair are datagrams.
pub(super) fn fields(bytes: &[u8], datagrams: bool) -> Fields {
    let Ok((request, rest)) = rxe_send_wqe::read_from_prefix(bytes) else {
        let mut fields = Fields::of(None);
        fields.rest(bytes);
        return fields;
    };
    let wr = request.wr;
    let mut fields = Fields::of(name(wr.opcode));
    if fields.is_unknown() {
        fields.hex("opcode", wr.opcode);
    }
    fields.hex("wr_id", wr.wr_id);
    fields.flags("flags", wr.send_flags, &FLAGS);
    operands(&mut fields, &wr, datagrams);
    fields.number("total", request.dma.length);
    payload(&mut fields, &request, rest);
    fields
}

const FLAGS: [(u32, &str); 4] = [
    (SendFlags::FENCE.bits(), "fence"),
    (SendFlags::SIGNALED.bits(), "signaled"),
    (SendFlags::SOLICITED.bits(), "solicited"),
    (SEND_INLINE, "inline"),
];

/// The name of an operation (`IB_WR_*`).
const fn name(opcode: u32) -> Option<&'static str> {
    Some(match opcode {
        IB_UVERBS_WR_RDMA_WRITE => "RDMA_WRITE",
        IB_UVERBS_WR_RDMA_WRITE_WITH_IMM => "RDMA_WRITE_WITH_IMM",
        IB_UVERBS_WR_SEND => "SEND",
        IB_UVERBS_WR_SEND_WITH_IMM => "SEND_WITH_IMM",
        IB_UVERBS_WR_RDMA_READ => "RDMA_READ",
        IB_UVERBS_WR_ATOMIC_CMP_AND_SWP => "ATOMIC_CMP_AND_SWP",
        IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD => "ATOMIC_FETCH_AND_ADD",
        IB_UVERBS_WR_LOCAL_INV => "LOCAL_INV",
        IB_UVERBS_WR_BIND_MW => "BIND_MW",
        IB_UVERBS_WR_SEND_WITH_INV => "SEND_WITH_INV",
        IB_UVERBS_WR_FLUSH => "FLUSH",
        IB_UVERBS_WR_ATOMIC_WRITE => "ATOMIC_WRITE",
        _ => return None,
    })
}

/// Adds the operands of the operation besides its data.
fn operands(fields: &mut Fields, wr: &rxe_send_wr, datagrams: bool) {
    match wr.opcode {
        IB_UVERBS_WR_SEND_WITH_IMM | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM => {
            fields.hex("immediate", wr.ex.imm_data().get());
        }
        IB_UVERBS_WR_SEND_WITH_INV | IB_UVERBS_WR_LOCAL_INV => {
            fields.key("invalidate", wr.ex.invalidate_rkey());
        }
        _ => {}
    }
    match wr.opcode {
        IB_UVERBS_WR_SEND | IB_UVERBS_WR_SEND_WITH_IMM if datagrams => destination(fields, wr),
        IB_UVERBS_WR_RDMA_WRITE
        | IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
        | IB_UVERBS_WR_RDMA_READ
        | IB_UVERBS_WR_ATOMIC_WRITE => {
            let rdma = wr.wr.rdma();
            remote(fields, rdma.remote_addr, rdma.rkey);
        }
        IB_UVERBS_WR_ATOMIC_CMP_AND_SWP => {
            let atomic = wr.wr.atomic();
            remote(fields, atomic.remote_addr, atomic.rkey);
            fields.hex("compare", atomic.compare_add);
            fields.hex("swap", atomic.swap);
        }
        IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD => {
            let atomic = wr.wr.atomic();
            remote(fields, atomic.remote_addr, atomic.rkey);
            fields.hex("add", atomic.compare_add);
        }
        IB_UVERBS_WR_FLUSH => {
            let flush = wr.wr.flush();
            remote(fields, flush.remote_addr, flush.rkey);
            fields.number("flushed", flush.length);
            fields.hex("placement", flush.r#type);
            fields.number("level", flush.level);
        }
        IB_UVERBS_WR_BIND_MW => window(fields, wr),
        _ => {}
    }
}

fn remote(fields: &mut Fields, address: u64, key: u32) {
    fields.hex("remote_address", address);
    fields.key("rkey", key);
}

fn window(fields: &mut Fields, wr: &rxe_send_wr) {
    let window = wr.wr.mw();
    fields.hex("start", window.addr);
    fields.number("window_length", window.length);
    fields.key("region_key", window.mr_lkey);
    fields.key("window_key", window.mw_rkey);
    fields.key("new_key", window.rkey);
    fields.hex("access", window.access);
}

fn destination(fields: &mut Fields, wr: &rxe_send_wr) {
    let to = wr.wr.ud();
    fields.hex("remote_qpn", to.remote_qpn);
    fields.key("qkey", to.remote_qkey);
    fields.number("pkey_index", to.pkey_index);
    fields.number("address_handle", to.ah_num);
}

/// Adds inline data or scatter/gather entries. `rest`: the bytes after the header.
fn payload(fields: &mut Fields, request: &rxe_send_wqe, rest: &[u8]) {
    let length = usize::try_from(request.dma.length).unwrap_or(usize::MAX);
    let value = rest.get(..length).unwrap_or(rest);
    match request.wr.opcode {
        IB_UVERBS_WR_ATOMIC_WRITE => fields.bytes("value", value),
        IB_UVERBS_WR_FLUSH => {}
        _ if request.wr.send_flags & SEND_INLINE != 0 => fields.bytes("inline", value),
        _ => super::add_sges(fields, rest, request.dma.num_sge),
    }
}
