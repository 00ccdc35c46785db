//! The contract of every provider's contexts ([`contract::Context`]), with the module that
//! implements each part.

use std::sync::Arc;

use uverbs_core::contract::{self, ContextBase, CqInit, Gids, OpenInit, QpInit, SrqInit};
use uverbs_core::types::{Address, AddressVector};
use uverbs_core::{Object, Result, UverbsFile};

use crate::context::{Context, ProtectionDomain, ah};
use crate::cq::CompletionQueue;
use crate::qp::{QpExtra, QueuePair};
use crate::srq::SharedReceiveQueue;

impl contract::Context for Context {
    type Pd = ProtectionDomain;
    type Cq = CompletionQueue;
    type Qp = QueuePair;
    type Srq = SharedReceiveQueue;

    /// Two system calls: one opens the context, the other queries the device's limits, against
    /// which later calls are checked. The provider's addition may be
    /// [`Doorbells`](crate::Doorbells).
    fn open(file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<Self> {
        Self::with_doorbells(file, init.extra().copied().unwrap_or_default())
    }

    fn base(&self) -> &ContextBase {
        &self.base
    }

    fn base_mut(&mut self) -> &mut ContextBase {
        &mut self.base
    }

    fn alloc_pd(&self) -> Result<Self::Pd> {
        ProtectionDomain::alloc(self.file())
    }

    fn pd_object(pd: &Self::Pd) -> &Arc<Object> {
        pd.object()
    }

    /// The provider's addition may be [`Entries`](crate::Entries).
    fn create_cq(&self, init: &CqInit<'_>) -> Result<Self::Cq> {
        let entries = init.extra()?.copied().unwrap_or_default();
        CompletionQueue::create(self, init, entries)
    }

    fn create_srq(&self, pd: &Self::Pd, init: &SrqInit) -> Result<Self::Srq> {
        SharedReceiveQueue::create(self, pd, init)
    }

    /// The provider's addition may be a [`QpExtra`].
    fn create_qp(&self, pd: &Self::Pd, init: &QpInit<'_>) -> Result<Self::Qp> {
        let extra = init.extra::<QpExtra>()?.cloned().unwrap_or_default();
        extra.create(self, pd, init)
    }

    fn create_address(
        &self,
        pd: &Self::Pd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        ah::create(self, pd.object(), vector, gids)
    }

    fn firmware_version(&self) -> String {
        let raw = self.device().fw_ver.raw();
        format!(
            "{}.{}.{:04}",
            raw >> 32 & 0xffff,
            raw >> 16 & 0xffff,
            raw & 0xffff
        )
    }
}
