//! `mlx5dv_create_qp` and `mlx5dv_create_cq`: queues with what only this vendor has, and requests
//! on dynamic connections.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ptr::null_mut;

use uverbs_core::types::QpType;
use uverbs_mlx5::{Entries, EntrySize, QpExtra, Results, Streams};

use super::abi::{mlx5dv_cq_init_attr, mlx5dv_qp_ex, mlx5dv_qp_init_attr};
use super::changes;
use super::encryption;
use super::own;
use super::signatures;
use super::to::{Target, To};
use crate::abi::{
    Slot, ibv_ah, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_qp, ibv_qp_ex, ibv_qp_init_attr_ex,
};
use crate::answer::{Answer, pointer};
use crate::context::Context;
use crate::env;
use crate::errno::Code;
use crate::extended;
use crate::pointer::{Handle, In, Object, Out};
use crate::qp::{Qp, Vendor};

/// A queue pair, as functions of `mlx5dv_qp_ex` get it.
#[repr(transparent)]
pub(super) struct Extended(Qp);

impl Object for Extended {
    type C = mlx5dv_qp_ex;
    const OFFSET: usize = std::mem::offset_of!(Qp, vendor);
}

impl Extended {
    /// The queue pair.
    pub(super) fn queue_pair(&self) -> &Qp {
        &self.0
    }
}

/// The functions that the header calls of a queue pair that was created without the vendor's
/// operations: keys, copies by the device and raw requests are refused when they are begun.
pub(crate) fn slots() -> mlx5dv_qp_ex {
    mlx5dv_qp_ex {
        comp_mask: 0,
        wr_set_dc_addr: set_dc_addr as Slot,
        wr_mr_interleaved: refuse as Slot,
        wr_mr_list: refuse as Slot,
        wr_mkey_configure: refuse as Slot,
        wr_set_mkey_access_flags: refuse as Slot,
        wr_set_mkey_layout_list: refuse as Slot,
        wr_set_mkey_layout_interleaved: refuse as Slot,
        wr_set_mkey_sig_block: refuse as Slot,
        wr_raw_wqe: refuse as Slot,
        wr_set_dc_addr_stream: set_dc_addr_of_any_stream as Slot,
        wr_memcpy: refuse as Slot,
        wr_set_mkey_crypto: refuse as Slot,
    }
}

/// Those of an initiator with streams, and of one created with the vendor's operations, which can
/// change keys if it is a reliable connection.
fn slots_with(streams: bool, operations: u64, kind: QpType) -> mlx5dv_qp_ex {
    let mut slots = slots();
    if streams {
        slots.wr_set_dc_addr_stream = set_dc_addr_stream as Slot;
    }
    if operations != 0 {
        slots.wr_raw_wqe = changes::raw_wqe as Slot;
        slots.wr_memcpy = changes::copy as Slot;
    }
    if operations != 0 && kind == QpType::Rc {
        slots.wr_mr_interleaved = changes::map_interleaved as Slot;
        slots.wr_mr_list = changes::map_list as Slot;
        slots.wr_mkey_configure = changes::configure as Slot;
        slots.wr_set_mkey_access_flags = changes::set_access_flags as Slot;
        slots.wr_set_mkey_layout_list = changes::set_layout_list as Slot;
        slots.wr_set_mkey_layout_interleaved = changes::set_layout_interleaved as Slot;
        slots.wr_set_mkey_sig_block = signatures::set_sig_block as Slot;
        slots.wr_set_mkey_crypto = encryption::set_crypto as Slot;
    }
    slots
}

extern "C" fn refuse(qp: Handle<Extended>) {
    if let Ok(own) = qp.get() {
        own.0.compose(|batch| batch.fail(Code::UNSUPPORTED));
    }
}

extern "C" fn set_dc_addr(qp: Handle<Extended>, ah: *mut ibv_ah, number: u32, key: u64) {
    set_dc_addr_stream(qp, ah, number, key, 0);
}

/// An initiator without streams has one, whichever is named: perftest counts them up without end.
extern "C" fn set_dc_addr_of_any_stream(
    qp: Handle<Extended>,
    ah: *mut ibv_ah,
    number: u32,
    key: u64,
    _stream: u16,
) {
    set_dc_addr(qp, ah, number, key);
}

extern "C" fn set_dc_addr_stream(
    qp: Handle<Extended>,
    ah: *mut ibv_ah,
    number: u32,
    access_key: u64,
    stream: u16,
) {
    let to = To::Target(Target {
        path: Handle::of(ah),
        number,
        access_key,
        stream,
    });
    if let Ok(own) = qp.get() {
        own.0.compose(|batch| batch.send_to(&own.0, to));
    }
}

/// NULL for a queue pair that was not created with a set of operations.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_qp_ex_from_ibv_qp_ex(qp: *mut ibv_qp_ex) -> *mut mlx5dv_qp_ex {
    let whole = Handle::<Qp>::of(qp.cast());
    match whole.get() {
        Ok(own) if own.is_extended => Extended::to_c(whole.raw().cast()),
        _ => null_mut(),
    }
}

/// Bits of `comp_mask` of `mlx5dv_qp_init_attr`.
const HAS_FLAGS: u64 = 1;
const HAS_KIND: u64 = 2;
const HAS_OPERATIONS: u64 = 4;
const HAS_STREAMS: u64 = 8;
/// `MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE` and `…_ALLOW_…`: nothing is scattered either way.
const SCATTERING: u32 = 1 << 3 | 1 << 4;
/// `MLX5DV_QP_CREATE_SIG_PIPELINING`.
const STOPS: u32 = 1 << 6;
/// `enum mlx5dv_dc_type`.
const TARGET: u32 = 1;
const INITIATOR: u32 = 2;
/// `MLX5DV_QP_EX_WITH_…`: keys by an older or newer function, raw requests, and copies by the
/// device.
const CHANGES_KEYS: u64 = 0b0111;
const RAW: u64 = 0b1000;
const COPIES: u64 = 0b1_0000;

