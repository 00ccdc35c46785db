//! Unprivileged processes.

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

/// An unprivileged user.
const UNPRIVILEGED: u32 = 1000;

/// Drops every privilege, as a daemon does.
pub(crate) fn drop_privileges() {
    let (gid, uid) = (Gid::from_raw(UNPRIVILEGED), Uid::from_raw(UNPRIVILEGED));
    setgroups(&[]).expect("no more groups");
    setresgid(gid, gid, gid).expect("another group");
    setresuid(uid, uid, uid).expect("another user");
    // Otherwise its own /proc files are inaccessible to it.
    nix::sys::prctl::set_dumpable(true).expect("dumpable again");
}
