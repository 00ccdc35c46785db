//! Dynamic connections: initiators that can send to any target, chosen by each request.

use uverbs_core::contract::QpInit;
use uverbs_core::types::{QpState, QpType};
use uverbs_core::{Error, Op, Result};

use super::entropy::{MORE_CHANGES, NUMBER, QP_CHANGE, REPLY_LEN};
use super::{Parent, QueuePair, Role, Special};
use crate::context::{Context, ProtectionDomain};
use crate::prm::{Field, Mailbox, bit, field, opcode};

/// `mlx5dv_dci_streams`—the streams of an initiator: an error in one does not stop the others.
#[doc(alias = "mlx5dv_dci_streams")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Streams {
    /// log₂ of their number.
    pub log_concurrent: u8,
    /// log₂ of how many may be in error before the whole initiator stops.
    pub log_errored: u8,
}

// Of a change of an initiator that is ready to send: that it has the extended part, and what is in
// that.
const IS_EXTENDED: Field = bit(0x08, 31);
const CHANGES_STREAM: u64 = 1 << 0;
const STREAM: Field = field(0x110, 15, 0);

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
        let caps = context.caps();
        if let Some(streams) = streams {
            let limits = [
                (
                    "log_streams",
                    streams.log_concurrent,
                    caps.max_log_dci_streams,
                ),
                ("log_errored", streams.log_errored, caps.max_log_dci_errored),
            ];
            for (name, requested, most) in limits {
                if requested > most {
                    let (requested, most) = (requested.into(), most.into());
                    return Err(Error::limit(Op::CreateQueuePair, name, requested, most));
                }
            }
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

    /// `mlx5dv_dci_stream_id_reset`—ends the error of a stream of a DC initiator that is ready to
    /// send, once all its requests were reported as flushed. Other streams go on meanwhile.
    ///
    /// Two system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported): not ready to send (then the whole
    /// initiator has stopped), or created without streams.
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): not an initiator, or it has no such
    /// stream. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_dci_stream_id_reset")]
    pub fn reset_stream(&mut self, stream: u16) -> Result<()> {
        let op = Op::DevxModify;
        if self.base.state != QpState::ReadyToSend {
            return Err(self.unsupported(op, "an initiator that is ready to send"));
        }
        if self.role != Role::Initiator {
            return Err(Error::invalid(op, "queue pair").hint("only DC initiators have streams"));
        }
        let streams = self.streams();
        let devx = self.firmware();
        if streams == 1 || !devx.general_caps()?.qpc_extension {
            return Err(self.unsupported(op, "streams"));
        }
        if u32::from(stream) >= streams {
            return Err(Error::invalid(op, "stream")
                .fact("stream", stream)
                .fact("streams", streams));
        }
        let mut change = Mailbox::command(opcode::RTS2RTS_QP, 0, QP_CHANGE);
        change.set(NUMBER, self.base.number);
        change.set(IS_EXTENDED, 1);
        change.set_wide(MORE_CHANGES, CHANGES_STREAM);
        change.set(STREAM, stream.into());
        devx.modify_harmless(&self.base.object, &change, REPLY_LEN)
            .map(drop)
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
