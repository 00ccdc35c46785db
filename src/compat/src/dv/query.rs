//! What these devices say about themselves beyond what others do.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_core::types::AtomicCap;
use uverbs_mlx5::devx::Devx;
use uverbs_mlx5::prm::{Field, GeneralCaps, Mailbox, bit, field};

use super::abi::{
    mlx5dv_context, mlx5dv_cqe_comp_caps, mlx5dv_dci_streams_caps, mlx5dv_reg,
    mlx5dv_striding_rq_caps, mlx5dv_sw_parsing_caps,
};
use super::{crypto, own, signatures};
use crate::abi::{ibv_device_attr_ex, ibv_packet_pacing_caps, ibv_pci_atomic_caps, ibv_tso_caps};
use crate::answer::{Answer, number};
use crate::context::Context;
use crate::pointer::{Handle, Out};

/// Groups of capabilities (`enum mlx5_cap_type`).
const GENERAL: u16 = 0;
const PAGING: u16 = 2;
const ATOMICS: u16 = 3;

/// A field of a group, in the reply.
const fn cap(field: Field) -> Field {
    field.at(16)
}

// Of the general group.
const LOG_READS_OF_DC: Field = cap(field(0x24, 21, 16));
const LOG_READS_AT_DC: Field = cap(field(0x24, 5, 0));
const LAG_PORTS: Field = cap(field(0x4c, 3, 0));
// Of atomic operations over PCI: sizes, one bit each.
const PCI_FETCH_ADD: Field = cap(field(0x50, 31, 16));
const PCI_SWAP: Field = cap(field(0x50, 15, 0));
const PCI_COMPARE_SWAP: Field = cap(field(0x54, 31, 16));
/// `IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP`.
const EIGHT_BYTES: u16 = 2;

/// On-demand paging of dynamic connections, in the order of `enum ibv_odp_transport_cap_bits`.
fn paging(reply: &Mailbox) -> u32 {
    (0..6).fold(0, |bits, at| {
        bits | reply.get(cap(bit(0x20, 31 - at))) << at
    })
}

/// A group; an empty one if the firmware does not answer, as for a device without it.
fn group(context: &Context, group: u16) -> Mailbox {
    let reply = Devx::new(context.file()).capabilities(group);
    reply.unwrap_or_else(|_| Mailbox::new(0))
}

/// Adds to the attributes of a device, if it is one of these.
pub(crate) fn add_to(context: &Context, attr: &mut ibv_device_attr_ex) {
    let Ok(own) = own(context) else { return };
    let caps = own.caps();
    attr.tso_caps = ibv_tso_caps {
        max_tso: caps.tso.max_payload,
        supported_qpts: caps.tso.qp_types.bits(),
    };
    attr.rss_caps.rx_hash_fields_mask = caps.rss_fields;
    attr.rss_caps.rx_hash_function = caps.rss_functions;
    attr.packet_pacing_caps = ibv_packet_pacing_caps {
        qp_rate_limit_min: caps.pacing.min_rate,
        qp_rate_limit_max: caps.pacing.max_rate,
        supported_qpts: caps.pacing.qp_types.bits(),
    };
    let sizes = group(context, ATOMICS);
    let sizes = |field| u16::try_from(sizes.get(field)).unwrap_or(0);
    let atomics = ibv_pci_atomic_caps {
        fetch_add: sizes(PCI_FETCH_ADD),
        swap: sizes(PCI_SWAP),
        compare_swap: sizes(PCI_COMPARE_SWAP),
    };
    // With both operations over PCI, they are atomic for the processor, too.
    if attr.orig_attr.atomic_cap == AtomicCap::Device.raw()
        && atomics.fetch_add & atomics.compare_swap & EIGHT_BYTES != 0
    {
        attr.orig_attr.atomic_cap = AtomicCap::Global.raw();
    }
    attr.pci_atomic_caps = atomics;
}

/// `enum mlx5dv_context_flags`.
mod flag {
    pub(super) const COMPLETIONS_V1: u64 = 1 << 0;
    pub(super) const MULTI_PACKET: u64 = 1 << 2;
    pub(super) const ENHANCED_MULTI_PACKET: u64 = 1 << 3;
    pub(super) const LONG_COMPRESSED: u64 = 1 << 4;
    pub(super) const PADDED: u64 = 1 << 5;
    pub(super) const PACKET_CREDITS: u64 = 1 << 6;
    pub(super) const REAL_TIME: u64 = 1 << 7;
    pub(super) const BLUEFLAME: u64 = 1 << 8;
}

/// `enum mlx5dv_context_comp_mask`: what can be answered.
mod mask {
    pub(super) const COMPRESSION: u64 = 1 << 0;
    pub(super) const PARSING: u64 = 1 << 1;
    pub(super) const STRIDING: u64 = 1 << 2;
    pub(super) const TUNNELS: u64 = 1 << 3;
    pub(super) const DOORBELLS: u64 = 1 << 4;
    pub(super) const CLOCK_UPDATE: u64 = 1 << 5;
    pub(super) const DC_PAGING: u64 = 1 << 7;
    pub(super) const LAG_PORTS: u64 = 1 << 9;
    pub(super) const SIGNATURES: u64 = 1 << 10;
    pub(super) const DCI_STREAMS: u64 = 1 << 11;
    pub(super) const COPIES: u64 = 1 << 12;
    pub(super) const CRYPTO: u64 = 1 << 13;
    pub(super) const DC_READS: u64 = 1 << 14;
    pub(super) const REGISTER_C0: u64 = 1 << 15;
}

