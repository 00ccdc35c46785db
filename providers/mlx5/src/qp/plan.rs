//! The parameters of a creation: sizes, operations, and the options of special queue pairs.

use uverbs_core::contract::QpInit;
use uverbs_core::types::{DeviceAttr, QpCaps, QpType};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::{
    MLX5_QP_FLAG_DCI_STREAM, MLX5_QP_FLAG_SCATTER_CQE, MLX5_QP_FLAG_TYPE_DCI,
    MLX5_QP_FLAG_TYPE_DCT, mlx5_ib_create_qp_dci_streams,
};

use crate::context::Context;
use crate::wqe::operations::Operations;
use crate::wqe::sizes::{self, Overhead};

/// Options of this device's queue pairs beyond those of the verbs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Special {
    pub(crate) role: Role,
    /// The key that senders need to reach a target.
    pub(crate) access_key: u64,
    /// log₂ of the number of streams of an initiator, and of those that may be in error at once.
    pub(crate) streams: Option<(u8, u8)>,
    /// Room for segmentation headers, in bytes.
    pub(crate) header: u32,
    /// Small messages are delivered in completions, if the device supports it.
    pub(crate) scatters: bool,
}

/// The end of a dynamic connection that a queue pair is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Role {
    /// Neither.
    #[default]
    None,
    /// The sending end.
    Initiator,
    /// The receiving end.
    Target,
}

impl Special {
    pub(super) fn flags(&self) -> u32 {
        let role = match self.role {
            Role::None => 0,
            Role::Initiator => MLX5_QP_FLAG_TYPE_DCI,
            Role::Target => MLX5_QP_FLAG_TYPE_DCT,
        };
        let scatters = if self.scatters {
            MLX5_QP_FLAG_SCATTER_CQE
        } else {
            0
        };
        role | self.streams.map_or(0, |_| MLX5_QP_FLAG_DCI_STREAM) | scatters
    }

    /// The number of streams: one, unless it was created with more.
    pub(super) fn stream_count(&self) -> u32 {
        let (concurrent, _) = self.streams.unwrap_or_default();
        1_u32.checked_shl(concurrent.into()).unwrap_or(u32::MAX)
    }

    pub(super) fn streams(&self) -> mlx5_ib_create_qp_dci_streams {
        let (concurrent, errored) = self.streams.unwrap_or_default();
        mlx5_ib_create_qp_dci_streams {
            log_num_concurent: concurrent,
            log_num_errored: errored,
        }
    }
}

/// The queue pair to create.
pub(super) struct Plan {
    pub(super) send: sizes::Send,
    pub(super) recv: sizes::Receive,
    pub(super) operations: Operations,
    /// The send ring has memory of its own.
    pub(super) apart: bool,
    /// There is no send queue, whatever sizes were requested.
    pub(super) only_receives: bool,
}

/// Checks the device's announced limits, which are lower than what its queues have room for.
fn check_announced(op: Op, device: &DeviceAttr, init: &QpInit<'_>) -> Result<()> {
    let caps = &init.caps;
    let at_most = |what, requested: u32, max: u32| Error::at_most(op, what, requested, max);
    at_most("max_send_wr", caps.max_send_wr, device.max_qp_wr)?;
    at_most("max_send_sge", caps.max_send_sge, device.max_sge)?;
    if init.srq.is_none() {
        at_most("max_recv_wr", caps.max_recv_wr, device.max_qp_wr)?;
        at_most("max_recv_sge", caps.max_recv_sge, device.max_sge)?;
    }
    Ok(())
}

impl Plan {
    pub(super) fn new(
        op: Op,
        context: &Context,
        init: &QpInit<'_>,
        special: &Special,
    ) -> Result<Self> {
        let overhead = match init.kind {
            QpType::Rc | QpType::Uc => Overhead::CONNECTED,
            QpType::Ud => Overhead::DATAGRAM,
            QpType::RawPacket => Overhead::RAW,
            QpType::XrcInitiator | QpType::XrcTarget => Overhead::XRC,
            QpType::Driver if special.role != Role::None => Overhead::DC,
            kind => {
                return Err(Error::new(op, ErrorKind::Unsupported).fact("type", kind.to_string()));
            }
        };
        let limits = context.config().sizes();
        let caps = &init.caps;
        check_announced(op, context.device(), init)?;
        let only_receives = init.kind == QpType::XrcTarget || special.role == Role::Target;
        let send = if only_receives {
            sizes::Send::default()
        } else {
            sizes::Send::new(op, &limits, caps, overhead, special.header)?
        };
        let receives = init.srq.is_none() && !is_xrc(init.kind) && special.role == Role::None;
        let recv = if receives {
            sizes::Receive::new(op, &limits, caps.max_recv_wr, caps.max_recv_sge)?
        } else {
            sizes::Receive::default()
        };
        Ok(Self {
            send,
            recv,
            operations: Operations::of(init.kind, context.device().atomic_cap),
            apart: init.kind == QpType::RawPacket,
            only_receives,
        })
    }

    /// The sizes that are reported to the user.
    pub(super) fn caps(&self, requested: &QpCaps) -> QpCaps {
        QpCaps {
            max_send_wr: self.send.max_post,
            max_recv_wr: self.recv.count,
            max_send_sge: requested.max_send_sge,
            max_recv_sge: self.recv.max_sge,
            max_inline_data: self.send.max_inline,
        }
    }
}

pub(super) const fn is_xrc(kind: QpType) -> bool {
    matches!(kind, QpType::XrcInitiator | QpType::XrcTarget)
}
