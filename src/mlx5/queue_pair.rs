//! What only queue pairs of mlx5 devices can do.

use uverbs_any::Of as _;
use uverbs_core::contract::Qp as _;
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::LagPort;
use uverbs_mlx5::pacing::{self, RateLimit};
use uverbs_mlx5::sched::{Attachable, Leaves, Scheduler};

use crate::QueuePair;
use crate::transport::Transport;

impl<T: Transport> QueuePair<T> {
    /// `ibv_modify_qp_rate_limit`—sets how fast it may send; [`RateLimit::UNLIMITED`] removes the
    /// limit.
    ///
    /// A rate can be changed while requests are outstanding. One system call, which waits for the
    /// firmware.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | – | not an mlx5 device, or one without packet pacing, or without it for this type, or without burst bounds |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | – | outside the rates that [`PacingCaps`](crate::mlx5::caps::PacingCaps) reports |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | – | burst bounds without a rate |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | EINVAL | the queue pair is not ready to send; newer kernels keep the rate until it is |
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP | the kernel does not support rates |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOSPC | the device's table of rates is full |
    #[doc(alias = "ibv_modify_qp_rate_limit")]
    pub fn modify_rate_limit(&mut self, limit: &RateLimit) -> Result<()> {
        let Some(context) = self.pd().context().of_mlx5() else {
            return Err(Error::new(Op::ModifyRateLimit, ErrorKind::Unsupported)
                .fact("device", self.pd().context().name().to_owned()));
        };
        pacing::modify_rate_limit(
            &self.queue.base().object,
            self.kind(),
            self.state(),
            &context.caps().pacing,
            limit,
        )
    }

    /// `mlx5dv_modify_qp_sched_elem`—attaches it to leaves of the scheduling tree, in place of
    /// those it was attached to. Without leaves, detaches it.
    ///
    /// It keeps its leaves alive: they are destroyed after it. One system call, which waits for the
    /// firmware.
    ///
    /// | queue pair | requests | responses | in state |
    /// |---|---|---|---|
    /// | RC | yes | yes | INIT, RTS |
    /// | UC, UD | yes | no | INIT, RTS |
    /// | raw packet | yes | no | RTS |
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | another transport, or the device does not schedule queues of this kind |
    /// | [`InvalidState`](ErrorKind::InvalidState) | another state |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | a leaf for responses where there are none, or a leaf of another context |
    ///
    /// Otherwise the errno that the firmware's status stands for; the queue pair then stays
    /// attached as it was.
    #[doc(alias = "mlx5dv_modify_qp_sched_elem")]
    pub fn attach_to(&mut self, scheduler: &Scheduler, leaves: Leaves<'_>) -> Result<()> {
        let raw = self.of_mlx5().and_then(uverbs_mlx5::QueuePair::raw_numbers);
        let qp = Attachable {
            object: &self.queue.base().object,
            kind: self.kind(),
            state: self.state(),
            number: self.qp_num(),
            send_queue: raw.map(|numbers| numbers.sqn),
        };
        scheduler.attach(&qp, leaves)
    }

    /// `mlx5dv_query_qp_lag_port`—queries by which port of a bond it sends. Three system calls,
    /// which wait for the firmware.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | not an mlx5 device, or one that is not part of a bond; it only receives |
    /// | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_query_qp_lag_port")]
    pub fn lag_port(&self) -> Result<LagPort> {
        let own = self.of_mlx5();
        own.ok_or_else(|| self.of_another_device(Op::DevxQuery))?
            .lag_port()
    }

    /// `mlx5dv_modify_qp_lag_port`—has it send by another port of a bond; they count from 1. It has
    /// to be ready to send, unless it is for raw packets. Four system calls, which wait for the
    /// firmware.
    ///
    /// # Errors
    /// As [`lag_port`](Self::lag_port); [`Unsupported`](ErrorKind::Unsupported) also in another
    /// state, on a device that cannot change it, and for an XRC initiator;
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a port that the bond does not have.
    #[doc(alias = "mlx5dv_modify_qp_lag_port")]
    pub fn set_lag_port(&mut self, port: u8) -> Result<()> {
        let error = self.of_another_device(Op::DevxModify);
        self.queue.of_mut().ok_or(error).and_then(|own| {
            let own: &mut uverbs_mlx5::QueuePair = own;
            own.set_lag_port(port)
        })
    }

    /// `mlx5dv_modify_qp_udp_sport`—sets the source port of UDP of its packets: networks choose a
    /// path by it. For connections over RoCE v2 that are ready to send. Two system calls, which
    /// wait for the firmware.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | not an mlx5 device, or one that does not change it; another transport or state |
    /// | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_modify_qp_udp_sport")]
    pub fn set_udp_source_port(&mut self, port: u16) -> Result<()> {
        let error = self.of_another_device(Op::DevxModify);
        self.queue.of_mut().ok_or(error).and_then(|own| {
            let own: &mut uverbs_mlx5::QueuePair = own;
            own.set_udp_source_port(port)
        })
    }

    /// `mlx5dv_dci_stream_id_reset`—ends the error of a stream of a DC initiator, once all its
    /// requests were reported as flushed. Other streams go on meanwhile. Two system calls, which
    /// wait for the firmware.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | not an mlx5 device; an initiator without streams, or one that is not ready to send: then all of it has stopped |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | another transport, or no such stream |
    /// | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_dci_stream_id_reset")]
    pub fn reset_stream(&mut self, stream: u16) -> Result<()> {
        let error = self.of_another_device(Op::DevxModify);
        self.queue.of_mut().ok_or(error).and_then(|own| {
            let own: &mut uverbs_mlx5::QueuePair = own;
            own.reset_stream(stream)
        })
    }

    pub(super) fn of_another_device(&self, op: Op) -> Error {
        Error::new(op, ErrorKind::Unsupported).fact("device", self.pd().context().name().to_owned())
    }
}
