//! The kernel's commands: one file per object, a request value in, a reply value out.
//!
//! Every function knows both encodings of its command where both exist and leaves the choice to
//! [`UverbsFile::dispatch`](crate::UverbsFile::dispatch). It adds the core's own words; what a
//! provider adds comes in as [`Uhw`](crate::sys::Uhw). Handles are plain numbers here;
//! [`Object`](crate::object::Object) owns them.
//!
//! Replies are checked: a create that returns no handle, a count beyond what there was room for or
//! an impossible length is [`BadReply`](crate::ErrorKind::BadReply).
//!
//! Six legacy numbers are left out because no kernel carries them out: `MODIFY_AH` (6), `QUERY_AH`
//! (7), `REG_SMR` (10), `QUERY_MR` (12), `BIND_MW` (15) and `PEEK_CQ` (22). Windows are bound by a
//! work request, regions queried by an ioctl method.
//!
//! The kernel versions in the docs are those in which a command appeared; what a driver has is
//! another matter, and is learned by asking (EOPNOTSUPP).
//!
//! [`Uhw`]: crate::sys::Uhw

mod address;
pub mod ah;
pub mod comp_channel;
pub mod comp_cntr;
pub mod context;
pub mod counters;
pub mod cq;
pub mod device;
pub mod dm;
pub mod dmabuf;
pub mod dmah;
pub mod event;
pub mod flow;
pub mod flow_action;
pub mod gid;
pub mod ind_table;
mod legacy;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod pd;
mod post;
pub mod qp;
mod qp_state;
pub mod srq;
#[cfg(test)]
mod tests;
pub mod wq;
pub mod xrcd;

use crate::error::{Op, Result};

/// A slot that a create method of a driver's own puts the handle of the new object into.
pub fn new_object_slot() -> std::cell::Cell<u32> {
    legacy::handle_slot()
}

/// The handle in such a slot, once the method was carried out.
///
/// # Errors
/// [`BadReply`](crate::ErrorKind::BadReply) when the kernel wrote none.
pub fn new_object_handle(op: Op, slot: &std::cell::Cell<u32>) -> Result<u32> {
    legacy::new_handle(op, slot.get())
}
