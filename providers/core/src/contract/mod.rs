//! What a provider must do.
//!
//! A provider turns requests into its device's words and maps its device's queues. It opens
//! nothing and finds nothing: it is given a [`UverbsFile`] and speaks through [`cmd`](crate::cmd).
//! Queues of all providers are held in an enum that implements these traits by calling them; there
//! are no trait objects on the data path. What one vendor adds to a request travels in it as an
//! [`Extra`], which its provider looks into and others refuse.

mod base;
mod device;
mod extra;
mod gids;
mod link;
mod memory;
mod multicast;
mod queues;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use base::{ContextBase, QpBase};
pub use device::{
    advise_memory, completion_channel, event_file, query_port, query_port_speed, read_async_event,
    read_completion_event, set_nonblocking,
};
pub use extra::{Extra, OpenInit};
pub use gids::Gids;
pub use link::Link;
pub use memory::{DmabufInit, Mr, MrChange, MrInit};
pub use multicast::{attach_multicast, detach_multicast};
pub use queues::{Cq, CqInit, Qp, QpInit, Srq, SrqInit, Unpolled};

pub use crate::types::asked::asked_flags;

use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{AccessFlags, Address, AddressVector};

/// An opened device of one vendor (`verbs_context_ops`).
pub trait Context: Debug + Send + Sync + Sized {
    /// Its protection domains.
    type Pd: Any + Debug + Send + Sync;
    /// Its completion queues.
    type Cq: Cq;
    /// Its queue pairs.
    type Qp: Qp;
    /// Its shared receive queues.
    type Srq: Srq;

    /// Opens a user context on `file`.
    ///
    /// # Errors
    /// Those of the commands, and of what they answer.
    fn open(file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<Self>;

    /// What it has in common with all others.
    fn base(&self) -> &ContextBase;

    /// The same, to take what it holds.
    fn base_mut(&mut self) -> &mut ContextBase;

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

    /// `ibv_create_ah`. `gids` are for providers that have to know the own GID's type, or the own
    /// interfaces.
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

    /// Refuses what the kernel's driver would refuse with a complaint in the log: access that it
    /// does not have, or (`moves`) memory that is to change under a region.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        let _ = (op, access, moves);
        Ok(())
    }
}
