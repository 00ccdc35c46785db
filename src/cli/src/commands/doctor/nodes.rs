//! Device nodes and who may open them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use uverbs::discover::Access;
use uverbs::error::Errno;
use uverbs::{Device, Error};

use super::finding::Finding;
use crate::session::NO_DEVICES;

const CHECK: &str = "device";

/// Whether there are devices, and whether this user may open them.
pub(super) fn look(devices: &uverbs::Result<Vec<Device>>, only: Option<&str>) -> Vec<Finding> {
    let devices = match devices {
        Ok(devices) => devices,
        Err(error) => {
            return vec![Finding::fail(
                CHECK,
                format_args!("cannot be listed: {error}"),
            )];
        }
    };
    let wanted: Vec<&Device> = devices
        .iter()
        .filter(|device| only.is_none_or(|name| name == device.name()))
        .collect();
    match (wanted.is_empty(), only) {
        (true, Some(name)) => vec![
            Finding::fail(CHECK, "there is no such device")
                .about(name)
                .fix("uverbs list shows the devices"),
        ],
        (true, None) => vec![Finding::fail(CHECK, "there are no RDMA devices").fix(NO_DEVICES)],
        _ => wanted.into_iter().map(node).collect(),
    }
}

fn node(device: &Device) -> Finding {
    let info = device.info();
    let Some(path) = &info.path else {
        return Finding::fail(CHECK, "it has no node in /dev/infiniband")
            .about(device.name())
            .fix("modprobe ib_uverbs");
    };
    let finding = match &info.access {
        Access::Refused(error) => refused(path, error),
        _ => Finding::ok(CHECK, format_args!("{} can be opened", path.display())),
    };
    finding.about(device.name())
}

fn refused(path: &Path, error: &Error) -> Finding {
    let shown = path.display();
    let finding = match error.errno() {
        Some(Errno::ACCESS) => {
            let owner = owner(path).unwrap_or_default();
            Finding::fail(
                CHECK,
                format_args!("{shown} may not be opened by this user{owner}"),
            )
        }
        Some(Errno::NOENT) => Finding::fail(CHECK, format_args!("{shown} does not exist")),
        Some(Errno::PERM) => Finding::fail(
            CHECK,
            format_args!("{shown} is closed to this network namespace or control group"),
        ),
        _ => return Finding::fail(CHECK, error),
    };
    // The library's advice, as all other commands give it.
    match error.known_hint() {
        Some(hint) => finding.fix(hint),
        None => finding,
    }
}

/// The owner of the node, and who may open it.
fn owner(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let group = fs::read_to_string("/etc/group")
        .ok()
        .and_then(|text| group_name(&text, meta.gid()))
        .unwrap_or_else(|| meta.gid().to_string());
    Some(format!(
        " (mode {:04o}, user {}, group {group})",
        meta.mode() & 0o7777,
        meta.uid()
    ))
}

fn group_name(groups: &str, gid: u32) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::group_name;

    #[test]
    fn groups_by_number() {
        let groups = "root:x:0:\nrdma:x:113:user\nbroken\n";
        assert_eq!(group_name(groups, 113).as_deref(), Some("rdma"));
        assert_eq!(group_name(groups, 1), None);
    }
}