/// The vendor's operations that a queue pair is created with.
fn operations(attr: &mlx5dv_qp_init_attr, kind: QpType) -> Answer<u64> {
    if attr.comp_mask & HAS_OPERATIONS == 0 {
        return Ok(0);
    }
    let known = match kind {
        QpType::Rc => CHANGES_KEYS | RAW | COPIES,
        QpType::Driver => RAW | COPIES,
        _ => RAW,
    };
    match attr.send_ops_flags & !known {
        0 => Ok(attr.send_ops_flags),
        _ => Err(Code::UNSUPPORTED),
    }
}

fn flags(attr: &mlx5dv_qp_init_attr) -> u32 {
    if attr.comp_mask & HAS_FLAGS == 0 {
        0
    } else {
        attr.create_flags
    }
}

/// What the vendor's attributes ask for.
fn wanted(attr: &mlx5dv_qp_init_attr) -> Answer<Option<QpExtra>> {
    let mask = attr.comp_mask;
    if mask & !(HAS_FLAGS | HAS_KIND | HAS_OPERATIONS | HAS_STREAMS) != 0 {
        return Err(Code::INVALID);
    }
    if flags(attr) & !(SCATTERING | STOPS) != 0 {
        return Err(Code::UNSUPPORTED);
    }
    if mask & HAS_KIND == 0 {
        return Ok(None);
    }
    let dynamic = &attr.dc_init_attr;
    match dynamic.dc_type {
        TARGET => Ok(Some(QpExtra::dc_target(dynamic.dct_access_key))),
        INITIATOR if mask & HAS_STREAMS == 0 => Ok(Some(QpExtra::dc_initiator())),
        INITIATOR => {
            // The first two bytes of the union.
            let [log_concurrent, log_errored, ..] = dynamic.dct_access_key.to_ne_bytes();
            Ok(Some(QpExtra::dc_initiator().with_streams(Streams {
                log_concurrent,
                log_errored,
            })))
        }
        _ => Err(Code::INVALID),
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_qp(
    context: Handle<Context>,
    attr: Out<ibv_qp_init_attr_ex>,
    vendor: In<mlx5dv_qp_init_attr>,
) -> *mut ibv_qp {
    pointer(|| {
        own(context.get()?)?;
        let attr = attr.get()?;
        let kind = QpType::from_raw(attr.qp_type);
        let (extra, functions) = match vendor.get() {
            Ok(vendor) => {
                let streams = vendor.comp_mask & HAS_STREAMS != 0;
                let operations = operations(vendor, kind)?;
                let mut extra = wanted(vendor)?;
                if operations & COPIES != 0 {
                    extra = Some(extra.unwrap_or_default().with_copies());
                }
                if flags(vendor) & STOPS != 0 {
                    extra = Some(extra.unwrap_or_default().stopping_at_wrong_signatures());
                }
                (extra, slots_with(streams, operations, kind))
            }
            Err(_) => (None, slots()),
        };
        let vendor = Vendor {
            extra: extra.as_ref().map(|extra| extra as _),
            functions,
        };
        Qp::create_extended(context, attr, &vendor)
    })
}

/// Bits of `comp_mask` of `mlx5dv_cq_init_attr`, and its flag.
const COMPRESSED: u64 = 1;
const HAS_CQ_FLAGS: u64 = 2;
const HAS_SIZE: u64 = 4;
const PADDED: u32 = 1;
/// Bytes of entries.
const SHORT: u16 = 64;
const LONG: u16 = 128;
/// `MLX5DV_CQE_RES_FORMAT_…`.
const HASH: u8 = 1;
const CHECKSUM: u8 = 2;
const CHECKSUM_AND_STRIDE: u8 = 4;

fn entries(attr: &mlx5dv_cq_init_attr) -> Answer<Entries> {
    let mask = attr.comp_mask;
    if mask & !(COMPRESSED | HAS_CQ_FLAGS | HAS_SIZE) != 0 {
        return Err(Code::INVALID);
    }
    let compressed = match attr.cqe_comp_res_format {
        _ if mask & COMPRESSED == 0 => None,
        HASH => Some(Results::Hash),
        CHECKSUM => Some(Results::Checksum),
        CHECKSUM_AND_STRIDE => Some(Results::ChecksumAndStride),
        _ => return Err(Code::UNSUPPORTED),
    };
    let flags = if mask & HAS_CQ_FLAGS == 0 {
        0
    } else {
        attr.flags
    };
    if flags & !PADDED != 0 {
        return Err(Code::INVALID);
    }
    let size = if mask & HAS_SIZE == 0 {
        env::entry_size().unwrap_or(SHORT)
    } else {
        attr.cqe_size
    };
    let size = match (size, flags) {
        (LONG, PADDED) => EntrySize::Padded,
        (LONG, _) => EntrySize::Long,
        (SHORT, 0) => EntrySize::Short,
        _ => return Err(Code::INVALID),
    };
    Ok(Entries { compressed, size })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_cq(
    context: Handle<Context>,
    attr: In<ibv_cq_init_attr_ex>,
    vendor: In<mlx5dv_cq_init_attr>,
) -> *mut ibv_cq_ex {
    pointer(|| {
        own(context.get()?)?;
        let entries = match vendor.get() {
            Ok(vendor) => entries(vendor)?,
            Err(_) => entries(&mlx5dv_cq_init_attr::default())?,
        };
        extended::create(context, attr.get()?, Some(&entries))
    })
}
