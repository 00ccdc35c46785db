//! Thread domains and parent domains.

use uverbs_any::AnyPd;
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::ThreadDomain;

use super::Adapter;
use crate::ProtectionDomain;

impl Adapter {
    /// `ibv_alloc_td`—allocates a thread domain: a page of the device's registers for queue pairs
    /// that one thread uses. Two system calls.
    ///
    /// A single request is submitted by copying it through a doorbell (BlueFlame). The first four
    /// queue pairs of a context have one each, and the others share six, through each of which one
    /// queue pair copies at a time. The queue pairs of a thread domain share theirs with no others.
    /// Other threads may use these queue pairs, too, even at the same time: a thread that finds the
    /// registers in use submits without BlueFlame.
    ///
    /// ```no_run
    /// use uverbs::QpType;
    ///
    /// let context = uverbs::Context::open("mlx5_0")?;
    /// let (pd, cq) = (context.alloc_pd()?, context.create_cq(64)?);
    /// let thread = context.mlx5()?.alloc_thread_domain()?;
    /// let own = pd.with_thread_domain(&thread)?;
    /// let prepared = own.queue_pair(QpType::Rc, &cq, &cq).build()?;
    /// # Ok::<(), uverbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM: the device has no page left |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | before 5.7, more pages than the kernel maps for one context |
    /// | [`Unsupported`](ErrorKind::Unsupported) | before 5.7, a device or machine without BlueFlame |
    #[doc(alias = "ibv_alloc_td")]
    pub fn alloc_thread_domain(&self) -> Result<ThreadDomain> {
        ThreadDomain::alloc(self.provider(Op::AllocUar)?)
    }
}

impl ProtectionDomain {
    /// `ibv_alloc_parent_domain`—combines this protection domain and a thread domain into a parent
    /// domain: queue pairs that are created in it use the thread domain's registers. mlx5 devices
    /// only. No system call.
    ///
    /// For everything else the parent domain and this one are the same: memory, shared receive
    /// queues and address handles of one can be used by queue pairs of the other. Completion queues
    /// and shared receive queues take no lock here anyway, so nothing is gained by naming a parent
    /// domain for them.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a thread domain of another context.
    #[doc(alias = "ibv_alloc_parent_domain")]
    pub fn with_thread_domain(&self, thread: &ThreadDomain) -> Result<Self> {
        let pd = self.of_mlx5();
        let pd = pd.ok_or_else(|| Error::new(Op::AllocParentDomain, ErrorKind::Unsupported))?;
        Ok(self.derive(AnyPd::new::<uverbs_mlx5::Context>(pd.with_thread(thread)?)))
    }
}
