//! Memory of queues that the program allocates.

use std::sync::Arc;

use uverbs_any::AnyPd;
use uverbs_core::hw::QueueMemory;
use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::{CompletionQueueBuilder, ProtectionDomain};

impl ProtectionDomain {
    /// `ibv_alloc_parent_domain`—combines this protection domain with an allocator: queue pairs,
    /// work queues and shared receive queues that are created in the result have the memory of
    /// their rings from it, in huge pages, say. mlx5 devices only. No system call.
    ///
    /// For everything else both are the same domain.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the kernel allocates the queues of the device.
    #[doc(alias = "ibv_alloc_parent_domain")]
    #[doc(alias = "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS")]
    pub fn with_queue_memory(&self, memory: Arc<dyn QueueMemory>) -> Result<Self> {
        let pd = self.of_mlx5();
        let pd = pd.ok_or_else(|| Error::new(Op::AllocParentDomain, ErrorKind::Unsupported))?;
        Ok(self.derive(AnyPd::new::<uverbs_mlx5::Context>(pd.with_memory(memory))))
    }
}

impl CompletionQueueBuilder<'_> {
    /// Has the memory of the ring allocated by `memory`. mlx5 devices only: others refuse it
    /// ([`Unsupported`](ErrorKind::Unsupported)). Default: pages of its own.
    #[doc(alias = "IBV_CQ_INIT_ATTR_MASK_PD")]
    pub fn queue_memory(mut self, memory: Arc<dyn QueueMemory>) -> Self {
        self.memory = Some(memory);
        self
    }
}
