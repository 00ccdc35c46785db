//! `rdma/mlx5-abi.h`: mlx5's driver data of the verbs commands, and its mappings.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ib_user_verbs::ib_uverbs_clock_info;
use crate::mlx5_user_ioctl_verbs::mlx5_ib_uapi_reg;

kernel_enum! {
    /// Flags of [`mlx5_ib_create_qp`].
    anonymous enum mlx5_qp_flags: u32 {
        MLX5_QP_FLAG_SIGNATURE = 1 << 0,
        MLX5_QP_FLAG_SCATTER_CQE = 1 << 1,
        MLX5_QP_FLAG_TUNNEL_OFFLOADS = 1 << 2,
        MLX5_QP_FLAG_BFREG_INDEX = 1 << 3,
        MLX5_QP_FLAG_TYPE_DCT = 1 << 4,
        MLX5_QP_FLAG_TYPE_DCI = 1 << 5,
        MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC = 1 << 6,
        MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC = 1 << 7,
        MLX5_QP_FLAG_ALLOW_SCATTER_CQE = 1 << 8,
        MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE = 1 << 9,
        MLX5_QP_FLAG_UAR_PAGE_INDEX = 1 << 10,
        MLX5_QP_FLAG_DCI_STREAM = 1 << 11,
    }
}

kernel_enum! {
    /// Flags of [`mlx5_ib_create_srq`].
    anonymous enum mlx5_srq_flags: u32 {
        MLX5_SRQ_FLAG_SIGNATURE = 1 << 0,
    }
}

kernel_enum! {
    /// Flags of [`mlx5_ib_create_wq`].
    anonymous enum mlx5_wq_flags: u32 {
        MLX5_WQ_FLAG_SIGNATURE = 1 << 0,
    }
}

/// The version of mlx5's driver data.
pub const MLX5_IB_UVERBS_ABI_VERSION: u32 = 1;

/// Driver data of context creation, as the first libraries sent it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_alloc_ucontext_req {
    pub total_num_bfregs: u32,
    pub num_low_latency_bfregs: u32,
}
assert_layout!(mlx5_ib_alloc_ucontext_req, size 8, align 4, {
    total_num_bfregs @ 0, num_low_latency_bfregs @ 4,
});

kernel_enum! {
    /// The capabilities that the library reports to the driver.
    enum mlx5_lib_caps: u64 {
        MLX5_LIB_CAP_4K_UAR = 1 << 0,
        MLX5_LIB_CAP_DYN_UAR = 1 << 1,
    }
}

kernel_enum! {
    /// Flags of [`mlx5_ib_alloc_ucontext_req_v2`].
    enum mlx5_ib_alloc_uctx_v2_flags: u32 {
        MLX5_IB_ALLOC_UCTX_DEVX = 1 << 0,
    }
}

/// Driver data of context creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_alloc_ucontext_req_v2 {
    pub total_num_bfregs: u32,
    pub num_low_latency_bfregs: u32,
    pub flags: u32,
    pub comp_mask: u32,
    pub max_cqe_version: u8,
    pub reserved0: u8,
    pub reserved1: u16,
    pub reserved2: u32,
    pub lib_caps: u64,
}
assert_layout!(mlx5_ib_alloc_ucontext_req_v2, size 32, align 8, {
    total_num_bfregs @ 0, num_low_latency_bfregs @ 4, flags @ 8, comp_mask @ 12,
    max_cqe_version @ 16, reserved0 @ 17, reserved1 @ 18, reserved2 @ 20, lib_caps @ 24,
});

kernel_enum! {
    /// Which features the kernel reports in `comp_mask` of [`mlx5_ib_alloc_ucontext_resp`].
    enum mlx5_ib_alloc_ucontext_resp_mask: u32 {
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET = 1 << 0,
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY = 1 << 1,
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE = 1 << 2,
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS = 1 << 3,
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS = 1 << 4,
        MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG = 1 << 5,
    }
}

kernel_enum! {
    /// Commands that take driver data.
    enum mlx5_user_cmds_supp_uhw: u32 {
        MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE = 1 << 0,
        MLX5_USER_CMDS_SUPP_UHW_CREATE_AH = 1 << 1,
    }
}

