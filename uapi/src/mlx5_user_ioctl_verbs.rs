//! `rdma/mlx5_user_ioctl_verbs.h`: what mlx5's own attributes carry.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

kernel_enum! {
    /// Flags of flow actions.
    enum mlx5_ib_uapi_flow_action_flags: u32 {
        MLX5_IB_UAPI_FLOW_ACTION_FLAGS_REQUIRE_METADATA = 1 << 0,
    }
}

kernel_enum! {
    /// Flow table types.
    enum mlx5_ib_uapi_flow_table_type: u32 {
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX = 0x0,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX = 0x1,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB = 0x2,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX = 0x3,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX = 0x4,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX = 0x5,
        MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX = 0x6,
    }
}

kernel_enum! {
    /// Kinds of packet reformat.
    enum mlx5_ib_uapi_flow_action_packet_reformat_type: u32 {
        MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2 = 0x0,
        MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL = 0x1,
        MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2 = 0x2,
        MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL = 0x3,
    }
}

kernel_enum! {
    /// Access flags of dma-buf registration.
    enum mlx5_ib_uapi_reg_dmabuf_flags: u32 {
        MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT = 1 << 0,
    }
}

/// Begins an answer read from an asynchronous command file.
///
/// Followed by `out_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_uapi_devx_async_cmd_hdr {
    pub wr_id: u64,
}
assert_layout!(mlx5_ib_uapi_devx_async_cmd_hdr, size 8, align 8, {
    wr_id @ 0,
}, open { out_data @ 8 });

kernel_enum! {
    /// Kinds of device memory.
    enum mlx5_ib_uapi_dm_type: u32 {
        MLX5_IB_UAPI_DM_TYPE_MEMIC = 0,
        MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM = 1,
        MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM = 2,
        MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM = 3,
        MLX5_IB_UAPI_DM_TYPE_ENCAP_SW_ICM = 4,
    }
}

kernel_enum! {
    /// Flags of a device event file.
    enum mlx5_ib_uapi_devx_create_event_channel_flags: u32 {
        MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA = 1 << 0,
    }
}

/// Begins an event read from a device event file.
///
/// Followed by `out_data`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_uapi_devx_async_event_hdr {
    pub cookie: u64,
}
assert_layout!(mlx5_ib_uapi_devx_async_event_hdr, size 8, align 8, {
    cookie @ 0,
}, open { out_data @ 8 });

kernel_enum! {
    /// Flags of a packet pacing entry.
    enum mlx5_ib_uapi_pp_alloc_flags: u32 {
        MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX = 1 << 0,
    }
}

kernel_enum! {
    /// Kinds of doorbell page.
    enum mlx5_ib_uapi_uar_alloc_type: u32 {
        MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF = 0x0,
        MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC = 0x1,
    }
}

kernel_enum! {
    /// Which fields of [`mlx5_ib_uapi_query_port`] are valid.
    enum mlx5_ib_uapi_query_port_flags: u64 {
        MLX5_IB_UAPI_QUERY_PORT_VPORT = 1 << 0,
        MLX5_IB_UAPI_QUERY_PORT_VPORT_VHCA_ID = 1 << 1,
        MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_RX = 1 << 2,
        MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_TX = 1 << 3,
        MLX5_IB_UAPI_QUERY_PORT_VPORT_REG_C0 = 1 << 4,
        MLX5_IB_UAPI_QUERY_PORT_ESW_OWNER_VHCA_ID = 1 << 5,
    }
}

kernel_enum! {
    /// Flags of a doorbell for virtio emulation.
    enum mlx5_ib_uapi_var_alloc_flags: u32 {
        MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP = 1 << 0,
    }
}

/// A register value and which of its bits count.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_uapi_reg {
    pub value: u32,
    pub mask: u32,
}
assert_layout!(mlx5_ib_uapi_reg, size 8, align 4, { value @ 0, mask @ 4 });

/// Reply of
/// [`MLX5_IB_METHOD_QUERY_PORT`](crate::mlx5_user_ioctl_cmds::MLX5_IB_METHOD_QUERY_PORT).
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct mlx5_ib_uapi_query_port {
    pub flags: u64,
    pub vport: u16,
    pub vport_vhca_id: u16,
    pub esw_owner_vhca_id: u16,
    pub rsvd0: u16,
    pub vport_steering_icm_rx: u64,
    pub vport_steering_icm_tx: u64,
    pub reg_c0: mlx5_ib_uapi_reg,
}
assert_layout!(mlx5_ib_uapi_query_port, size 40, align 8, {
    flags @ 0, vport @ 8, vport_vhca_id @ 10, esw_owner_vhca_id @ 12, rsvd0 @ 14,
    vport_steering_icm_rx @ 16, vport_steering_icm_tx @ 24, reg_c0 @ 32,
});

kernel_header! {
    "rdma/mlx5_user_ioctl_verbs.h",
    structs: [
        mlx5_ib_uapi_devx_async_cmd_hdr, mlx5_ib_uapi_devx_async_event_hdr, mlx5_ib_uapi_reg,
        mlx5_ib_uapi_query_port,
    ],
    enums: [
        mlx5_ib_uapi_flow_action_flags, mlx5_ib_uapi_flow_table_type,
        mlx5_ib_uapi_flow_action_packet_reformat_type, mlx5_ib_uapi_reg_dmabuf_flags,
        mlx5_ib_uapi_dm_type, mlx5_ib_uapi_devx_create_event_channel_flags,
        mlx5_ib_uapi_pp_alloc_flags, mlx5_ib_uapi_uar_alloc_type,
        mlx5_ib_uapi_query_port_flags, mlx5_ib_uapi_var_alloc_flags,
    ],
    constants: [],
}
