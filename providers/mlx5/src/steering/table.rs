//! The device's kinds of tables that rules and actions are for.

use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB, MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX, MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX, MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX,
};

/// `mlx5dv_flow_table_type`—the direction of packets that a matcher or an action is for.
#[doc(alias = "mlx5dv_flow_table_type")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TableKind {
    /// Frames that the port received.
    #[default]
    NicReceive,
    /// Outgoing frames.
    NicTransmit,
    /// Frames in the embedded switch, whose functions are represented (switchdev mode).
    Switch,
    /// RoCE packets that the port received.
    RdmaReceive,
    /// Outgoing RoCE packets.
    RdmaTransmit,
    /// Packets of the transport that a port received; requires the capability to steer functions
    /// (since 6.15).
    RdmaTransportReceive,
    /// Outgoing packets of the transport; as [`RdmaTransportReceive`](Self::RdmaTransportReceive).
    RdmaTransportTransmit,
}

impl TableKind {
    /// `MLX5_IB_UAPI_FLOW_TABLE_TYPE_*`.
    pub(super) const fn raw(self) -> u32 {
        match self {
            Self::NicReceive => MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX,
            Self::NicTransmit => MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX,
            Self::Switch => MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB,
            Self::RdmaReceive => MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX,
            Self::RdmaTransmit => MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX,
            Self::RdmaTransportReceive => MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX,
            Self::RdmaTransportTransmit => MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX,
        }
    }
}