kernel_enum! {
    /// Which headers a raw packet must carry inline; one more than the device reports, so that 0
    /// means unknown.
    enum mlx5_user_inline_mode: u32 {
        MLX5_USER_INLINE_MODE_NA = 0,
        MLX5_USER_INLINE_MODE_NONE = 1,
        MLX5_USER_INLINE_MODE_L2 = 2,
        MLX5_USER_INLINE_MODE_IP = 3,
        MLX5_USER_INLINE_MODE_TCP_UDP = 4,
    }
}

kernel_enum! {
    /// What ESP flow actions can do.
    anonymous enum mlx5_user_alloc_ucontext_flow_action_flags: u32 {
        MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM = 1 << 0,
        MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA = 1 << 1,
        MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING = 1 << 2,
        MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_FULL_OFFLOAD = 1 << 3,
        MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN = 1 << 4,
    }
}

/// Driver data in the reply to context creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_alloc_ucontext_resp {
    pub qp_tab_size: u32,
    pub bf_reg_size: u32,
    pub tot_bfregs: u32,
    pub cache_line_size: u32,
    pub max_sq_desc_sz: u16,
    pub max_rq_desc_sz: u16,
    pub max_send_wqebb: u32,
    pub max_recv_wr: u32,
    pub max_srq_recv_wr: u32,
    pub num_ports: u16,
    pub flow_action_flags: u16,
    pub comp_mask: u32,
    pub response_length: u32,
    pub cqe_version: u8,
    pub cmds_supp_uhw: u8,
    pub eth_min_inline: u8,
    pub clock_info_versions: u8,
    pub hca_core_clock_offset: u64,
    pub log_uar_size: u32,
    pub num_uars_per_page: u32,
    pub num_dyn_bfregs: u32,
    pub dump_fill_mkey: u32,
}
assert_layout!(mlx5_ib_alloc_ucontext_resp, size 72, align 8, {
    qp_tab_size @ 0, bf_reg_size @ 4, tot_bfregs @ 8, cache_line_size @ 12,
    max_sq_desc_sz @ 16, max_rq_desc_sz @ 18, max_send_wqebb @ 20, max_recv_wr @ 24,
    max_srq_recv_wr @ 28, num_ports @ 32, flow_action_flags @ 34, comp_mask @ 36,
    response_length @ 40, cqe_version @ 44, cmds_supp_uhw @ 45, eth_min_inline @ 46,
    clock_info_versions @ 47, hca_core_clock_offset @ 48, log_uar_size @ 56,
    num_uars_per_page @ 60, num_dyn_bfregs @ 64, dump_fill_mkey @ 68,
});

/// Driver data in the reply to `IB_USER_VERBS_CMD_ALLOC_PD`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_alloc_pd_resp {
    pub pdn: u32,
}
assert_layout!(mlx5_ib_alloc_pd_resp, size 4, align 4, { pdn @ 0 });

/// The limits of segmentation offload.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_tso_caps {
    /// Bytes of payload.
    pub max_tso: u32,
    pub supported_qpts: u32,
}
assert_layout!(mlx5_ib_tso_caps, size 8, align 4, { max_tso @ 0, supported_qpts @ 4 });

/// The limits of receive-side scaling.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_rss_caps {
    /// [`mod@mlx5_rx_hash_fields`].
    pub rx_hash_fields_mask: u64,
    /// [`mod@mlx5_rx_hash_function_flags`].
    pub rx_hash_function: u8,
    pub reserved: [u8; 7],
}
assert_layout!(mlx5_ib_rss_caps, size 16, align 8, {
    rx_hash_fields_mask @ 0, rx_hash_function @ 8, reserved @ 9,
});

kernel_enum! {
    /// Formats of compressed completions.
    enum mlx5_ib_cqe_comp_res_format: u32 {
        MLX5_IB_CQE_RES_FORMAT_HASH = 1 << 0,
        MLX5_IB_CQE_RES_FORMAT_CSUM = 1 << 1,
        MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX = 1 << 2,
    }
}

/// The limits of completion compression.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_cqe_comp_caps {
    pub max_num: u32,
    /// [`mod@mlx5_ib_cqe_comp_res_format`].
    pub supported_format: u32,
}
assert_layout!(mlx5_ib_cqe_comp_caps, size 8, align 4, { max_num @ 0, supported_format @ 4 });

