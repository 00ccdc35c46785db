//! Dynamic connections: initiators that can send to any target, chosen by each request.

use uverbs_core::contract::QpInit;
use uverbs_core::types::QpType;
use uverbs_core::{Error, Op, Result};

use super::{Parent, QueuePair, Role, Special};
use crate::context::{Context, ProtectionDomain};

/// `mlx5dv_dci_streams`—the streams of an initiator: an error in one does not stop the others.
#[doc(alias = "mlx5dv_dci_streams")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Streams {
    /// log₂ of their number.
    pub log_concurrent: u8,
    /// log₂ of how many may be in error before the whole initiator stops.
    pub log_errored: u8,
}

impl QueuePair {
    /// `mlx5dv_create_qp`—creates a DC initiator; the type in `init` is ignored.
    ///
    /// # Errors
    /// EOPNOTSUPP: the device does not support dynamic connections. More streams than it supports;
    /// otherwise as for other queue pairs.
    pub(crate) fn create_dc_initiator(
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
        streams: Option<Streams>,
    ) -> Result<Self> {
        let most = context.caps().max_log_dci_streams;
        if let Some(streams) = streams
            && streams.log_concurrent > most
        {
            let requested = streams.log_concurrent.into();
            return Err(Error::limit(
                Op::CreateQueuePair,
                "log_streams",
                requested,
                most.into(),
            ));
        }
        let special = Special {
            role: Role::Initiator,
            streams: streams.map(|streams| (streams.log_concurrent, streams.log_errored)),
            ..Special::default()
        };
        Self::create_dynamic(context, pd, init, &special)
    }

    /// `mlx5dv_create_qp`—creates a DC target, which receives from the shared queue in `init`.
    /// Senders need `access_key`. Its number is known once it is ready to receive.
    ///
    /// # Errors
    /// EOPNOTSUPP: the device does not support dynamic connections. No shared queue; otherwise as
    /// for other queue pairs.
    pub(crate) fn create_dc_target(
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
        access_key: u64,
    ) -> Result<Self> {
        if init.srq.is_none() {
            return Err(Error::invalid(Op::CreateQueuePair, "srq"));
        }
        let special = Special {
            role: Role::Target,
            access_key,
            ..Special::default()
        };
        Self::create_dynamic(context, pd, init, &special)
    }

    fn create_dynamic(
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
        special: &Special,
    ) -> Result<Self> {
        let init = QpInit {
            kind: QpType::Driver,
            ..*init
        };
        Self::create_in(context, Parent::Pd(pd), &init, special)
    }
}
