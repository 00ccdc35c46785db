//! Actions of rules that put packets into tunnels, and take them out.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::sys::{Attr, Uhw};
use uverbs_core::{Error, Op, Result, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_FLOW_ACTION;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE,
    MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE,
    MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL,
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL,
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2,
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2,
};

use super::{FlowAction, TableKind};

/// `mlx5dv_flow_action_packet_reformat_type`—how headers are added to a packet, or removed.
#[doc(alias = "mlx5dv_flow_action_packet_reformat_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reformat<'a> {
    /// Removes the headers of a tunnel of frames ([`TableKind::NicReceive`]).
    OutOfFrameTunnel,
    /// Adds these tunnel headers in front of a frame ([`TableKind::NicTransmit`]).
    IntoFrameTunnel(&'a [u8]),
    /// Replaces the headers of a tunnel of packets by this frame header
    /// ([`TableKind::NicReceive`]).
    OutOfPacketTunnel(&'a [u8]),
    /// Replaces the header of a frame by these tunnel headers ([`TableKind::NicTransmit`]).
    IntoPacketTunnel(&'a [u8]),
}

impl<'a> Reformat<'a> {
    /// The kernel's number, and the headers.
    const fn parts(self) -> (u32, Option<&'a [u8]>) {
        match self {
            Self::OutOfFrameTunnel => (
                MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2,
                None,
            ),
            Self::IntoFrameTunnel(headers) => (
                MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL,
                Some(headers),
            ),
            Self::OutOfPacketTunnel(headers) => (
                MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2,
                Some(headers),
            ),
            Self::IntoPacketTunnel(headers) => (
                MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL,
                Some(headers),
            ),
        }
    }
}

impl FlowAction {
    /// `mlx5dv_create_flow_action_packet_reformat`—creates an action that puts packets of tables of
    /// this kind into a tunnel, or takes them out of one.
    ///
    /// One system call, since 4.20; it waits for the firmware.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): no headers.
    /// [`LimitExceeded`](uverbs_core::ErrorKind::LimitExceeded): more than an attribute can hold.
    /// EOPNOTSUPP: the device does not support it, or not in these tables. EINVAL, ENOSPC: longer
    /// headers than the device supports.
    #[doc(alias = "mlx5dv_create_flow_action_packet_reformat")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn reformat(
        file: &Arc<UverbsFile>,
        table: TableKind,
        reformat: Reformat<'_>,
    ) -> Result<Self> {
        let op = Op::CreatePacketReformat;
        let (kind, headers) = reformat.parts();
        let len = headers.map_or(0, <[u8]>::len);
        if headers.is_some() && len == 0 {
            return Err(Error::invalid(op, "headers"));
        }
        if len > usize::from(u16::MAX) {
            return Err(Error::limit(
                op,
                "header_bytes",
                len as u64,
                u16::MAX.into(),
            ));
        }
        let handle = new_object_slot();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, &handle),
                Attr::constant(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE, kind),
                Attr::constant(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE, table.raw()),
                Attr::maybe(
                    headers,
                    MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF,
                    Attr::input,
                ),
            ];
            file.ioctl(
                op,
                UVERBS_OBJECT_FLOW_ACTION,
                MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
                &attrs,
                &Uhw::NONE,
            )
        })
        .map_err(|error| {
            error
                .fact("table", format!("{table:?}"))
                .fact("header_bytes", len)
        })?;
        Ok(Self::over(file, new_object_handle(op, &handle)?))
    }
}