kernel_enum! {
    /// Packet pacing capabilities.
    enum mlx5_ib_packet_pacing_cap_flags: u32 {
        MLX5_IB_PP_SUPPORT_BURST = 1 << 0,
    }
}

/// The limits of packet pacing.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_packet_pacing_caps {
    /// kb/s.
    pub qp_rate_limit_min: u32,
    /// kb/s.
    pub qp_rate_limit_max: u32,
    pub supported_qpts: u32,
    /// [`mod@mlx5_ib_packet_pacing_cap_flags`].
    pub cap_flags: u8,
    pub reserved: [u8; 3],
}
assert_layout!(mlx5_packet_pacing_caps, size 16, align 4, {
    qp_rate_limit_min @ 0, qp_rate_limit_max @ 4, supported_qpts @ 8, cap_flags @ 12,
    reserved @ 13,
});

kernel_enum! {
    /// Multi-packet send capabilities.
    enum mlx5_ib_mpw_caps: u32 {
        MPW_RESERVED = 1 << 0,
        MLX5_IB_ALLOW_MPW = 1 << 1,
        MLX5_IB_SUPPORT_EMPW = 1 << 2,
    }
}

kernel_enum! {
    /// Software parsing capabilities.
    enum mlx5_ib_sw_parsing_offloads: u32 {
        MLX5_IB_SW_PARSING = 1 << 0,
        MLX5_IB_SW_PARSING_CSUM = 1 << 1,
        MLX5_IB_SW_PARSING_LSO = 1 << 2,
    }
}

/// What software parsing can do.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_sw_parsing_caps {
    /// [`mod@mlx5_ib_sw_parsing_offloads`].
    pub sw_parsing_offloads: u32,
    pub supported_qpts: u32,
}
assert_layout!(mlx5_ib_sw_parsing_caps, size 8, align 4, {
    sw_parsing_offloads @ 0, supported_qpts @ 4,
});

/// The limits of striding receive queues.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_striding_rq_caps {
    pub min_single_stride_log_num_of_bytes: u32,
    pub max_single_stride_log_num_of_bytes: u32,
    pub min_single_wqe_log_num_of_strides: u32,
    pub max_single_wqe_log_num_of_strides: u32,
    pub supported_qpts: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_striding_rq_caps, size 24, align 4, {
    min_single_stride_log_num_of_bytes @ 0, max_single_stride_log_num_of_bytes @ 4,
    min_single_wqe_log_num_of_strides @ 8, max_single_wqe_log_num_of_strides @ 12,
    supported_qpts @ 16, reserved @ 20,
});

/// The limits of DCI streams.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_dci_streams_caps {
    pub max_log_num_concurent: u8,
    pub max_log_num_errored: u8,
}
assert_layout!(mlx5_ib_dci_streams_caps, size 2, align 1, {
    max_log_num_concurent @ 0, max_log_num_errored @ 1,
});

kernel_enum! {
    /// Flags of [`mlx5_ib_query_device_resp`].
    enum mlx5_ib_query_dev_resp_flags: u32 {
        MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP = 1 << 0,
        MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD = 1 << 1,
        MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE = 1 << 2,
        MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT = 1 << 3,
        MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP = 1 << 4,
    }
}

kernel_enum! {
    /// Tunnels whose inner headers the device understands.
    enum mlx5_ib_tunnel_offloads: u32 {
        MLX5_IB_TUNNELED_OFFLOADS_VXLAN = 1 << 0,
        MLX5_IB_TUNNELED_OFFLOADS_GRE = 1 << 1,
        MLX5_IB_TUNNELED_OFFLOADS_GENEVE = 1 << 2,
        MLX5_IB_TUNNELED_OFFLOADS_MPLS_GRE = 1 << 3,
        MLX5_IB_TUNNELED_OFFLOADS_MPLS_UDP = 1 << 4,
    }
}

