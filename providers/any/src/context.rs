//! Opened devices and protection domains of any provider.

use std::any::Any;
use std::sync::Arc;

use uverbs_core::contract::{
    self, Context as _, ContextBase, CqInit, DmabufInit, Extra, Gids, Mr, MrInit, QpInit, SrqInit,
};
use uverbs_core::sys::Uhw;
use uverbs_core::types::{AccessFlags, Address, AddressVector, MwType, RemoteKey};
use uverbs_core::{Error, Object, Op, Result};

use crate::{AnyCq, AnyQp, AnySrq, Of};

rows!(handle!(
    /// An opened device of any provider.
    ///
    /// It has what [`contract::Context`] has, in an enum and not in a table of functions: what a
    /// program never calls is not linked into it.
    AnyContext of Context, Boxed
));

impl AnyContext {
    /// Downcasts it to a `T`, a provider's type.
    pub fn of<T>(&self) -> Option<&T>
    where
        Self: Of<T>,
    {
        Of::of(self)
    }

    /// The common part of all contexts.
    pub fn base(&self) -> &ContextBase {
        rows!(arms!(*self, ref own => own.base()))
    }

    /// The same, mutable: to take what it holds.
    pub fn base_mut(&mut self) -> &mut ContextBase {
        rows!(arms!(*self, ref mut own => own.base_mut()))
    }

    /// The firmware version in the vendor's format.
    pub fn firmware_version(&self) -> String {
        rows!(arms!(*self, ref own => own.firmware_version()))
    }

    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// Those of [`contract::Context::alloc_pd`].
    pub fn alloc_pd(&self) -> Result<AnyPd> {
        rows!(arms!(*self, ref own => Ok(AnyPd::of_context(&**own, own.alloc_pd()?))))
    }

    /// `ibv_create_cq`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_cq`].
    pub fn create_cq(&self, init: &CqInit<'_>) -> Result<AnyCq> {
        rows!(arms!(*self, ref own => Ok(own.create_cq(init)?.into())))
    }

    /// `ibv_create_srq`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_srq`]; a domain of another provider.
    pub fn create_srq(&self, pd: &AnyPd, init: &SrqInit) -> Result<AnySrq> {
        const OP: Op = Op::CreateSharedReceiveQueue;
        rows!(arms!(*self, ref own => Ok(own.create_srq(pd.ours(&**own, OP)?, init)?.into())))
    }

    /// `ibv_create_qp`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_qp`]; a domain of another provider.
    pub fn create_qp(&self, pd: &AnyPd, init: &QpInit<'_>) -> Result<AnyQp> {
        const OP: Op = Op::CreateQueuePair;
        rows!(arms!(*self, ref own => Ok(own.create_qp(pd.ours(&**own, OP)?, init)?.into())))
    }

    /// `ibv_create_ah`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_address`]; a domain of another provider.
    pub fn create_address(
        &self,
        pd: &AnyPd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        const OP: Op = Op::CreateAddressHandle;
        rows!(arms!(*self, ref own => own.create_address(pd.ours(&**own, OP)?, vector, gids)))
    }

    /// Refuses in advance what the kernel's driver would refuse with a message in the log.
    ///
    /// # Errors
    /// Those of [`contract::Context::check_memory`].
    pub fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        rows!(arms!(*self, ref own => own.check_memory(op, access, moves)))
    }

    /// `ibv_reg_mr_iova`: registers memory. `keep` is released once the kernel no longer uses the
    /// region.
    ///
    /// # Errors
    /// Those of [`AnyContext::check_memory`] and [`ContextBase::register`].
    pub fn register(&self, pd: &AnyPd, init: &MrInit, keep: impl Any + Send + Sync) -> Result<Mr> {
        self.check_memory(Op::RegisterMemory, init.access, false)?;
        self.base().register(pd.object(), init, keep)
    }

    /// `ibv_reg_dmabuf_mr`: registers a part of a dma-buf.
    ///
    /// # Errors
    /// Those of [`ContextBase::register_dmabuf`].
    pub fn register_dmabuf(&self, pd: &AnyPd, init: &DmabufInit<'_>) -> Result<Mr> {
        self.base().register_dmabuf(pd.object(), init, &Uhw::NONE)
    }

    /// `ibv_alloc_mw`.
    ///
    /// # Errors
    /// Those of [`ContextBase::alloc_window`].
    pub fn alloc_window(&self, pd: &AnyPd, kind: MwType) -> Result<(Object, RemoteKey)> {
        self.base().alloc_window(pd.object(), kind)
    }
}

/// A protection domain of any provider.
#[derive(Debug)]
pub struct AnyPd {
    object: Arc<Object>,
    /// The provider's type for it.
    own: Box<dyn Extra>,
}

impl AnyPd {
    /// Wraps a protection domain of the provider whose contexts are `C`.
    pub fn new<C: contract::Context>(pd: C::Pd) -> Self {
        Self {
            object: Arc::clone(C::pd_object(&pd)),
            own: Box::new(pd),
        }
    }

    /// Downcasts it to a `T`, a provider's type.
    pub fn of<T: Any>(&self) -> Option<&T> {
        (*self.own).get()
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The kernel object, without the rest.
    pub fn into_object(self) -> Arc<Object> {
        self.object
    }

    fn of_context<C: contract::Context>(_: &C, pd: C::Pd) -> Self {
        Self::new::<C>(pd)
    }

    /// The domain, for a context of its provider.
    fn ours<C: contract::Context>(&self, _: &C, op: Op) -> Result<&C::Pd> {
        self.of().ok_or_else(|| {
            Error::invalid(op, "protection domain").hint("it belongs to another device")
        })
    }
}
