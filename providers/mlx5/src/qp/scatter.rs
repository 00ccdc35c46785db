//! Queue pairs whose small messages the device writes into completions.

use uverbs_core::contract::QpInit;
use uverbs_core::types::{QpCreateFlags, QpType, SigMode};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::{Parent, QpExtra, QueuePair, Special};
use crate::context::{Context, ProtectionDomain};

impl QpExtra {
    /// `MLX5_QP_FLAG_SCATTER_CQE`—the same, and messages of up to 32 bytes (64 with completion
    /// entries of 128 bytes) are received in their completions, if the device supports that: one
    /// write of the device instead of two. Polling copies them to the memory that the receive
    /// request names.
    ///
    /// Only for reliable and unreliable connections with a receive queue of their own, and not if
    /// every send request is signaled: the kernel would have read responses scattered, too. Others
    /// are [`ErrorKind::Unsupported`].
    ///
    /// # Safety
    /// The scatter/gather entries of every receive request that is posted to a queue pair created
    /// with this or a copy of it name, by their addresses, memory of this process that may be
    /// written until the request is completed, or the queue pair is reset or destroyed. Until then
    /// any other access to it in this process at the same time is by atomic accesses of the same
    /// width. So the entries do not belong to a region with addresses of its own, to memory of
    /// another device, or to memory that this process has not mapped.
    #[doc(alias = "MLX5_QP_FLAG_SCATTER_CQE")]
    #[allow(unsafe_code, reason = "the poller writes to memory that requests name")]
    #[must_use]
    pub unsafe fn scattering(mut self) -> Self {
        self.scatters = true;
        self
    }
}

impl QueuePair {
    /// Creates a queue pair that was requested by [`QpExtra::scattering`].
    pub(crate) fn create_scattering(
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
    ) -> Result<Self> {
        let refused = |what: &'static str, value: String| {
            Err(Error::new(Op::CreateQueuePair, ErrorKind::Unsupported).fact(what, value))
        };
        if !matches!(init.kind, QpType::Rc | QpType::Uc) {
            return refused("type", init.kind.to_string());
        }
        if init.srq.is_some() {
            return refused("srq", "messages in completions".to_owned());
        }
        if init.signal == SigMode::All || init.flags.contains(QpCreateFlags::SQ_SIG_ALL) {
            return refused("signal_all", "messages in completions".to_owned());
        }
        let special = Special {
            scatters: true,
            ..Special::default()
        };
        Self::create_in(context, Parent::Pd(pd), init, &special)
    }
}