/// Driver data in the reply to `IB_USER_VERBS_EX_CMD_QUERY_DEVICE`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_query_device_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub tso_caps: mlx5_ib_tso_caps,
    pub rss_caps: mlx5_ib_rss_caps,
    pub cqe_comp_caps: mlx5_ib_cqe_comp_caps,
    pub packet_pacing_caps: mlx5_packet_pacing_caps,
    pub mlx5_ib_support_multi_pkt_send_wqes: u32,
    /// [`mod@mlx5_ib_query_dev_resp_flags`].
    pub flags: u32,
    pub sw_parsing_caps: mlx5_ib_sw_parsing_caps,
    pub striding_rq_caps: mlx5_ib_striding_rq_caps,
    /// [`mod@mlx5_ib_tunnel_offloads`].
    pub tunnel_offloads_caps: u32,
    pub dci_streams_caps: mlx5_ib_dci_streams_caps,
    pub reserved: u16,
    pub reg_c0: mlx5_ib_uapi_reg,
}
assert_layout!(mlx5_ib_query_device_resp, size 112, align 8, {
    comp_mask @ 0, response_length @ 4, tso_caps @ 8, rss_caps @ 16, cqe_comp_caps @ 32,
    packet_pacing_caps @ 40, mlx5_ib_support_multi_pkt_send_wqes @ 56, flags @ 60,
    sw_parsing_caps @ 64, striding_rq_caps @ 72, tunnel_offloads_caps @ 96,
    dci_streams_caps @ 100, reserved @ 102, reg_c0 @ 104,
});

kernel_enum! {
    /// Flags of [`mlx5_ib_create_cq`].
    enum mlx5_ib_create_cq_flags: u32 {
        MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD = 1 << 0,
        MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX = 1 << 1,
        MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS = 1 << 2,
    }
}

/// Driver data of completion queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_cq {
    pub buf_addr: u64,
    pub db_addr: u64,
    pub cqe_size: u32,
    pub cqe_comp_en: u8,
    pub cqe_comp_res_format: u8,
    pub flags: u16,
    pub uar_page_index: u16,
    pub reserved0: u16,
    pub reserved1: u32,
}
assert_layout!(mlx5_ib_create_cq, size 32, align 8, {
    buf_addr @ 0, db_addr @ 8, cqe_size @ 16, cqe_comp_en @ 20, cqe_comp_res_format @ 21,
    flags @ 22, uar_page_index @ 24, reserved0 @ 26, reserved1 @ 28,
});

/// Driver data in the reply to completion queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_cq_resp {
    pub cqn: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_create_cq_resp, size 8, align 4, { cqn @ 0, reserved @ 4 });

/// Driver data of `IB_USER_VERBS_CMD_RESIZE_CQ`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_resize_cq {
    pub buf_addr: u64,
    pub cqe_size: u16,
    pub reserved0: u16,
    pub reserved1: u32,
}
assert_layout!(mlx5_ib_resize_cq, size 16, align 8, {
    buf_addr @ 0, cqe_size @ 8, reserved0 @ 10, reserved1 @ 12,
});

/// Driver data of shared receive queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_srq {
    pub buf_addr: u64,
    pub db_addr: u64,
    pub flags: u32,
    pub reserved0: u32,
    pub uidx: u32,
    pub reserved1: u32,
}
assert_layout!(mlx5_ib_create_srq, size 32, align 8, {
    buf_addr @ 0, db_addr @ 8, flags @ 16, reserved0 @ 20, uidx @ 24, reserved1 @ 28,
});

/// Driver data in the reply to shared receive queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_srq_resp {
    pub srqn: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_create_srq_resp, size 8, align 4, { srqn @ 0, reserved @ 4 });

/// The streams of a DCI.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_qp_dci_streams {
    pub log_num_concurent: u8,
    pub log_num_errored: u8,
}
assert_layout!(mlx5_ib_create_qp_dci_streams, size 2, align 1, {
    log_num_concurent @ 0, log_num_errored @ 1,
});