/// `MLX5_IB_ALLOW_MPW` and `MLX5_IB_SUPPORT_EMPW`.
const MULTI_PACKET: u32 = 2;
const ENHANCED: u32 = 4;

fn flags(own: &uverbs_mlx5::Context) -> u64 {
    let caps = own.caps();
    let all = [
        (flag::COMPLETIONS_V1, own.completion_version() == 1),
        (flag::MULTI_PACKET, caps.multi_packet & MULTI_PACKET != 0),
        (
            flag::ENHANCED_MULTI_PACKET,
            caps.multi_packet & ENHANCED != 0,
        ),
        (flag::LONG_COMPRESSED, caps.long_compressed),
        (flag::PADDED, caps.padded_entries),
        (flag::PACKET_CREDITS, caps.packet_credits),
        (flag::REAL_TIME, own.has_real_time()),
        (flag::BLUEFLAME, own.has_blueflame()),
    ];
    let set = all.into_iter().filter(|(_, has)| *has);
    set.fold(0, |bits, (flag, _)| bits | flag)
}

/// Fills in what is wanted and there. Flow actions are not reported, because the functions for them
/// are not there; nor is the address of the clock.
fn fill(context: &Context, attr: &mut mlx5dv_context) -> Answer<()> {
    let own = own(context)?;
    let caps = own.caps();
    let wanted = attr.comp_mask;
    let mut given = 0;
    let mut offer = |bit: u64| {
        given |= wanted & bit;
        wanted & bit != 0
    };
    attr.version = 0;
    attr.flags = flags(own);
    if offer(mask::COMPRESSION) {
        attr.cqe_comp_caps = mlx5dv_cqe_comp_caps {
            max_num: caps.max_compressed,
            supported_format: caps.compressed_formats,
        };
    }
    if offer(mask::PARSING) {
        attr.sw_parsing_caps = mlx5dv_sw_parsing_caps {
            sw_parsing_offloads: caps.parsing.offloads,
            supported_qpts: caps.parsing.qp_types.bits(),
        };
    }
    if offer(mask::STRIDING) {
        attr.striding_rq_caps = mlx5dv_striding_rq_caps {
            min_single_stride_log_num_of_bytes: caps.striding.min_log_bytes,
            max_single_stride_log_num_of_bytes: caps.striding.max_log_bytes,
            min_single_wqe_log_num_of_strides: caps.striding.min_log_strides,
            max_single_wqe_log_num_of_strides: caps.striding.max_log_strides,
            supported_qpts: caps.striding.qp_types.bits(),
        };
    }
    if offer(mask::TUNNELS) {
        attr.tunnel_offloads_caps = caps.tunnels;
    }
    if offer(mask::DOORBELLS) {
        attr.max_dynamic_bfregs = own.extra_doorbells();
    }
    if offer(mask::DCI_STREAMS) {
        attr.dci_streams_caps = mlx5dv_dci_streams_caps {
            max_log_num_concurent: caps.max_log_dci_streams,
            max_log_num_errored: caps.max_log_dci_errored,
        };
    }
    if offer(mask::DC_PAGING) {
        attr.dc_odp_caps = paging(&group(context, PAGING));
    }
    if wanted & mask::CLOCK_UPDATE != 0
        && let Ok(info) = own.clock().and_then(|clock| clock.info())
    {
        attr.max_clock_info_update_nsec = info.overflow_period;
        offer(mask::CLOCK_UPDATE);
    }
    if caps.register_c0.mask != 0 && offer(mask::REGISTER_C0) {
        attr.reg_c0 = mlx5dv_reg {
            value: caps.register_c0.value,
            mask: caps.register_c0.mask,
        };
    }
    if offer(mask::SIGNATURES) {
        attr.sig_caps = signatures::caps(context);
    }
    if offer(mask::CRYPTO) {
        attr.crypto_caps = crypto::caps(context);
    }
    if wanted & (mask::DC_READS | mask::LAG_PORTS | mask::COPIES) != 0 {
        let general = group(context, GENERAL);
        if offer(mask::COPIES) {
            let most = GeneralCaps::parse(&general).max_copy();
            attr.max_wr_memcpy_length = usize::try_from(most).unwrap_or(usize::MAX);
        }
        if offer(mask::DC_READS) {
            attr.max_dc_rd_atom = 1 << general.get(LOG_READS_OF_DC);
            attr.max_dc_init_rd_atom = 1 << general.get(LOG_READS_AT_DC);
        }
        let ports = u8::try_from(general.get(LAG_PORTS)).unwrap_or(0);
        if ports != 0 && offer(mask::LAG_PORTS) {
            attr.num_lag_ports = ports;
        }
    }
    attr.comp_mask = given;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_query_device(context: Handle<Context>, attr: Out<mlx5dv_context>) -> c_int {
    number(|| fill(context.get()?, attr.get()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paging_is_in_the_order_of_the_header() {
        let mut reply = Mailbox::new(0x40);
        // Sending, and receiving from shared queues: the first and the sixth bit.
        reply.set(cap(bit(0x20, 31)), 1);
        reply.set(cap(bit(0x20, 26)), 1);
        assert_eq!(paging(&reply), 1 | 1 << 5);
        assert_eq!(paging(&Mailbox::new(0)), 0);
    }
}
