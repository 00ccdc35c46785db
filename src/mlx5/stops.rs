//! Send queues that drain when a signature was wrong (signature pipelining).

use uverbs_any::Of as _;
use uverbs_core::{Op, Result};
use uverbs_mlx5::QpExtra;

use crate::transport::{Requests, Transport};
use crate::{QueuePair, QueuePairBuilder};

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// `MLX5DV_QP_CREATE_SIG_PIPELINING`—the send queue drains when a message to or from a key with
    /// signatures had a wrong one, before the next request with a
    /// [fence](crate::SendFlags::FENCE): RC queue pairs of mlx5 devices. Default: no.
    ///
    /// So the answer to a transfer can be posted together with it: what follows a wrong signature
    /// is not sent. The event
    /// [`SendQueueDrained`](crate::event::AsyncEventType::SendQueueDrained) tells of it. Then take
    /// the completions that there are and [check](crate::mlx5::IndirectKey::check) the keys, take
    /// back what must not be sent ([`cancel_sends`](QueuePair::cancel_sends)), and move the queue
    /// pair from [`SendQueueDrained`](crate::QpState::SendQueueDrained) to
    /// [`ReadyToSend`](crate::QpState::ReadyToSend). What was posted before the fence may have been
    /// carried out, and may have had wrong signatures, too.
    ///
    /// One more system call whenever it is initialised, which waits for the firmware and fails
    /// there on devices that have none of this. Building fails with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for other queue pairs, and before Linux 5.14.
    #[doc(alias = "MLX5DV_QP_CREATE_SIG_PIPELINING")]
    pub fn stops_at_wrong_signatures(self) -> Self
    where
        T: Requests,
    {
        let extra = self.extra::<QpExtra>().cloned().unwrap_or_default();
        self.with_extra(extra.stopping_at_wrong_signatures())
    }
}

impl<T: Transport> QueuePair<T> {
    /// `mlx5dv_qp_cancel_posted_send_wrs`—has the device do nothing for the submitted requests with
    /// this `wr_id` that it has not begun, of a send queue that has drained. They complete as they
    /// were posted to, with their opcodes, as if they had succeeded. Returns how many there are.
    ///
    /// One system call, which waits for the firmware.
    ///
    /// ```no_run
    /// use uverbs::QpState;
    /// use uverbs::attr::QpAttr;
    ///
    /// # fn f(qp: &mut uverbs::QueuePair) -> uverbs::Result<()> {
    /// // After the event: the answer with number 7 must not be sent.
    /// let taken_back = qp.cancel_sends(7)?;
    /// println!("{taken_back} requests will do nothing");
    /// qp.modify(&QpAttr::to(QpState::ReadyToSend).cur_state(QpState::SendQueueDrained))
    /// # }
    /// ```
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidState`](crate::ErrorKind::InvalidState) | the send queue has not drained |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | not an mlx5 device |
    /// | [`BadReply`](crate::ErrorKind::BadReply) | the device has begun what was never submitted |
    /// | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_qp_cancel_posted_send_wrs")]
    pub fn cancel_sends(&mut self, wr_id: u64) -> Result<u32> {
        let error = self.of_another_device(Op::DevxQuery);
        let own: &mut uverbs_mlx5::QueuePair = self.queue.of_mut().ok_or(error)?;
        own.cancel_sends(wr_id)
    }
}
