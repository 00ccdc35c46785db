//! Flow rules: which frames a queue pair receives.

use uverbs_core::contract::Qp as _;
use uverbs_core::{Error, ErrorKind, Object, Op, Result};
use uverbs_mlx5::flow::{self, FlowInit};

use crate::QueuePair;
use crate::qp::Children;
use crate::transport::{Frames, Transport};

/// `ibv_flow`—a rule of a queue pair, as returned by [`QueuePair::create_flow`] or
/// [`QueuePair::steer`].
#[doc(alias = "ibv_flow")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FlowId(u64);

/// How queue pairs handle rules, which are destroyed before them.
impl Children {
    pub(super) fn create_flow(&mut self, qp: &Object, init: &FlowInit<'_>) -> Result<FlowId> {
        Ok(self.adopt_flow(flow::create(qp, init)?))
    }

    pub(super) fn adopt_flow(&mut self, rule: Object) -> FlowId {
        FlowId(self.adopt(rule))
    }

    pub(super) fn destroy_flow(&mut self, rule: FlowId) -> Result<()> {
        self.destroy(Op::DestroyFlow, "flow", rule.0)
    }
}

impl<T: Transport> QueuePair<T> {
    /// `ibv_create_flow`—has matching frames delivered to this raw packet queue pair. mlx5 devices
    /// only; one system call.
    ///
    /// The rule lasts until [`destroy_flow`](Self::destroy_flow), or until the queue pair is
    /// destroyed.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | – | not an mlx5 device |
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP | a header or a flag that the device or kernel cannot match |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | EINVAL | another transport, a port that does not exist, headers in the wrong order |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | – | more than 10 specifications |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM, ENOSPC | memory, or the device's tables are full |
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) | EPERM | no `CAP_NET_RAW` |
    #[doc(alias = "ibv_create_flow")]
    pub fn create_flow(&mut self, init: &FlowInit<'_>) -> Result<FlowId>
    where
        T: Frames,
    {
        if self.of_mlx5().is_none() {
            return Err(Error::new(Op::CreateFlow, ErrorKind::Unsupported)
                .fact("device", self.pd().context().name().to_owned()));
        }
        let qp = &self.queue.base().object;
        self.children.create_flow(qp, init)
    }

    /// `ibv_destroy_flow`—removes a rule. One system call.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a rule of another queue pair, or one that was
    /// already removed; else the kernel's errno.
    #[doc(alias = "ibv_destroy_flow")]
    pub fn destroy_flow(&mut self, rule: FlowId) -> Result<()>
    where
        T: Frames,
    {
        self.children.destroy_flow(rule)
    }
}
