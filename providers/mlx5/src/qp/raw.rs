//! Raw packet queue pairs: their parts besides a queue pair, which are a send and a receive queue
//! of their own.

use uverbs_core::Result;
use uverbs_core::contract::QpInit;
use uverbs_core::types::{DeviceCaps, QpType};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_CREATE_QP_RESP_MASK_RQN, MLX5_IB_CREATE_QP_RESP_MASK_SQN,
    MLX5_IB_CREATE_QP_RESP_MASK_TIRN, MLX5_IB_CREATE_QP_RESP_MASK_TISN, mlx5_ib_create_qp_resp,
};

use super::{Parent, QueuePair, Special};
use crate::context::{Context, ProtectionDomain};
use crate::sq::raw::{Ethernet, max_header};

/// The objects underneath a raw packet queue pair; 0 if the kernel did not report them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RawNumbers {
    /// Transport interface of receives.
    pub tirn: u32,
    /// Transport interface of sends.
    pub tisn: u32,
    /// Receive queue.
    pub rqn: u32,
    /// Send queue.
    pub sqn: u32,
}

impl QueuePair {
    /// Creates a raw packet queue pair with room for `max_header` bytes of header in each request,
    /// for segmentation (`max_tso_header`).
    ///
    /// # Errors
    /// EPERM without `CAP_NET_RAW`; a larger header than a request has room for; otherwise as for
    /// other queue pairs.
    pub(crate) fn create_raw_packet(
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
        max_header: u16,
    ) -> Result<Self> {
        let special = Special {
            header: max_header.into(),
            ..Special::default()
        };
        Self::create_in(context, Parent::Pd(pd), init, &special)
    }
}

/// The Ethernet operations that it supports.
pub(super) fn ethernet(context: &Context, special: &Special, kind: QpType) -> Option<Ethernet> {
    let tso = context.caps().tso;
    (kind == QpType::RawPacket).then(|| Ethernet {
        min_inline: context.config().eth_min_inline,
        checksums: context.device().caps.contains(DeviceCaps::RAW_IP_CSUM),
        max_header: max_header(special.header),
        max_tso: if tso.qp_types.contains(kind) {
            tso.max_payload
        } else {
            0
        },
    })
}

/// The numbers that the kernel reported.
pub(super) fn numbers(reply: &mlx5_ib_create_qp_resp) -> RawNumbers {
    let known = |bit: u32, number: u32| {
        if reply.comp_mask & bit != 0 {
            number
        } else {
            0
        }
    };
    RawNumbers {
        tirn: known(MLX5_IB_CREATE_QP_RESP_MASK_TIRN, reply.tirn),
        tisn: known(MLX5_IB_CREATE_QP_RESP_MASK_TISN, reply.tisn),
        rqn: known(MLX5_IB_CREATE_QP_RESP_MASK_RQN, reply.rqn),
        sqn: known(MLX5_IB_CREATE_QP_RESP_MASK_SQN, reply.sqn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_numbers_that_the_reply_names_are_there() {
        for mask in 0..16_u32 {
            let named = |bit: u32, number: u32| if mask & bit == 0 { 0 } else { number };
            let reply = mlx5_ib_create_qp_resp {
                comp_mask: mask,
                tirn: 11,
                tisn: 12,
                rqn: 13,
                sqn: 14,
                ..mlx5_ib_create_qp_resp::default()
            };
            let found = numbers(&reply);
            assert_eq!((found.tirn, found.tisn), (named(1, 11), named(2, 12)));
            assert_eq!((found.rqn, found.sqn), (named(4, 13), named(8, 14)));
        }
    }
}
