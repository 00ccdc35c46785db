//! Multicast groups of a queue pair. The kernel destroys none that is in one (EBUSY).

use crate::cmd;
use crate::error::Result;
use crate::file::UverbsFile;
use crate::object::{Before, Object};
use crate::types::Gid;

/// That a queue pair is in a group. Before its destroy it leaves.
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

/// `ibv_attach_mcast`, until [`detach_multicast`] or the destroy of `qp`.
///
/// # Errors
/// Those of the command.
pub fn attach_multicast(qp: &Object, group: &Gid, lid: u16) -> Result<()> {
    let membership = Membership { group: *group, lid };
    // Noted before: leaving a group that it is not in does nothing.
    qp.before_destroy(membership);
    cmd::mcast::attach(qp.file(), qp.handle(), group, lid).inspect_err(|error| {
        if !error.outcome_is_unknown() {
            qp.not_before_destroy(&membership);
        }
    })
}

/// `ibv_detach_mcast`.
///
/// # Errors
/// Those of the command.
pub fn detach_multicast(qp: &Object, group: &Gid, lid: u16) -> Result<()> {
    cmd::mcast::detach(qp.file(), qp.handle(), group, lid)?;
    qp.not_before_destroy(&Membership { group: *group, lid });
    Ok(())
}
