//! Which of the device's tables a rule or an action is for.

use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB, MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX, MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX, MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX,
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX,
};

/// `mlx5dv_flow_table_type`—which way packets go that a matcher or an action is for.
#[doc(alias = "mlx5dv_flow_table_type")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TableKind {
    /// Frames that the port received.
    #[default]
    NicReceive,
    /// Frames on their way out.
    NicTransmit,
    /// Frames in the embedded switch, whose functions are represented (switchdev mode).
    Switch,
    /// RoCE packets that the port received.
    RdmaReceive,
    /// RoCE packets on their way out.
    RdmaTransmit,
    /// Packets of the transport that a port received; needs the capability to steer functions
    /// (since 6.15).
    RdmaTransportReceive,
    /// Packets of the transport on their way out; as
    /// [`RdmaTransportReceive`](Self::RdmaTransportReceive).
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
