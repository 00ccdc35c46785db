//! An opened rxe device.

use std::sync::Arc;

use uverbs_core::contract::{self, ContextBase, CqInit, Gids, OpenInit, QpInit, SrqInit};
use uverbs_core::sys::Uhw;
use uverbs_core::types::{AccessFlags, Address, AddressVector};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile, cmd};

use crate::{CompletionQueue, QueuePair, SharedReceiveQueue, ah, limits};

/// An opened rxe device.
#[derive(Debug)]
pub struct Context {
    base: ContextBase,
}

impl contract::Context for Context {
    type Pd = Arc<Object>;
    type Cq = CompletionQueue;
    type Qp = QueuePair;
    type Srq = SharedReceiveQueue;

    /// Two system calls: one for the context, and one for the device's limits, against which later
    /// calls are checked.
    fn open(file: Arc<UverbsFile>, _: &OpenInit<'_>) -> Result<Self> {
        let opened = cmd::context::get(&file, &cmd::context::GetContext::default(), &Uhw::NONE)?;
        let device = cmd::device::query(&file, &Uhw::NONE)?;
        Ok(Self {
            base: ContextBase {
                file,
                opened,
                device,
            },
        })
    }

    fn base(&self) -> &ContextBase {
        &self.base
    }

    fn base_mut(&mut self) -> &mut ContextBase {
        &mut self.base
    }

    fn alloc_pd(&self) -> Result<Self::Pd> {
        let handle = cmd::pd::alloc(&self.base.file, &Uhw::NONE)?;
        Ok(Arc::new(Object::new(
            &self.base.file,
            &cmd::pd::KIND,
            handle,
            [],
        )))
    }

    fn pd_object(pd: &Self::Pd) -> &Arc<Object> {
        pd
    }

    fn create_cq(&self, init: &CqInit<'_>) -> Result<Self::Cq> {
        CompletionQueue::create(&self.base, init)
    }

    fn create_srq(&self, pd: &Self::Pd, init: &SrqInit) -> Result<Self::Srq> {
        SharedReceiveQueue::create(&self.base, pd, init)
    }

    fn create_qp(&self, pd: &Self::Pd, init: &QpInit<'_>) -> Result<Self::Qp> {
        QueuePair::create(&self.base, pd, init)
    }

    fn create_address(
        &self,
        pd: &Self::Pd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        ah::create(&self.base.file, pd, vector, gids)
    }

    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        if moves {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("change", "memory"));
        }
        limits::access(op, access)
    }

    fn firmware_version(&self) -> String {
        let raw = self.base.device.fw_ver.raw();
        format!(
            "{}.{}.{}",
            raw >> 32 & 0xffff,
            raw >> 16 & 0xffff,
            raw & 0xffff
        )
    }
}
