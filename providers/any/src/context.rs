//! Opened devices and protection domains of any provider.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use uverbs_core::contract::{
    self, ContextBase, CqInit, DmabufInit, Extra, Gids, Mr, MrInit, QpInit, SrqInit,
};
use uverbs_core::sys::Uhw;
use uverbs_core::types::{AccessFlags, Address, AddressVector, MwType, RemoteKey};
use uverbs_core::{Error, Object, Op, Result};

use crate::{AnyCq, AnyQp, AnySrq};

/// An opened device of any provider: [`contract::Context`] without its associated types.
pub trait AnyContext: Any + Debug + Send + Sync {
    /// The common part of all contexts.
    fn base(&self) -> &ContextBase;

    /// The same, mutable: to take what it holds.
    fn base_mut(&mut self) -> &mut ContextBase;

    /// The firmware version in the vendor's format.
    fn firmware_version(&self) -> String;

    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// Those of [`contract::Context::alloc_pd`].
    fn alloc_pd(&self) -> Result<AnyPd>;

    /// `ibv_create_cq`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_cq`].
    fn create_cq(&self, init: &CqInit<'_>) -> Result<AnyCq>;

    /// `ibv_create_srq`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_srq`]; a domain of another provider.
    fn create_srq(&self, pd: &AnyPd, init: &SrqInit) -> Result<AnySrq>;

    /// `ibv_create_qp`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_qp`]; a domain of another provider.
    fn create_qp(&self, pd: &AnyPd, init: &QpInit<'_>) -> Result<AnyQp>;

    /// `ibv_create_ah`.
    ///
    /// # Errors
    /// Those of [`contract::Context::create_address`]; a domain of another provider.
    fn create_address(
        &self,
        pd: &AnyPd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address>;

    /// Refuses in advance what the kernel's driver would refuse with a message in the log.
    ///
    /// # Errors
    /// Those of [`contract::Context::check_memory`].
    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()>;
}

impl<T> AnyContext for T
where
    T: contract::Context + Any,
    AnyCq: From<T::Cq>,
    AnySrq: From<T::Srq>,
    AnyQp: From<T::Qp>,
{
    fn base(&self) -> &ContextBase {
        contract::Context::base(self)
    }

    fn base_mut(&mut self) -> &mut ContextBase {
        contract::Context::base_mut(self)
    }

    fn firmware_version(&self) -> String {
        contract::Context::firmware_version(self)
    }

    fn alloc_pd(&self) -> Result<AnyPd> {
        contract::Context::alloc_pd(self).map(AnyPd::new::<T>)
    }

    fn create_cq(&self, init: &CqInit<'_>) -> Result<AnyCq> {
        contract::Context::create_cq(self, init).map(AnyCq::from)
    }

    fn create_srq(&self, pd: &AnyPd, init: &SrqInit) -> Result<AnySrq> {
        let pd = pd.ours::<T>(Op::CreateSharedReceiveQueue)?;
        contract::Context::create_srq(self, pd, init).map(AnySrq::from)
    }

    fn create_qp(&self, pd: &AnyPd, init: &QpInit<'_>) -> Result<AnyQp> {
        let pd = pd.ours::<T>(Op::CreateQueuePair)?;
        contract::Context::create_qp(self, pd, init).map(AnyQp::from)
    }

    fn create_address(
        &self,
        pd: &AnyPd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        let pd = pd.ours::<T>(Op::CreateAddressHandle)?;
        contract::Context::create_address(self, pd, vector, gids)
    }

    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        contract::Context::check_memory(self, op, access, moves)
    }
}

impl dyn AnyContext {
    /// Downcasts it to a `T`, a provider's type.
    pub fn of<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
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

    fn ours<C: contract::Context>(&self, op: Op) -> Result<&C::Pd> {
        self.of().ok_or_else(|| {
            Error::invalid(op, "protection domain").hint("it belongs to another device")
        })
    }
}
