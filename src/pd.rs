//! Protection domains.

use std::sync::Arc;

use uverbs_any::AnyPd;
use uverbs_core::types::{AddressVector, MwType};
use uverbs_core::{Error, ErrorKind, Object, Op, Result};

use crate::transport::Plain;
use crate::{
    AddressHandle, CompletionQueue, Context, MemoryWindow, QueuePairBuilder, SharedReceiveQueue,
    SharedReceiveQueueBuilder,
};

/// `ibv_pd`—what queue pairs, memory and address handles must share to work together.
///
/// Cheap to clone. The kernel's domain lives until everything in it is gone.
#[doc(alias = "ibv_pd")]
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) pd: AnyPd,
    pub(crate) context: Context,
    /// The domain that this one is the same as, for a parent domain.
    of: Option<ProtectionDomain>,
}

impl ProtectionDomain {
    pub(crate) fn alloc(context: &Context) -> Result<Self> {
        Ok(Self {
            inner: Arc::new(Inner {
                pd: context.inner.provider.alloc_pd()?,
                context: context.clone(),
                of: None,
            }),
        })
    }

    /// The same domain, known to the provider as `pd`.
    pub(crate) fn derive(&self, pd: AnyPd) -> Self {
        Self {
            inner: Arc::new(Inner {
                pd,
                context: self.context().clone(),
                of: Some(self.root().clone()),
            }),
        }
    }

    /// The domain that the kernel knows.
    fn root(&self) -> &Self {
        self.inner.of.as_ref().unwrap_or(self)
    }

    /// The device it is on.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// True if both are the same domain for the device; a parent domain is the same as the one it
    /// was made from.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || Arc::ptr_eq(&self.root().inner, &other.root().inner)
    }

    /// A number that no other domain has while this one, or anything in it, exists; equal for
    /// domains that [are the same](Self::is_same).
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.root().inner).addr()
    }

    /// `ibv_create_qp`—returns a builder for a queue pair whose completions go to `send_cq` and
    /// `recv_cq`; [`build`](QueuePairBuilder::build) creates it.
    ///
    /// `transport` is a type of [`transport`](crate::transport), such as
    /// [`Rc`](crate::transport::Rc), or a [`QpType`](crate::QpType) that is known only at run time.
    #[doc(alias = "ibv_create_qp")]
    #[doc(alias = "ibv_create_qp_ex")]
    pub fn queue_pair<'a, T: Plain>(
        &'a self,
        transport: T,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, T> {
        QueuePairBuilder::new(self, transport, send_cq, recv_cq)
    }

    /// The name of [`queue_pair`](Self::queue_pair) in the `ibverbs` crate. Like that, it returns a
    /// builder and creates nothing by itself.
    pub fn create_qp<'a, T: Plain>(
        &'a self,
        transport: T,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, T> {
        self.queue_pair(transport, send_cq, recv_cq)
    }

    /// `ibv_create_srq`—creates a shared receive queue for `max_wr` requests of `max_sge`
    /// scatter/gather entries each.
    ///
    /// # Errors
    /// As [`SharedReceiveQueueBuilder::build`].
    #[doc(alias = "ibv_create_srq")]
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<SharedReceiveQueue> {
        self.shared_receive_queue(max_wr).max_sge(max_sge).build()
    }

    /// `ibv_create_srq`—returns a builder for a shared receive queue for at least `max_wr`
    /// requests, with a limit or `user_data`.
    #[doc(alias = "ibv_create_srq_ex")]
    pub fn shared_receive_queue(&self, max_wr: u32) -> SharedReceiveQueueBuilder<'_> {
        SharedReceiveQueueBuilder::new(self, max_wr)
    }

    /// `ibv_create_ah`—resolves a path for datagrams. One system call on rxe; it may wait for the
    /// network to resolve an address.
    ///
    /// # Errors
    /// EINVAL for a port or GID index that the device does not have, or without a global route
    /// where the port needs one; ENETUNREACH, EHOSTUNREACH and the like when there is no route.
    #[doc(alias = "ibv_create_ah")]
    pub fn create_ah(&self, vector: &AddressVector) -> Result<AddressHandle> {
        AddressHandle::create(self, vector)
    }

    /// `ibv_alloc_mw`—allocates a memory window. One system call.
    ///
    /// # Errors
    /// EINVAL for a type that the device does not have; ENOMEM.
    #[doc(alias = "ibv_alloc_mw")]
    pub fn alloc_mw(&self, kind: MwType) -> Result<MemoryWindow> {
        MemoryWindow::alloc(self, kind)
    }

    /// `ibv_dealloc_pd`—frees the domain. One system call, none for a parent domain. Dropping the
    /// last clone does the same.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while clones, parent domains of it, or any objects in the domain
    /// exist; it lives on with them.
    #[doc(alias = "ibv_dealloc_pd")]
    pub fn dealloc(self) -> Result<()> {
        let op = Op::DeallocProtectionDomain;
        let inner = Arc::try_unwrap(self.inner).map_err(|shared| {
            Error::new(op, ErrorKind::Busy).fact("clones", Arc::strong_count(&shared) - 1)
        })?;
        if inner.of.is_some() {
            return Ok(());
        }
        Object::destroy_shared(inner.pd.into_object()).map(|_| ())
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        self.inner.pd.object()
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        Arc::ptr_eq(&self.inner.context.inner, &context.inner)
    }
}