/// Driver data of queue pair creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_qp {
    pub buf_addr: u64,
    pub db_addr: u64,
    pub sq_wqe_count: u32,
    pub rq_wqe_count: u32,
    pub rq_wqe_shift: u32,
    pub flags: u32,
    pub uidx: u32,
    pub bfreg_index: u32,
    pub sq_buf_addr: u64,
    pub ece_options: u32,
    pub dci_streams: mlx5_ib_create_qp_dci_streams,
    pub reserved: u16,
}
assert_layout!(mlx5_ib_create_qp, size 56, align 8, {
    buf_addr @ 0, db_addr @ 8, sq_wqe_count @ 16, rq_wqe_count @ 20, rq_wqe_shift @ 24,
    flags @ 28, uidx @ 32, bfreg_index @ 36, sq_buf_addr @ 40, ece_options @ 48,
    dci_streams @ 52, reserved @ 54,
}, also { access_key @ 40 + 8 });

kernel_enum! {
    /// Hash functions of receive-side scaling.
    enum mlx5_rx_hash_function_flags: u32 {
        MLX5_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
    }
}

kernel_enum! {
    /// Packet fields that enter the hash. IPv4 excludes IPv6, TCP excludes UDP.
    enum mlx5_rx_hash_fields: u64 {
        MLX5_RX_HASH_SRC_IPV4 = 1 << 0,
        MLX5_RX_HASH_DST_IPV4 = 1 << 1,
        MLX5_RX_HASH_SRC_IPV6 = 1 << 2,
        MLX5_RX_HASH_DST_IPV6 = 1 << 3,
        MLX5_RX_HASH_SRC_PORT_TCP = 1 << 4,
        MLX5_RX_HASH_DST_PORT_TCP = 1 << 5,
        MLX5_RX_HASH_SRC_PORT_UDP = 1 << 6,
        MLX5_RX_HASH_DST_PORT_UDP = 1 << 7,
        MLX5_RX_HASH_IPSEC_SPI = 1 << 8,
        MLX5_RX_HASH_INNER = 1 << 31,
    }
}

/// Driver data of queue pair creation over an indirection table.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct mlx5_ib_create_qp_rss {
    /// [`mod@mlx5_rx_hash_fields`].
    pub rx_hash_fields_mask: u64,
    /// [`mod@mlx5_rx_hash_function_flags`].
    pub rx_hash_function: u8,
    pub rx_key_len: u8,
    pub reserved: [u8; 6],
    pub rx_hash_key: [u8; 128],
    pub comp_mask: u32,
    pub flags: u32,
}
assert_layout!(mlx5_ib_create_qp_rss, size 152, align 8, {
    rx_hash_fields_mask @ 0, rx_hash_function @ 8, rx_key_len @ 9, reserved @ 10,
    rx_hash_key @ 16, comp_mask @ 144, flags @ 148,
});
default_zeroed!(mlx5_ib_create_qp_rss);

kernel_enum! {
    /// Which fields of [`mlx5_ib_create_qp_resp`] are valid.
    enum mlx5_ib_create_qp_resp_mask: u32 {
        MLX5_IB_CREATE_QP_RESP_MASK_TIRN = 1 << 0,
        MLX5_IB_CREATE_QP_RESP_MASK_TISN = 1 << 1,
        MLX5_IB_CREATE_QP_RESP_MASK_RQN = 1 << 2,
        MLX5_IB_CREATE_QP_RESP_MASK_SQN = 1 << 3,
        MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR = 1 << 4,
    }
}

/// Driver data in the reply to queue pair creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_qp_resp {
    pub bfreg_index: u32,
    pub ece_options: u32,
    pub comp_mask: u32,
    pub tirn: u32,
    pub tisn: u32,
    pub rqn: u32,
    pub sqn: u32,
    pub reserved1: u32,
    pub tir_icm_addr: u64,
}
assert_layout!(mlx5_ib_create_qp_resp, size 40, align 8, {
    bfreg_index @ 0, ece_options @ 4, comp_mask @ 8, tirn @ 12, tisn @ 16, rqn @ 20, sqn @ 24,
    reserved1 @ 28, tir_icm_addr @ 32,
});

/// Driver data of `IB_USER_VERBS_CMD_ALLOC_MW`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_alloc_mw {
    pub comp_mask: u32,
    pub num_klms: u8,
    pub reserved1: u8,
    pub reserved2: u16,
}
assert_layout!(mlx5_ib_alloc_mw, size 8, align 4, {
    comp_mask @ 0, num_klms @ 4, reserved1 @ 5, reserved2 @ 6,
});

