//! What the kernel's driver reports about the device beyond the general attributes
//! (`mlx5_ib_query_device_resp`).

use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{DeviceAttr, QpType};
use uverbs_core::{Result, UverbsFile, cmd};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE, mlx5_ib_query_device_resp,
};

use super::RegisterBits;

/// A set of queue pair types, by the kernel's numbers; unknown ones are kept.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpTypes(u32);

impl QpTypes {
    /// From the kernel's bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The kernel's bits (`1 << enum ib_uverbs_qp_type`).
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether the set contains a type.
    pub fn contains(self, kind: QpType) -> bool {
        1_u32
            .checked_shl(kind.raw())
            .is_some_and(|bit| self.0 & bit != 0)
    }
}

/// `mlx5_packet_pacing_caps`—limits of the send rate of queue pairs.
#[doc(alias = "mlx5_packet_pacing_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PacingCaps {
    /// The lowest rate, kb/s.
    pub min_rate: u32,
    /// The highest rate, kb/s; 0: no pacing.
    pub max_rate: u32,
    /// The types of queue pairs that can be paced.
    pub qp_types: QpTypes,
    /// Bursts and typical packet sizes can be chosen (`MLX5_IB_PP_SUPPORT_BURST`).
    pub burst: bool,
}

/// `mlx5_ib_tso_caps`—TCP segmentation offload.
#[doc(alias = "mlx5_ib_tso_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TsoCaps {
    /// The longest payload, bytes; 0: no segmentation.
    pub max_payload: u32,
    /// The types of queue pairs that support it.
    pub qp_types: QpTypes,
}

/// `mlx5dv_sw_parsing_caps`—offloads for frames whose headers the program describes.
#[doc(alias = "mlx5dv_sw_parsing_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ParsingCaps {
    /// Offloads (`MLX5_IB_SW_PARSING*`); 0: none.
    pub offloads: u32,
    /// The types of queue pairs that support them.
    pub qp_types: QpTypes,
}

/// `mlx5dv_striding_rq_caps`—receive queues whose requests hold several packets. All fields are 0
/// on a device without them.
#[doc(alias = "mlx5dv_striding_rq_caps")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StridingCaps {
    /// log₂ of the fewest bytes of a stride.
    pub min_log_bytes: u32,
    /// log₂ of the most bytes of a stride.
    pub max_log_bytes: u32,
    /// log₂ of the fewest strides of a request.
    pub min_log_strides: u32,
    /// log₂ of the most strides of a request.
    pub max_log_strides: u32,
    /// The types of queue pairs that support it.
    pub qp_types: QpTypes,
}

/// Capabilities of mlx5 devices that other devices do not have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Caps {
    /// Pacing of queue pairs.
    pub pacing: PacingCaps,
    /// Segmentation offload.
    pub tso: TsoCaps,
    /// Packet fields that receive hashes can cover (`MLX5_RX_HASH_*`).
    pub rss_fields: u64,
    /// Hash functions (`MLX5_RX_HASH_FUNC_*`).
    pub rss_functions: u8,
    /// The number of completions that one compressed entry can represent; 0: no compression.
    pub max_compressed: u32,
    /// Formats of compressed entries (`MLX5_IB_CQE_RES_FORMAT_*`).
    pub compressed_formats: u32,
    /// Entries of 128 bytes can also be compressed (`MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP`).
    pub long_compressed: bool,
    /// Completion entries can be padded to 128 bytes (`MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD`).
    pub padded_entries: bool,
    /// Tunnels whose inner packets the device can process (`MLX5_IB_TUNNELED_OFFLOADS_*`).
    pub tunnels: u32,
    /// log₂ of the number of concurrent streams that a DC initiator may have.
    pub max_log_dci_streams: u8,
    /// log₂ of the number of these streams that may be in error.
    pub max_log_dci_errored: u8,
    /// Requests with several packets (`MLX5_IB_ALLOW_MPW`, `MLX5_IB_SUPPORT_EMPW`); 0: none.
    pub multi_packet: u32,
    /// Credits can count packets (`MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE`).
    pub packet_credits: bool,
    /// Frames whose headers the program describes.
    pub parsing: ParsingCaps,
    /// Receive queues whose requests hold several packets.
    pub striding: StridingCaps,
    /// The bits of register C 0 that steering rules of this device may use; no bits on a kernel
    /// that does not report them.
    pub register_c0: RegisterBits,
}

