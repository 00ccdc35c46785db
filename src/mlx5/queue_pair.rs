//! What only queue pairs of mlx5 devices can do.

use uverbs_core::contract::Qp as _;
use uverbs_core::{Error, ErrorKind, Op, Result};
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
}