kernel_enum! {
    /// Which optional fields of [`mlx5_ib_create_wq`] are valid.
    enum mlx5_ib_create_wq_mask: u32 {
        MLX5_IB_CREATE_WQ_STRIDING_RQ = 1 << 0,
    }
}

/// Driver data of work queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_wq {
    pub buf_addr: u64,
    pub db_addr: u64,
    pub rq_wqe_count: u32,
    pub rq_wqe_shift: u32,
    pub user_index: u32,
    pub flags: u32,
    pub comp_mask: u32,
    pub single_stride_log_num_of_bytes: u32,
    pub single_wqe_log_num_of_strides: u32,
    pub two_byte_shift_en: u32,
}
assert_layout!(mlx5_ib_create_wq, size 48, align 8, {
    buf_addr @ 0, db_addr @ 8, rq_wqe_count @ 16, rq_wqe_shift @ 20, user_index @ 24,
    flags @ 28, comp_mask @ 32, single_stride_log_num_of_bytes @ 36,
    single_wqe_log_num_of_strides @ 40, two_byte_shift_en @ 44,
});

/// Driver data in the reply to `IB_USER_VERBS_CMD_CREATE_AH`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_ah_resp {
    pub response_length: u32,
    pub dmac: [u8; 6],
    pub reserved: [u8; 6],
}
assert_layout!(mlx5_ib_create_ah_resp, size 16, align 4, {
    response_length @ 0, dmac @ 4, reserved @ 10,
});

/// The bursts of a paced queue.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_burst_info {
    pub max_burst_sz: u32,
    pub typical_pkt_sz: u16,
    pub reserved: u16,
}
assert_layout!(mlx5_ib_burst_info, size 8, align 4, {
    max_burst_sz @ 0, typical_pkt_sz @ 4, reserved @ 6,
});

kernel_enum! {
    /// `comp_mask` of [`mlx5_ib_modify_qp`].
    enum mlx5_ib_modify_qp_mask: u32 {
        MLX5_IB_MODIFY_QP_OOO_DP = 1 << 0,
    }
}

/// Driver data of `IB_USER_VERBS_EX_CMD_MODIFY_QP`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_modify_qp {
    pub comp_mask: u32,
    pub burst_info: mlx5_ib_burst_info,
    pub ece_options: u32,
}
assert_layout!(mlx5_ib_modify_qp, size 16, align 4, {
    comp_mask @ 0, burst_info @ 4, ece_options @ 12,
});

/// Driver data in the reply to `IB_USER_VERBS_EX_CMD_MODIFY_QP`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_modify_qp_resp {
    pub response_length: u32,
    pub dctn: u32,
    pub ece_options: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_modify_qp_resp, size 16, align 4, {
    response_length @ 0, dctn @ 4, ece_options @ 8, reserved @ 12,
});

/// Driver data in the reply to work queue creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_wq_resp {
    pub response_length: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_create_wq_resp, size 8, align 4, { response_length @ 0, reserved @ 4 });

/// Driver data in the reply to indirection table creation.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_rwq_ind_tbl_resp {
    pub response_length: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_create_rwq_ind_tbl_resp, size 8, align 4, {
    response_length @ 0, reserved @ 4,
});

/// Driver data of `IB_USER_VERBS_EX_CMD_MODIFY_WQ`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_modify_wq {
    pub comp_mask: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_modify_wq, size 8, align 4, { comp_mask @ 0, reserved @ 4 });

/// Older name of [`ib_uverbs_clock_info`].
pub type mlx5_ib_clock_info = ib_uverbs_clock_info;

kernel_enum! {
    /// What an `mmap` offset asks for. 4 was never used.
    enum mlx5_ib_mmap_cmd: u32 {
        MLX5_IB_MMAP_REGULAR_PAGE = 0,
        MLX5_IB_MMAP_GET_CONTIGUOUS_PAGES = 1,
        MLX5_IB_MMAP_WC_PAGE = 2,
        MLX5_IB_MMAP_NC_PAGE = 3,
        MLX5_IB_MMAP_CORE_CLOCK = 5,
        MLX5_IB_MMAP_ALLOC_WC = 6,
        MLX5_IB_MMAP_CLOCK_INFO = 7,
        MLX5_IB_MMAP_DEVICE_MEM = 8,
    }
}

