//! What a provider must do.
//!
//! A provider turns requests into its device's words and maps its device's queues. It opens
//! nothing and finds nothing: it is given a [`Channel`] and speaks through [`cmd`].
//! The facade holds providers in an enum and calls these traits directly; there are no trait
//! objects on the data path.

mod device;
mod gids;
mod memory;
mod queues;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use device::{
    advise_memory, attach_multicast, completion_channel, detach_multicast, event_file, query_port,
    query_port_speed, read_async_event, read_completion_event, set_nonblocking,
};
pub use gids::Gids;
pub use memory::{DmabufInit, Mr, MrChange, MrInit};
pub use queues::{Cq, CqInit, Qp, QpInit, Srq, SrqInit, Unpolled};

pub use crate::types::asked::asked_flags;

use crate::channel::Channel;
use crate::cmd;
use crate::error::{Op, Result};
use crate::object::{Object, ObjectKind};
use crate::sys::Uhw;
use crate::types::{AccessFlags, Address, AddressVector, DeviceAttr, MwType, RemoteKey};

/// An opened device of one vendor (`verbs_context_ops`).
pub trait Context: Debug + Send + Sync + Sized {
    /// Its protection domains.
    type Pd: Debug + Send + Sync;
    /// Its completion queues.
    type Cq: Cq;
    /// Its queue pairs.
    type Qp: Qp;
    /// Its shared receive queues.
    type Srq: Srq;

    /// Opens a user context on `channel`.
    ///
    /// # Errors
    /// Those of the commands, and of what they answer.
    fn open(channel: Arc<Channel>) -> Result<Self>;

    /// What the kernel said when the context was opened.
    fn opened(&self) -> &cmd::context::Context;

    /// The same, to take what it holds.
    fn opened_mut(&mut self) -> &mut cmd::context::Context;

    /// The device behind it.
    fn channel(&self) -> &Arc<Channel>;

    /// What the device can do, asked when it was opened.
    fn device(&self) -> &DeviceAttr;

    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// Those of the command.
    fn alloc_pd(&self) -> Result<Self::Pd>;

    /// The kernel object of a domain.
    fn pd_object(pd: &Self::Pd) -> &Arc<Object>;

    /// `ibv_create_cq`.
    ///
    /// # Errors
    /// Limits of the device, those of the command, those of mapping its queue.
    fn create_cq(&self, init: &CqInit<'_>) -> Result<Self::Cq>;

    /// `ibv_create_srq`.
    ///
    /// # Errors
    /// As [`create_cq`](Self::create_cq).
    fn create_srq(&self, pd: &Self::Pd, init: &SrqInit) -> Result<Self::Srq>;

    /// `ibv_create_qp`.
    ///
    /// # Errors
    /// As [`create_cq`](Self::create_cq).
    fn create_qp(&self, pd: &Self::Pd, init: &QpInit<'_>) -> Result<Self::Qp>;

    /// `ibv_create_ah`. `gids` are for providers that have to know the own GID's type, or the own interfaces.
    ///
    /// # Errors
    /// Those of the command, of looking up, and of finding the way to the destination.
    fn create_address(
        &self,
        pd: &Self::Pd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address>;

    /// The firmware's version as this vendor writes it.
    fn firmware_version(&self) -> String;

    /// Refuses what the kernel's driver would refuse with a complaint in the log: access that it does
    /// not have, or (`moves`) memory that is to change under a region.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        let _ = (op, access, moves);
        Ok(())
    }

    /// `ibv_reg_mr_iova`: registers memory. `keep` is released once the kernel no longer uses the region.
    ///
    /// # Errors
    /// Those of the command. Where nobody knows whether the region exists
    /// ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), `keep` is given up.
    fn register(&self, pd: &Self::Pd, init: &MrInit, keep: impl Any + Send + Sync) -> Result<Mr> {
        self.check_memory(Op::RegisterMemory, init.access, false)?;
        let pd = Self::pd_object(pd);
        let request = cmd::mr::Register {
            pd: pd.handle(),
            start: init.address,
            length: init.length,
            iova: init.iova,
            access: self.opened().core_support.final_access(init.access),
        };
        let channel = self.channel();
        Mr::create(channel, pd, keep, || {
            cmd::mr::register(channel, &request, &Uhw::NONE)
        })
    }

    /// `ibv_reg_dmabuf_mr`: registers a part of a dmabuf.
    ///
    /// # Errors
    /// Those of the command.
    fn register_dmabuf(&self, pd: &Self::Pd, init: &DmabufInit<'_>) -> Result<Mr> {
        self.register_dmabuf_with(pd, init, &Uhw::NONE)
    }

    /// The same with what a driver adds.
    ///
    /// # Errors
    /// Those of the command.
    fn register_dmabuf_with(
        &self,
        pd: &Self::Pd,
        init: &DmabufInit<'_>,
        uhw: &Uhw<'_>,
    ) -> Result<Mr> {
        let pd = Self::pd_object(pd);
        let request = cmd::mr::RegisterDmabuf {
            pd: pd.handle(),
            fd: init.fd,
            offset: init.offset,
            length: init.length,
            iova: init.iova,
            access: self.opened().core_support.final_access(init.access),
        };
        let channel = self.channel();
        Mr::create(channel, pd, (), || {
            cmd::mr::register_dmabuf(channel, &request, uhw)
        })
    }

    /// `ibv_alloc_mw`.
    ///
    /// # Errors
    /// Those of the command.
    fn alloc_window(&self, pd: &Self::Pd, kind: MwType) -> Result<(Object, RemoteKey)> {
        let pd = Self::pd_object(pd);
        let done = cmd::mw::alloc(self.channel(), pd.handle(), kind, &Uhw::NONE)?;
        let object = Object::new(
            self.channel(),
            ObjectKind::MemoryWindow,
            done.handle,
            [Arc::clone(pd)],
        );
        Ok((object, done.rkey))
    }
}
