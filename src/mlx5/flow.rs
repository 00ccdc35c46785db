//! Flow rules: which frames a queue pair receives.

use uverbs_driver::{Error, ErrorKind, Object, Op, Result};
use uverbs_mlx5::flow::{self, FlowInit};

use crate::QueuePair;

/// `ibv_flow`—a rule of a queue pair, as [`QueuePair::create_flow`] or [`QueuePair::steer`] named it.
#[doc(alias = "ibv_flow")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FlowId(u64);

/// The rules of a queue pair: they go before it.
#[derive(Debug, Default)]
pub(crate) struct FlowRules {
    rules: Vec<(FlowId, Object)>,
    made: u64,
}

impl FlowRules {
    pub(crate) fn create(&mut self, qp: &Object, init: &FlowInit<'_>) -> Result<FlowId> {
        Ok(self.adopt(flow::create(qp, init)?))
    }

    /// Takes over a rule.
    pub(crate) fn adopt(&mut self, rule: Object) -> FlowId {
        self.made += 1;
        let id = FlowId(self.made);
        self.rules.push((id, rule));
        id
    }

    pub(crate) fn destroy(&mut self, id: FlowId) -> Result<()> {
        let Some(at) = self.rules.iter().position(|(of, _)| *of == id) else {
            return Err(Error::invalid(Op::DestroyFlow, "flow").fact("number", id.0));
        };
        let (_, rule) = self.rules.swap_remove(at);
        rule.destroy().map(|_| ())
    }
}

impl QueuePair {
    /// `ibv_create_flow`—has frames that match delivered to this raw packet queue pair. mlx5 devices only; one system call.
    ///
    /// The rule lasts until [`destroy_flow`](Self::destroy_flow), or goes with the queue pair.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | – | not an mlx5 device |
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP | a header or a flag that device or kernel do not match by |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | EINVAL | another transport, a port that does not exist, headers in the wrong order |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | – | more than 10 specifications |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM, ENOSPC | memory, or the device's tables are full |
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) | EPERM | no `CAP_NET_RAW` |
    #[doc(alias = "ibv_create_flow")]
    pub fn create_flow(&mut self, init: &FlowInit<'_>) -> Result<FlowId> {
        if self.queue.mlx5_mut().is_none() {
            return Err(Error::new(Op::CreateFlow, ErrorKind::Unsupported)
                .fact("device", self.pd().context().name().to_owned()));
        }
        self.flows.create(self.queue.object(), init)
    }

    /// `ibv_destroy_flow`—ends a rule. One system call.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a rule of another queue pair, or one that was ended; else the kernel's errno.
    #[doc(alias = "ibv_destroy_flow")]
    pub fn destroy_flow(&mut self, rule: FlowId) -> Result<()> {
        self.flows.destroy(rule)
    }
}
