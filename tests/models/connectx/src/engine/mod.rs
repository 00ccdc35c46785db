//! The moving parts: event and completion queues, work requests, transports, and the fabric that
//! joins functions.

pub(crate) mod atomic;
pub(crate) mod completion;
mod compose;
pub(crate) mod compress;
mod copy;
mod ethernet;
pub(crate) mod event;
mod fabric;
pub(crate) mod flush;
mod header;
mod integrity;
mod message;
pub(crate) mod misbehave;
pub(crate) mod paging;
mod raw;
pub(crate) mod receive;
mod respond;
mod route;
mod scribble;
mod send;
mod sequence;
mod shaper;
mod subnet;
mod uar;
mod umr;
mod wqe;

pub use fabric::{Fabric, FunctionId, Options};
pub use uar::Doorbells;
pub(crate) use uar::Rung;
