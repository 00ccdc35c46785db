//! Devices from sysfs.

use super::sysfs::Sysfs;
use super::{Access, CharDevice, DeviceInfo, DriverMatch, Options, Source};
use crate::error::{Errno, Error, Op, Result};
use crate::sys::open::node_path;
use crate::types::{DriverId, NodeType};

/// All devices.
///
/// # Errors
/// The errno of reading `/sys/class`, unless no RDMA module is loaded: then there are no devices.
pub(super) fn list(options: &Options) -> Result<Vec<DeviceInfo>> {
    let sysfs = Sysfs::at(&options.sysfs_root);
    let nodes = names(&sysfs, "infiniband_verbs")?;
    let mut found = Vec::new();
    for uverbs in nodes
        .iter()
        .flatten()
        .filter(|name| name.starts_with("uverbs"))
    {
        // A device can disappear between listing and reading.
        found.extend(by_node(&sysfs, uverbs, options));
    }
    for name in names(&sysfs, "infiniband")?.into_iter().flatten() {
        if !found.iter().any(|info| info.name == name) {
            let mut info = describe(&sysfs, &name);
            info.access = Access::Refused(info.without_node(None));
            found.push(info);
        }
    }
    Ok(found)
}

/// Whether sysfs has any RDMA classes.
pub(super) fn is_there(options: &Options) -> bool {
    matches!(
        names(&Sysfs::at(&options.sysfs_root), "infiniband"),
        Ok(Some(_))
    )
}

/// The node of a device for which netlink reported none.
pub(super) fn node_of(name: &str, options: &Options) -> Option<DeviceInfo> {
    list(options)
        .ok()?
        .into_iter()
        .find(|info| info.name == name && info.uverbs.is_some())
}

/// The names in a class; `None` if there is no such class.
fn names(sysfs: &Sysfs, class: &str) -> Result<Option<Vec<String>>> {
    match sysfs.list(Op::ListDevices, &["class", class]) {
        Ok(names) => Ok(Some(names)),
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn by_node(sysfs: &Sysfs, uverbs: &str, options: &Options) -> Option<DeviceInfo> {
    let read = |file: &str| {
        sysfs.text(
            Op::ListDevices,
            &["class", "infiniband_verbs", uverbs, file],
        )
    };
    let name = read("ibdev").ok()?;
    let mut info = describe(sysfs, &name);
    info.number = read("dev")
        .ok()
        .and_then(|text| CharDevice::from_sysfs(&text));
    info.abi_version = read("abi_version")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    info.path = Some(node_path(&options.dev_root, uverbs));
    info.uverbs = Some(uverbs.to_owned());
    if info.driver == DriverMatch::Unknown {
        let modalias = sysfs.text(
            Op::ListDevices,
            &["class", "infiniband_verbs", uverbs, "device", "modalias"],
        );
        info.driver = modalias.map_or(DriverMatch::Unknown, |text| {
            DriverMatch::from_modalias(&text)
        });
    }
    Some(info)
}

fn describe(sysfs: &Sysfs, name: &str) -> DeviceInfo {
    let read = |file: &str| -> Option<String> {
        let text = sysfs
            .text(Op::ListDevices, &["class", "infiniband", name, file])
            .ok()?;
        Some(text).filter(|text| !text.is_empty())
    };
    let modalias = sysfs.text(
        Op::ListDevices,
        &["class", "infiniband", name, "device", "modalias"],
    );
    let ports = sysfs.list(Op::ListDevices, &["class", "infiniband", name, "ports"]);
    DeviceInfo {
        node_guid: read("node_guid").and_then(|text| text.parse().ok()),
        sys_image_guid: read("sys_image_guid").and_then(|text| text.parse().ok()),
        node_type: read("node_type").and_then(|text| node_type(&text)),
        ports: ports.ok().and_then(|ports| u32::try_from(ports.len()).ok()),
        fw_version: read("fw_ver"),
        driver: modalias
            .map_or(DriverMatch::Unknown, |text| {
                DriverMatch::from_modalias(&text)
            })
            .or(|| DriverMatch::from_name(name))
            // Only rxe has a file of this name, which contains the name of its network device.
            .or(|| {
                read("parent").map_or(DriverMatch::Unknown, |_| DriverMatch::Name(DriverId::Rxe))
            }),
        ..DeviceInfo::named(name.to_owned(), Source::Sysfs)
    }
}

/// Parses `1: CA`.
fn node_type(text: &str) -> Option<NodeType> {
    let (number, _) = text.split_once(':')?;
    Some(NodeType::from_raw(number.trim().parse().ok()?))
}

/// The error if sysfs cannot be read either.
pub(super) fn unavailable(error: &Error) -> Error {
    error
        .clone()
        .hint("neither RDMA netlink nor sysfs can be read; open the device by the path of its node")
}
