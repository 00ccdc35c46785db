//! Processes without privileges.

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

/// A user who is nobody.
const NOBODY: u32 = 1000;

/// Gives up every privilege, as a daemon does.
pub(crate) fn become_nobody() {
    let (gid, uid) = (Gid::from_raw(NOBODY), Uid::from_raw(NOBODY));
    setgroups(&[]).expect("no more groups");
    setresgid(gid, gid, gid).expect("another group");
    setresuid(uid, uid, uid).expect("another user");
    // Its own /proc files are closed to it otherwise.
    nix::sys::prctl::set_dumpable(true).expect("dumpable again");
}