impl Caps {
    /// Queries the kernel. One system call.
    pub(crate) fn query(file: &UverbsFile) -> Result<(DeviceAttr, Self)> {
        let mut reply = mlx5_ib_query_device_resp::default();
        let device = cmd::device::query(file, &Uhw::new(&[], cells(&mut reply)))?;
        Ok((device, Self::new(&reply)))
    }

    fn new(reply: &mlx5_ib_query_device_resp) -> Self {
        let pacing = &reply.packet_pacing_caps;
        let striding = &reply.striding_rq_caps;
        Self {
            pacing: PacingCaps {
                min_rate: pacing.qp_rate_limit_min,
                max_rate: pacing.qp_rate_limit_max,
                qp_types: QpTypes(pacing.supported_qpts),
                burst: pacing.cap_flags & PACING_BURST != 0,
            },
            tso: TsoCaps {
                max_payload: reply.tso_caps.max_tso,
                qp_types: QpTypes(reply.tso_caps.supported_qpts),
            },
            rss_fields: reply.rss_caps.rx_hash_fields_mask,
            rss_functions: reply.rss_caps.rx_hash_function,
            max_compressed: reply.cqe_comp_caps.max_num,
            compressed_formats: reply.cqe_comp_caps.supported_format,
            long_compressed: reply.flags & LONG_COMPRESSED != 0,
            padded_entries: reply.flags & PADDED_ENTRIES != 0,
            tunnels: reply.tunnel_offloads_caps,
            max_log_dci_streams: reply.dci_streams_caps.max_log_num_concurent,
            max_log_dci_errored: reply.dci_streams_caps.max_log_num_errored,
            multi_packet: reply.mlx5_ib_support_multi_pkt_send_wqes,
            packet_credits: reply.flags & MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE != 0,
            parsing: ParsingCaps {
                offloads: reply.sw_parsing_caps.sw_parsing_offloads,
                qp_types: QpTypes(reply.sw_parsing_caps.supported_qpts),
            },
            striding: StridingCaps {
                min_log_bytes: striding.min_single_stride_log_num_of_bytes,
                max_log_bytes: striding.max_single_stride_log_num_of_bytes,
                min_log_strides: striding.min_single_wqe_log_num_of_strides,
                max_log_strides: striding.max_single_wqe_log_num_of_strides,
                qp_types: QpTypes(striding.supported_qpts),
            },
            register_c0: RegisterBits {
                value: reply.reg_c0.value,
                mask: reply.reg_c0.mask,
            },
        }
    }
}

