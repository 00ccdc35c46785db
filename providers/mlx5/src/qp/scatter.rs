//! Queue pairs whose small messages the device writes into their completions.

use uverbs_core::contract::QpInit;
use uverbs_core::types::{QpCreateFlags, QpType, SigMode};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::{Parent, QpExtra, QueuePair, Special};
use crate::context::{Context, ProtectionDomain};

impl QpExtra {
    /// `MLX5_QP_FLAG_SCATTER_CQE`—the same, and it receives messages of up to 32 bytes (64 where
    /// completions have 128) with their completions, if the device does that: one write of the
    /// device instead of two. Whoever polls copies them to where the receive request wanted them.
    ///
    /// Only for reliable and unreliable connections with a receive queue of their own, and not
    /// where every send request is signaled: the kernel would have reads scattered, too. Others are
    /// [`ErrorKind::Unsupported`].
    ///
    /// # Safety
    /// The pieces of every receive request that is posted to a queue pair created with this or a
    /// copy of it name, by their addresses, memory of this process that may be written until the
    /// request is completed, or the queue pair is reset or destroyed. Until then whoever in this
    /// process accesses it at the same time does so by atomic accesses of the same width. So they
    /// are of no region with addresses of its own, of no memory of another device, and of none that
    /// this process has not mapped.
    #[doc(alias = "MLX5_QP_FLAG_SCATTER_CQE")]
    #[allow(
        unsafe_code,
        reason = "whoever polls writes to memory that requests name"
    )]
    #[must_use]
    pub unsafe fn scattering(mut self) -> Self {
        self.scatters = true;
        self
    }
}

impl QueuePair {
    /// Creates one that was asked for by [`QpExtra::scattering`].
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
