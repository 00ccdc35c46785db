//! The kernel's own file systems.

use crate::error::{Doing as _, Error};
use nix::mount::{MsFlags, mount};
use std::fs;

/// Where the control groups of commands are.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// Target, type, options.
const MOUNTS: [(&str, &str, &str); 9] = [
    ("/proc", "proc", ""),
    ("/sys", "sysfs", ""),
    ("/dev", "devtmpfs", "mode=0755"),
    ("/dev/pts", "devpts", "mode=0620,ptmxmode=0666"),
    ("/dev/shm", "tmpfs", "mode=1777"),
    ("/run", "tmpfs", "mode=0755"),
    ("/tmp", "tmpfs", "mode=1777"),
    (CGROUPS, "cgroup2", ""),
    ("/sys/kernel/debug", "debugfs", ""),
];

/// Mounts what programs expect to find.
pub(crate) fn mount_all() -> Result<(), Error> {
    for (target, kind, options) in MOUNTS {
        fs::create_dir_all(target).doing(|| format!("making {target}"))?;
        mount(
            Some(kind),
            target,
            Some(kind),
            MsFlags::empty(),
            Some(options),
        )
        .doing(|| format!("mounting {kind} on {target}"))?;
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
    ] {
        std::os::unix::fs::symlink(target, link).doing(|| format!("linking {link}"))?;
    }
    let _ = nix::unistd::sethostname("guest");
    // Every controller that the kernel has, so that a test may set limits; a missing one does not
    // matter.
    if let Ok(controllers) = fs::read_to_string(format!("{CGROUPS}/cgroup.controllers")) {
        for controller in controllers.split_whitespace() {
            let _ = fs::write(
                format!("{CGROUPS}/cgroup.subtree_control"),
                format!("+{controller}"),
            );
        }
    }
    Ok(())
}