/// `MLX5_IB_PP_SUPPORT_BURST`.
const PACING_BURST: u8 = 1;
/// `MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP`.
const LONG_COMPRESSED: u32 = 1;
/// `MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD`.
const PADDED_ENTRIES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_device_query() {
        let mut reply = mlx5_ib_query_device_resp::default();
        reply.packet_pacing_caps.qp_rate_limit_max = 1000;
        reply.packet_pacing_caps.supported_qpts = 1 << 2 | 1 << 8;
        reply.packet_pacing_caps.cap_flags = 1;
        reply.mlx5_ib_support_multi_pkt_send_wqes = 4;
        reply.striding_rq_caps.max_single_wqe_log_num_of_strides = 16;
        reply.reg_c0.mask = 0xffff;
        let caps = Caps::new(&reply);
        assert_eq!((caps.multi_packet, caps.packet_credits), (4, false));
        assert_eq!(caps.striding.max_log_strides, 16);
        assert_eq!(caps.register_c0.mask, 0xffff);
        assert!(caps.pacing.burst && caps.pacing.max_rate == 1000);
        assert!(caps.pacing.qp_types.contains(QpType::Rc));
        assert!(!caps.pacing.qp_types.contains(QpType::Ud));
        assert_eq!(caps.pacing.qp_types.bits(), 0x104);
    }

    #[test]
    fn each_capability_is_read_from_its_field() {
        let mut reply = mlx5_ib_query_device_resp::default();
        reply.packet_pacing_caps.qp_rate_limit_min = 1;
        reply.packet_pacing_caps.qp_rate_limit_max = 2;
        reply.packet_pacing_caps.supported_qpts = 3;
        reply.packet_pacing_caps.cap_flags = 0xfe;
        reply.tso_caps.max_tso = 4;
        reply.tso_caps.supported_qpts = 5;
        reply.rss_caps.rx_hash_fields_mask = 6;
        reply.rss_caps.rx_hash_function = 7;
        reply.cqe_comp_caps.max_num = 8;
        reply.cqe_comp_caps.supported_format = 9;
        reply.tunnel_offloads_caps = 10;
        reply.dci_streams_caps.max_log_num_concurent = 11;
        reply.dci_streams_caps.max_log_num_errored = 12;
        reply.mlx5_ib_support_multi_pkt_send_wqes = 13;
        reply.sw_parsing_caps.sw_parsing_offloads = 14;
        reply.sw_parsing_caps.supported_qpts = 15;
        reply.striding_rq_caps.min_single_stride_log_num_of_bytes = 16;
        reply.striding_rq_caps.max_single_stride_log_num_of_bytes = 17;
        reply.striding_rq_caps.min_single_wqe_log_num_of_strides = 18;
        reply.striding_rq_caps.max_single_wqe_log_num_of_strides = 19;
        reply.striding_rq_caps.supported_qpts = 20;
        reply.reg_c0.value = 21;
        reply.reg_c0.mask = 22;
        let caps = Caps {
            pacing: PacingCaps {
                min_rate: 1,
                max_rate: 2,
                qp_types: QpTypes::from_bits(3),
                burst: false,
            },
            tso: TsoCaps {
                max_payload: 4,
                qp_types: QpTypes::from_bits(5),
            },
            rss_fields: 6,
            rss_functions: 7,
            max_compressed: 8,
            compressed_formats: 9,
            long_compressed: false,
            padded_entries: false,
            tunnels: 10,
            max_log_dci_streams: 11,
            max_log_dci_errored: 12,
            multi_packet: 13,
            packet_credits: false,
            parsing: ParsingCaps {
                offloads: 14,
                qp_types: QpTypes::from_bits(15),
            },
            striding: StridingCaps {
                min_log_bytes: 16,
                max_log_bytes: 17,
                min_log_strides: 18,
                max_log_strides: 19,
                qp_types: QpTypes::from_bits(20),
            },
            register_c0: RegisterBits {
                value: 21,
                mask: 22,
            },
        };
        assert_eq!(Caps::new(&reply), caps);
        for (flags, long_compressed, padded_entries, packet_credits) in [
            (1, true, false, false),
            (2, false, true, false),
            (
                MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE,
                false,
                false,
                true,
            ),
            (!7, false, false, false),
        ] {
            reply.flags = flags;
            let flagged = Caps {
                long_compressed,
                padded_entries,
                packet_credits,
                ..caps
            };
            assert_eq!(Caps::new(&reply), flagged, "{flags:#x}");
        }
    }

    #[test]
    fn types_beyond_the_bits_of_a_set_are_not_in_it() {
        let all = QpTypes::from_bits(u32::MAX);
        assert!(all.contains(QpType::from_raw(31)));
        assert!(!all.contains(QpType::from_raw(32)));
        assert!(!QpTypes::default().contains(QpType::Rc));
    }
}
