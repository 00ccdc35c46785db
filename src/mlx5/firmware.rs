//! Verbs queues as firmware commands know them.

use uverbs_any::Of as _;
use uverbs_core::contract::Qp as _;
use uverbs_core::{Object, Result};
use uverbs_mlx5::prm::Mailbox;

use super::{Adapter, IndirectionTable, WorkQueue};
use crate::{CompletionQueue, QueuePair, SharedReceiveQueue};

mod sealed {
    /// The kernel's object behind a queue, which must not leave this module: a trait bound makes
    /// the method below callable from outside.
    #[derive(Debug)]
    pub struct Behind<'a>(pub(super) &'a super::Object);

    /// What the kernel knows as a verbs object.
    pub trait Known {
        fn known(&self) -> Behind<'_>;
    }
}

/// A verbs queue, or a table of them, whose number firmware commands may contain.
pub trait FirmwareQueue: sealed::Known {
    /// The device's number for it, which on mlx5 is the one in firmware commands. Completion queues
    /// of rxe have none.
    #[doc(alias = "mlx5dv_init_obj")]
    fn firmware_number(&self) -> Option<u32>;
}

fn number(cq: &CompletionQueue) -> Option<u32> {
    let cq: Option<&uverbs_mlx5::CompletionQueue> = cq.ring.of();
    cq.map(uverbs_mlx5::CompletionQueue::number)
}

macro_rules! queues {
    ($($queue:ty: |$this:ident| $object:expr, $number:expr;)*) => {
        $(impl FirmwareQueue for $queue {
            fn firmware_number(&self) -> Option<u32> {
                let $this = self;
                $number
            }
        }

        impl sealed::Known for $queue {
            fn known(&self) -> sealed::Behind<'_> {
                let $this = self;
                sealed::Behind($object)
            }
        })*
    };
}

queues! {
    QueuePair: |qp| &qp.queue.base().object, Some(qp.qp_num());
    CompletionQueue: |cq| cq.object(), number(cq);
    SharedReceiveQueue: |srq| srq.object(), Some(srq.number());
    WorkQueue: |queue| queue.object(), Some(queue.number());
    IndirectionTable: |table| table.object(), Some(table.number());
}

impl Adapter {
    /// `mlx5dv_devx_qp_query` and the like—queries the firmware about `queue` with a command that
    /// contains its number.
    ///
    /// The commands are `QUERY_QP`, `QUERY_CQ`, `QUERY_RMP` (shared receive queues),
    /// `QUERY_XRC_SRQ`, `QUERY_RQ` and `QUERY_RQT`; `reply_len` is the number of bytes of the reply
    /// to return. One system call; it waits for the firmware.
    ///
    /// ```no_run
    /// use uverbs::mlx5::prm::{Mailbox, field, opcode, word};
    ///
    /// # fn of(context: &uverbs::Context, qp: &uverbs::QueuePair) -> uverbs::Result<()> {
    /// let mut command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    /// command.set(word(0x08), qp.qp_num());
    /// let reply = context.mlx5()?.query_queue(qp, &command, 0x110)?;
    /// println!("state {}", reply.get(field(0x18, 31, 28)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | – | a queue of another context |
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | EINVAL | the number is another queue's, or the command is not a query |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | – | as [`devx`](Self::devx) |
    /// | any | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_devx_qp_query")]
    #[doc(alias = "mlx5dv_devx_cq_query")]
    #[doc(alias = "mlx5dv_devx_srq_query")]
    #[doc(alias = "mlx5dv_devx_wq_query")]
    #[doc(alias = "mlx5dv_devx_ind_tbl_query")]
    pub fn query_queue(
        &self,
        queue: &impl FirmwareQueue,
        command: &Mailbox,
        reply_len: usize,
    ) -> Result<Mailbox> {
        self.devx()?
            .query_object(queue.known().0, command, reply_len)
    }

    /// `mlx5dv_devx_qp_modify` and the like—has the firmware change `queue` with a command that
    /// contains its number.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// As [`query_queue`](Self::query_queue).
    ///
    /// # Safety
    /// 1. The queue's state, buffers and numbers stay what this library believes them to be.
    /// 2. The queue makes the device use no other memory of this process than before.
    #[doc(alias = "mlx5dv_devx_qp_modify")]
    #[doc(alias = "mlx5dv_devx_cq_modify")]
    #[doc(alias = "mlx5dv_devx_srq_modify")]
    #[doc(alias = "mlx5dv_devx_wq_modify")]
    #[doc(alias = "mlx5dv_devx_ind_tbl_modify")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn modify_queue(
        &self,
        queue: &impl FirmwareQueue,
        command: &Mailbox,
        reply_len: usize,
    ) -> Result<Mailbox> {
        let devx = self.devx()?;
        // SAFETY: (1 of `modify_object`) by the caller's second promise the device uses no memory
        // but what the queue keeps already.
        unsafe { devx.modify_object(queue.known().0, command, reply_len) }
    }
}
