//! The kernel's commands: one file per object, a request value in, a reply value out.
//!
//! Every function implements both encodings of its command where both exist, and leaves the choice
//! to [`UverbsFile::dispatch`](crate::UverbsFile::dispatch). It encodes the core's part; driver
//! data is passed in as [`Uhw`](crate::sys::Uhw). Handles are plain numbers here;
//! [`Object`](crate::object::Object) owns them.
//!
//! Replies are checked: a create without a handle, a count that exceeds the buffer, or an
//! impossible length is [`BadReply`](crate::ErrorKind::BadReply).
//!
//! Six legacy commands are left out because no kernel implements them: `MODIFY_AH` (6), `QUERY_AH`
//! (7), `REG_SMR` (10), `QUERY_MR` (12), `BIND_MW` (15) and `PEEK_CQ` (22). Memory windows are
//! bound by a work request, regions are queried by an ioctl method.
//!
//! The kernel versions in the docs are those in which a command appeared. Whether a driver supports
//! it is only known by issuing it (EOPNOTSUPP).
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

pub(crate) use address::address_of_ah;

use crate::error::{Op, Result};

/// A slot for the handle that a driver-specific create method returns.
pub fn new_object_slot() -> std::cell::Cell<u32> {
    legacy::handle_slot()
}

/// The handle in such a slot, after the method succeeded.
///
/// # Errors
/// [`BadReply`](crate::ErrorKind::BadReply) if the kernel wrote none.
pub fn new_object_handle(op: Op, slot: &std::cell::Cell<u32>) -> Result<u32> {
    legacy::new_handle(op, slot.get())
}
