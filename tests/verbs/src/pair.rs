//! Two connected queue pairs.

use uverbs::time::AckTimeout;
use uverbs::{
    AccessFlags, CompletionQueue, Context, PreparedQueuePair, ProtectionDomain, QpType, QueuePair,
    QueuePairBuilder,
};

use crate::open;

/// One end.
#[derive(Debug)]
pub struct Side {
    /// The device.
    pub context: Context,
    /// Its protection domain.
    pub pd: ProtectionDomain,
    /// The completion queue of both its queues.
    pub cq: CompletionQueue,
    /// The queue pair, in RTS.
    pub qp: QueuePair,
}

/// Both ends.
#[derive(Debug)]
pub struct Pair {
    /// One.
    pub a: Side,
    /// The other.
    pub b: Side,
}

impl Side {
    /// A queue pair in RESET with the sizes that most tests need, modified by `set`.
    pub fn prepare(
        context: &Context,
        kind: QpType,
        set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
    ) -> (ProtectionDomain, CompletionQueue, PreparedQueuePair) {
        let pd = context.alloc_pd().expect("a domain");
        let cq = context.create_cq(256).expect("a completion queue");
        let mut builder = pd
            .queue_pair(kind, &cq, &cq)
            .max_send_wr(64)
            .max_recv_wr(64)
            .max_send_sge(4)
            .max_recv_sge(4)
            .max_inline_data(128)
            .max_rd_atomic(8)
            .max_dest_rd_atomic(8)
            // The default gives up after some milliseconds, during which a busy machine may do
            // nothing.
            .timeout(AckTimeout::code(14).expect("a legal timeout"));
        if kind != QpType::Ud {
            builder = builder.access(
                AccessFlags::LOCAL_WRITE
                    | AccessFlags::REMOTE_READ
                    | AccessFlags::REMOTE_WRITE
                    | AccessFlags::REMOTE_ATOMIC,
            );
        }
        let prepared = set(builder).build().expect("a queue pair");
        (pd, cq, prepared)
    }
}

impl Pair {
    /// Two queue pairs of one device, connected to each other.
    pub fn new(kind: QpType) -> Self {
        Self::with(kind, |builder| builder)
    }

    /// The same, with modified settings on both ends.
    pub fn with(kind: QpType, set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>) -> Self {
        let context = open();
        Self::between(&context, &context, kind, set)
    }

    /// Two queue pairs of two devices, or of the same one.
    pub fn between(
        one: &Context,
        other: &Context,
        kind: QpType,
        set: impl Fn(QueuePairBuilder<'_>) -> QueuePairBuilder<'_>,
    ) -> Self {
        let (pd_a, cq_a, qp_a) = Side::prepare(one, kind, &set);
        let (pd_b, cq_b, qp_b) = Side::prepare(other, kind, &set);
        let (end_a, end_b) = (qp_a.endpoint(), qp_b.endpoint());
        let connect = |qp: PreparedQueuePair, to| match kind {
            QpType::Ud => qp.activate().expect("ready for datagrams"),
            _ => qp.handshake(to).expect("connected"),
        };
        Self {
            a: Side {
                context: one.clone(),
                qp: connect(qp_a, end_b),
                pd: pd_a,
                cq: cq_a,
            },
            b: Side {
                context: other.clone(),
                qp: connect(qp_b, end_a),
                pd: pd_b,
                cq: cq_b,
            },
        }
    }
}
