//! `ibv_create_qp_ex`.

use uverbs_core::contract::Extra;
use uverbs_core::types::{DeviceCaps, QpType};

use crate::abi::{ibv_qp, ibv_qp_init_attr_ex};
use crate::answer::{Answer, pointer};
use crate::context::Context;
use crate::dv::{self, Xrcd};
use crate::errno::Code;
use crate::pointer::{Handle, Out};
use crate::qp::{Qp, Vendor, Wanted, caps_to_c};

/// Bits of `comp_mask`.
const HAS_PD: u32 = 1;
const HAS_DOMAIN: u32 = 2;
const HAS_FLAGS: u32 = 1 << 2;
const HAS_HEADERS: u32 = 1 << 3;
const HAS_TABLE: u32 = 1 << 4;
const HAS_HASH: u32 = 1 << 5;
const HAS_OPERATIONS: u32 = 1 << 6;
const KNOWN: u32 = (1 << 7) - 1;
/// What a queue pair over a table of work queues is created with.
const SPREADS: u32 = HAS_PD | HAS_TABLE | HAS_HASH;

/// Operations that are composed; segmentation offload is for raw packets.
const COMPOSED: u64 = ((1 << 13) - 1) & !SEGMENTS;
const SEGMENTS: u64 = 1 << 10;
const FLUSH: u64 = 1 << 11;
const ATOMIC_WRITE: u64 = 1 << 12;

/// The operations among these that a device has.
fn composed(context: &Context, kind: QpType) -> u64 {
    let caps = context.provider().base().device.caps;
    let mut lacking = 0;
    if !caps.intersects(DeviceCaps::FLUSH_GLOBAL | DeviceCaps::FLUSH_PERSISTENT) {
        lacking |= FLUSH;
    }
    if !caps.contains(DeviceCaps::ATOMIC_WRITE) {
        lacking |= ATOMIC_WRITE;
    }
    let more = match kind {
        QpType::RawPacket => SEGMENTS,
        _ => 0,
    };
    COMPOSED & !lacking | more
}

/// The slot.
pub(crate) extern "C" fn create_qp_ex(
    context: Handle<Context>,
    attr: Out<ibv_qp_init_attr_ex>,
) -> *mut ibv_qp {
    pointer(|| Qp::create_extended(context, attr.get()?, &Vendor::none()))
}

impl Qp {
    /// Creates one of any kind.
    pub(crate) fn create_extended(
        context: Handle<Context>,
        attr: &mut ibv_qp_init_attr_ex,
        vendor: &Vendor<'_>,
    ) -> Answer<*mut ibv_qp> {
        let mask = attr.comp_mask;
        let has = |bits| mask & bits == bits;
        if mask & !KNOWN != 0 {
            return Err(Code::INVALID);
        }
        let kind = QpType::from_raw(attr.qp_type);
        if kind == QpType::XrcTarget {
            if !has(HAS_DOMAIN) || vendor.extra.is_some() {
                return Err(Code::INVALID);
            }
            let domain = Handle::of(attr.xrcd);
            return Self::target(domain, attr.qp_context, Xrcd::create_target);
        }
        if mask & (HAS_PD | HAS_DOMAIN) != HAS_PD {
            return Err(Code::INVALID);
        }
        let flags = if has(HAS_FLAGS) { attr.create_flags } else { 0 };
        if has(HAS_TABLE) || has(HAS_HASH) {
            if !has(SPREADS) || has(HAS_OPERATIONS) || has(HAS_HEADERS) {
                return Err(Code::INVALID);
            }
            if kind != QpType::RawPacket || flags != 0 || vendor.extra.is_some() {
                return Err(Code::UNSUPPORTED);
            }
            return dv::create_spreading(attr);
        }
        let operations = has(HAS_OPERATIONS).then_some(attr.send_ops_flags);
        let composed = composed(context.get()?, kind);
        if operations.is_some_and(|operations| operations & !composed != 0) {
            return Err(Code::UNSUPPORTED);
        }
        let headers = if has(HAS_HEADERS) && attr.max_tso_header != 0 {
            if vendor.extra.is_some() || kind != QpType::RawPacket {
                return Err(Code::UNSUPPORTED);
            }
            Some(dv::with_headers(context, attr.max_tso_header)?)
        } else {
            None
        };
        let headers = headers.as_ref().map(|extra| extra as &dyn Extra);
        let wanted = Wanted {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            kind: attr.qp_type,
            all_signaled: attr.sq_sig_all != 0,
            flags,
            operations,
            vendor: Vendor {
                extra: vendor.extra.or(headers),
                functions: vendor.functions,
            },
        };
        let (qp, granted) = Self::create(Handle::of(attr.pd), &wanted)?;
        attr.cap = caps_to_c(&granted);
        Ok(qp)
    }
}
