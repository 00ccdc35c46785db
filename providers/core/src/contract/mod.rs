//! What a provider must do.
//!
//! A provider encodes requests for its device and maps its device's queues. It does not find or
//! open devices: it is given a [`UverbsFile`] and issues commands through [`cmd`](crate::cmd). The
//! queues of all providers are held in an enum that implements these traits by delegation; there
//! are no trait objects on the data path. The vendor-specific part of a request is an [`Extra`],
//! which the vendor's provider uses and others refuse.

mod base;
mod device;
mod extra;
pub mod flow;
mod gids;
mod link;
mod memory;
mod multicast;
pub mod posting;
mod queues;
mod slot;
#[cfg(test)]
mod tests;
mod typed;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use crate::cmd::dmah::{Alloc as DmaHints, MemoryType};
pub use crate::cmd::mr::Source;
pub use base::{ContextBase, QpBase};
pub use device::{
    advise_memory, completion_channel, event_file, moderate_cq, query_port, query_port_speed,
    read_async_event, read_completion_event, set_nonblocking,
};
pub use extra::{Extra, OpenInit};
pub use gids::Gids;
pub use link::Link;
pub use memory::{DmabufInit, HintedInit, Mr, MrChange, MrInit, query_region};
pub use multicast::{attach_multicast, detach_multicast};
pub use queues::{Cq, CqInit, Qp, QpInit, Srq, SrqInit, Unpolled, UsualSend};
pub use slot::{CompletionSlot, Found, RawCompletion, Success, Usual};
pub use typed::{
    Entry, PlainReceiver, PlainReceives, PlainSender, PlainSends, Receiver, RecvBatch, SendBatch,
    Sender, TypedCq, TypedQp, Vendor,
};

pub use crate::types::checked::checked_flags;

use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{AccessFlags, Address, AddressVector};

/// An opened device of one vendor (`verbs_context_ops`).
pub trait Context: Debug + Send + Sync + Sized {
    /// The provider's protection domains.
    type Pd: Any + Debug + Send + Sync;
    /// The provider's completion queues.
    type Cq: Cq;
    /// The provider's queue pairs.
    type Qp: Qp;
    /// The provider's shared receive queues.
    type Srq: Srq;

    /// Opens a user context on `file`.
    ///
    /// # Errors
    /// Those of the commands, and of checking their replies.
    fn open(file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<Self>;

    /// The common part of all contexts.
    fn base(&self) -> &ContextBase;

    /// The same, mutable: to take what it holds.
    fn base_mut(&mut self) -> &mut ContextBase;

    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// Those of the command.
    fn alloc_pd(&self) -> Result<Self::Pd>;

    /// The kernel object of a protection domain.
    fn pd_object(pd: &Self::Pd) -> &Arc<Object>;

    /// `ibv_create_cq`.
    ///
    /// # Errors
    /// Limits of the device; those of the command and of mapping the queue.
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

    /// `ibv_create_ah`. `gids` is for providers that need the type of the source GID, or the local
    /// interfaces.
    ///
    /// # Errors
    /// Those of the command, of GID lookups, and of resolving the path to the destination.
    fn create_address(
        &self,
        pd: &Self::Pd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address>;

    /// The firmware version in the vendor's format.
    fn firmware_version(&self) -> String;

    /// Refuses in advance what the kernel's driver would refuse with a message in the log: access
    /// rights that it does not support, or (`moves`) a change of a region's memory.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        let _ = (op, access, moves);
        Ok(())
    }
}
