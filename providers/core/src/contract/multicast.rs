//! Multicast groups of a queue pair. The kernel does not destroy a queue pair that is in a group
//! (EBUSY).

use crate::cmd;
use crate::error::Result;
use crate::file::UverbsFile;
use crate::object::{Before, Object};
use crate::types::Gid;

/// The membership of a queue pair in a group, which it leaves before it is destroyed.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Membership {
    group: Gid,
    lid: u16,
}

impl Before for Membership {
    fn issue(&self, file: &UverbsFile, handle: u32) -> Result<()> {
        cmd::mcast::detach(file, handle, &self.group, self.lid)
    }
}

/// `ibv_attach_mcast`; in effect until [`detach_multicast`] or the destroy of `qp`.
///
/// # Errors
/// Those of the command.
pub fn attach_multicast(qp: &Object, group: &Gid, lid: u16) -> Result<()> {
    let membership = Membership { group: *group, lid };
    // Registered before the command: leaving a group that it is not in does nothing.
    qp.before_destroy(membership);
    cmd::mcast::attach(qp.file(), qp.handle(), group, lid).inspect_err(|error| {
        if !error.outcome_is_unknown() {
            qp.cancel_before_destroy(&membership);
        }
    })
}

/// `ibv_detach_mcast`.
///
/// # Errors
/// Those of the command.
pub fn detach_multicast(qp: &Object, group: &Gid, lid: u16) -> Result<()> {
    cmd::mcast::detach(qp.file(), qp.handle(), group, lid)?;
    qp.cancel_before_destroy(&Membership { group: *group, lid });
    Ok(())
}
