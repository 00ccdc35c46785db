//! Devices from netlink.

use super::netlink::{Client, Device, Found, NetlinkTransport, System, Uverbs};
use super::{Access, DeviceInfo, DriverMatch, Options, Source, fork};
use crate::error::Result;
use crate::sys::open::node_path;

/// All devices.
pub(super) fn list<T: NetlinkTransport>(
    client: &mut Client<T>,
    options: &Options,
) -> Result<Vec<DeviceInfo>> {
    let devices = client.devices()?;
    let indexes: Vec<_> = devices.iter().map(|device| device.index).collect();
    let nodes = client.char_devices(&indexes)?;
    if options.learn_fork {
        fork::learn(client);
    }
    Ok(devices
        .into_iter()
        .zip(nodes)
        .map(|(device, node)| combine(device, node, options))
        .collect())
}

/// The device of this name, if there is one.
pub(super) fn find<T: NetlinkTransport>(
    client: &mut Client<T>,
    name: &str,
    options: &Options,
) -> Result<Option<DeviceInfo>> {
    let answer = client.find(name, options.learn_fork && !fork::is_known())?;
    Ok(taken(answer, options))
}

/// The device with this index, if there is one.
pub(super) fn at<T: NetlinkTransport>(
    client: &mut Client<T>,
    index: u32,
    options: &Options,
) -> Result<Option<DeviceInfo>> {
    let answer = client.at(index, options.learn_fork && !fork::is_known())?;
    Ok(taken(answer, options))
}

/// The character device of the connection manager; and the first device, if everything about it is
/// known. Learns what opening that takes, too.
pub(crate) fn connection_manager<T: NetlinkTransport>(
    client: &mut Client<T>,
    options: &Options,
) -> Result<(Uverbs, Option<DeviceInfo>)> {
    let (node, found, system) = client.connection_manager_and(0, !fork::is_known())?;
    let first = taken((found, system), options);
    let is_known = |info: &DeviceInfo| matches!(info.driver, DriverMatch::Kernel(_));
    Ok((node, first.filter(is_known)))
}

/// What a device was found to be; what was learned beside it is kept.
fn taken(
    (found, system): (Option<Found>, Option<System>),
    options: &Options,
) -> Option<DeviceInfo> {
    if let Some(system) = system {
        fork::remember(system.copy_on_fork);
    }
    found.map(|found| combine(found.device, found.uverbs, options))
}

fn combine(device: Device, node: Result<Uverbs>, options: &Options) -> DeviceInfo {
    let mut info = DeviceInfo {
        index: Some(device.index),
        node_guid: device.node_guid,
        sys_image_guid: device.sys_image_guid,
        node_type: device.node_type,
        ports: device.ports,
        fw_version: device.fw_version,
        protocol: device.protocol,
        ..DeviceInfo::named(device.name, Source::Netlink)
    };
    match node {
        Ok(node) => {
            info.driver = node
                .driver_id
                .map_or(DriverMatch::Unknown, DriverMatch::Kernel);
            info.abi_version = Some(node.abi_version);
            info.number = Some(node.number);
            info.path = Some(node_path(&options.dev_root, &node.name));
            info.uverbs = Some(node.name);
        }
        Err(error) => info.access = Access::Refused(info.without_node(Some(&error))),
    }
    info
}
