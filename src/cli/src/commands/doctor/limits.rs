//! Limits of this process: locked memory, and the rdma cgroup.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::units;

/// Enough for programs with a few queues and buffers.
const COMFORTABLE: u64 = 64 << 20;

/// `CAP_IPC_LOCK`, as a bit of the capability sets.
const IPC_LOCK: u64 = 1 << 14;

pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![memlock()];
    findings.extend(cgroup());
    findings
}

fn memlock() -> Finding {
    const CHECK: &str = "memlock";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if capabilities(&status).is_some_and(|bits| bits & IPC_LOCK != 0) {
        return Finding::ok(CHECK, "no limit for this process (CAP_IPC_LOCK)");
    }
    match locked_limit(&limits) {
        None => Finding::warn(CHECK, "RLIMIT_MEMLOCK cannot be read from /proc"),
        Some(u64::MAX) => Finding::ok(CHECK, "RLIMIT_MEMLOCK is unlimited"),
        Some(limit) if limit >= COMFORTABLE => Finding::ok(
            CHECK,
            format_args!("{} may be locked", units::bytes(limit)),
        ),
        Some(limit) => Finding::warn(
            CHECK,
            format_args!(
                "only {} may be locked, and registered memory and queues are locked",
                units::bytes(limit)
            ),
        )
        .fix(
            "ulimit -l unlimited; for good: '* - memlock unlimited' in /etc/security/limits.d/rdma.conf, \
             LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container",
        ),
    }
}

/// The soft limit of locked memory in bytes, `u64::MAX` for none.
fn locked_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The effective capabilities.
fn capabilities(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Limits of handles and objects per device.
fn cgroup() -> Vec<Finding> {
    const CHECK: &str = "cgroup";
    let Some(folder) = fs::read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| folder(&text))
    else {
        return vec![Finding::ok(
            CHECK,
            "this process is in none that counts RDMA objects",
        )];
    };
    let Ok(maximum) = fs::read_to_string(folder.join("rdma.max")) else {
        return vec![Finding::ok(CHECK, "no limit on RDMA objects")];
    };
    let current = fs::read_to_string(folder.join("rdma.current")).unwrap_or_default();
    let limits = limits(&maximum, &current);
    if limits.is_empty() {
        return vec![Finding::ok(CHECK, "no limit on RDMA objects")];
    }
    let finding = |limit: Limit| {
        let Limit {
            device,
            what,
            used,
            max,
        } = limit;
        let message = format!("{used} of {max} {what} in use");
        if used >= max {
            Finding::fail(CHECK, message)
                .about(&device)
                .fix(format_args!(
                    "echo '{device} {what}=max' > {}",
                    folder.join("rdma.max").display()
                ))
        } else {
            Finding::warn(CHECK, message).about(device)
        }
    };
    limits.into_iter().map(finding).collect()
}

/// Where the rdma controller's files of this process are: in the unified hierarchy, or in one of
/// its own.
fn folder(cgroups: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "rdma") {
            return Some(Path::new("/sys/fs/cgroup/rdma").join(path));
        }
        if controllers.is_empty() {
            unified = Some(Path::new("/sys/fs/cgroup").join(path));
        }
    }
    unified
}

#[derive(Debug, PartialEq)]
struct Limit {
    device: String,
    what: String,
    used: u64,
    max: u64,
}

/// The limits that are set: `rxe0 hca_handle=2 hca_object=max` has one.
fn limits(maximum: &str, current: &str) -> Vec<Limit> {
    let value = |text: &str, device: &str, what: &str| {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(device))?;
        line.split(' ')
            .find_map(|word| word.strip_prefix(what)?.strip_prefix('=')?.parse().ok())
    };
    let mut found = Vec::new();
    for line in maximum.lines() {
        let mut words = line.split(' ');
        let Some(device) = words.next() else { continue };
        for word in words {
            if let Some((what, max)) = word.split_once('=')
                && let Ok(max) = max.parse()
            {
                found.push(Limit {
                    device: device.to_owned(),
                    what: what.to_owned(),
                    used: value(current, device, what).unwrap_or(0),
                    max,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_locked_memory() {
        let text = "Max processes             100      100      processes\n\
                    Max locked memory         8388608              unlimited            bytes\n";
        assert_eq!(locked_limit(text), Some(8 << 20));
        let text = "Max locked memory         unlimited            unlimited            bytes\n";
        assert_eq!(locked_limit(text), Some(u64::MAX));
        assert_eq!(locked_limit("nothing"), None);
    }

    #[test]
    fn capabilities_are_hexadecimal() {
        assert_eq!(
            capabilities("Name:\tx\nCapEff:\t0000000000004000\n"),
            Some(IPC_LOCK)
        );
        assert_eq!(capabilities(""), None);
    }

    #[test]
    fn the_cgroup_folder_is_found_in_v1_and_v2() {
        assert_eq!(
            folder("0::/user.slice/x.scope\n"),
            Some("/sys/fs/cgroup/user.slice/x.scope".into())
        );
        assert_eq!(
            folder("12:rdma:/a\n3:cpu,cpuacct:/b\n0::/c\n"),
            Some("/sys/fs/cgroup/rdma/a".into())
        );
        assert_eq!(folder(""), None);
    }

    #[test]
    fn only_numbers_are_limits() {
        let found = limits(
            "rxe0 hca_handle=2 hca_object=max\nmlx5_0 hca_handle=max hca_object=max\n",
            "rxe0 hca_handle=1 hca_object=20\n",
        );
        assert_eq!(
            found,
            [Limit {
                device: "rxe0".into(),
                what: "hca_handle".into(),
                used: 1,
                max: 2
            }]
        );
    }
}