kernel_enum! {
    /// Bits of `sign` in [`ib_uverbs_clock_info`].
    anonymous enum mlx5_ib_clock_info_state: u32 {
        MLX5_IB_CLOCK_INFO_KERNEL_UPDATING = 1,
    }
}

kernel_enum! {
    /// Bit numbers in `clock_info_versions` of [`mlx5_ib_alloc_ucontext_resp`].
    anonymous enum mlx5_ib_clock_info_version: u32 {
        MLX5_IB_CLOCK_INFO_V1 = 0,
    }
}

/// Binds a counter to a place in the result.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_flow_counters_desc {
    pub description: u32,
    pub index: u32,
}
assert_layout!(mlx5_ib_flow_counters_desc, size 8, align 4, { description @ 0, index @ 4 });

/// The counters of one counter object.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_flow_counters_data {
    pub counters_data: u64,
    pub ncounters: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_flow_counters_data, size 16, align 8, {
    counters_data @ 0, ncounters @ 8, reserved @ 12,
});

/// Driver data of `IB_USER_VERBS_EX_CMD_CREATE_FLOW`.
///
/// Followed by `data`.
#[repr(C, align(8))]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_create_flow {
    pub ncounters_data: u32,
    pub reserved: u32,
}
assert_layout!(mlx5_ib_create_flow, size 8, align 8, {
    ncounters_data @ 0, reserved @ 4,
}, open { data @ 8 });

kernel_header! {
    "rdma/mlx5-abi.h",
    structs: [
        mlx5_ib_alloc_ucontext_req, mlx5_ib_alloc_ucontext_req_v2, mlx5_ib_alloc_ucontext_resp,
        mlx5_ib_alloc_pd_resp, mlx5_ib_tso_caps, mlx5_ib_rss_caps, mlx5_ib_cqe_comp_caps,
        mlx5_packet_pacing_caps, mlx5_ib_sw_parsing_caps, mlx5_ib_striding_rq_caps,
        mlx5_ib_dci_streams_caps, mlx5_ib_query_device_resp, mlx5_ib_create_cq,
        mlx5_ib_create_cq_resp, mlx5_ib_resize_cq, mlx5_ib_create_srq, mlx5_ib_create_srq_resp,
        mlx5_ib_create_qp_dci_streams, mlx5_ib_create_qp, mlx5_ib_create_qp_rss,
        mlx5_ib_create_qp_resp, mlx5_ib_alloc_mw, mlx5_ib_create_wq, mlx5_ib_create_ah_resp,
        mlx5_ib_burst_info, mlx5_ib_modify_qp, mlx5_ib_modify_qp_resp, mlx5_ib_create_wq_resp,
        mlx5_ib_create_rwq_ind_tbl_resp, mlx5_ib_modify_wq,
        mlx5_ib_flow_counters_desc, mlx5_ib_flow_counters_data, mlx5_ib_create_flow,
    ],
    enums: [
        mlx5_qp_flags, mlx5_srq_flags, mlx5_wq_flags, mlx5_lib_caps,
        mlx5_ib_alloc_uctx_v2_flags, mlx5_ib_alloc_ucontext_resp_mask, mlx5_user_cmds_supp_uhw,
        mlx5_user_inline_mode, mlx5_user_alloc_ucontext_flow_action_flags,
        mlx5_ib_cqe_comp_res_format, mlx5_ib_packet_pacing_cap_flags, mlx5_ib_mpw_caps,
        mlx5_ib_sw_parsing_offloads, mlx5_ib_query_dev_resp_flags, mlx5_ib_tunnel_offloads,
        mlx5_ib_create_cq_flags, mlx5_rx_hash_function_flags, mlx5_rx_hash_fields,
        mlx5_ib_create_qp_resp_mask, mlx5_ib_create_wq_mask, mlx5_ib_modify_qp_mask,
        mlx5_ib_mmap_cmd, mlx5_ib_clock_info_state, mlx5_ib_clock_info_version,
    ],
    constants: [MLX5_IB_UVERBS_ABI_VERSION],
}
