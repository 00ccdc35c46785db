//! Lists and finds devices, by one source after the other.

use super::netlink::{Client, NetlinkTransport};
use super::{
    Access, CharDevice, DeviceInfo, DriverMatch, Options, opening, via_netlink, via_nodes,
    via_sysfs,
};
use crate::error::{Errno, Error, ErrorKind, Op, Result};

/// `ibv_get_device_list`—all devices of this network namespace, including those that cannot be
/// opened.
///
/// Netlink takes five system calls plus two per device. A source that does not answer is skipped;
/// if none answers, the nodes in `/dev/infiniband` are the devices. Without any RDMA the list is
/// empty.
///
/// # Errors
/// The errno of reading sysfs, if there is neither netlink nor any node; EMFILE, ENFILE, ENOMEM.
#[doc(alias = "ibv_get_device_list")]
pub fn list(options: &Options) -> Result<Vec<DeviceInfo>> {
    list_with(connect(Op::ListDevices, options)?, options)
}

/// A netlink client, if netlink is [available].
fn connect(op: Op, options: &Options) -> Result<Option<Client>> {
    if !options.netlink {
        return Ok(None);
    }
    available(op, Client::connect())
}

/// The client, or none if netlink is refused: there are other sources. No room for a socket is an
/// error, because there is none for other files either.
pub(crate) fn available<C>(op: Op, connected: Result<C>) -> Result<Option<C>> {
    match connected {
        Ok(client) => Ok(Some(client)),
        Err(error) => match error.errno() {
            Some(errno @ Errno::MFILE) => {
                Err(Error::os(op, errno).hint("raise the limit of open files (ulimit -n)"))
            }
            Some(errno @ (Errno::NFILE | Errno::NOMEM)) => Err(Error::os(op, errno)),
            _ => Ok(None),
        },
    }
}

pub(super) fn list_with<T: NetlinkTransport>(
    client: Option<Client<T>>,
    options: &Options,
) -> Result<Vec<DeviceInfo>> {
    let mut devices = by_best_source(client, options)?;
    if options.probe_access {
        for info in devices
            .iter_mut()
            .filter(|info| matches!(info.access, Access::Unchecked))
        {
            info.access = match opening::open_known(info, options) {
                Ok(_) => Access::Openable,
                Err(error) => Access::Refused(error),
            };
        }
    }
    Ok(devices)
}

fn by_best_source<T: NetlinkTransport>(
    client: Option<Client<T>>,
    options: &Options,
) -> Result<Vec<DeviceInfo>> {
    if let Some(mut client) = client
        && let Ok(mut devices) = via_netlink::list(&mut client, options)
    {
        for info in &mut devices {
            complete(info, options);
        }
        return Ok(devices);
    }
    let mut failure = None;
    if options.sysfs {
        match via_sysfs::list(options) {
            Ok(devices) if !devices.is_empty() || via_sysfs::is_there(options) => {
                return Ok(devices);
            }
            Ok(_) => {}
            Err(error) => failure = Some(via_sysfs::unavailable(&error)),
        }
    }
    let devices = via_nodes::list(options);
    match failure {
        Some(error) if devices.is_empty() => Err(error),
        _ => Ok(devices),
    }
}

/// The first half of `ibv_open_device` by name—finds a device by its name (`rxe0`) or its node's
/// (`uverbs0`).
///
/// With netlink it takes 5 system calls if the number in the name is the device's index, as it is
/// unless devices were recreated or renamed; otherwise 8 plus one per device. Names of nodes, and
/// kernels before 5.3, take more.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no source knows the name; EMFILE, ENFILE, ENOMEM.
pub fn find(name: &str, options: &Options) -> Result<DeviceInfo> {
    find_with(connect(Op::OpenDevice, options)?, name, options)
}

pub(super) fn find_with<T: NetlinkTransport>(
    mut client: Option<Client<T>>,
    name: &str,
    options: &Options,
) -> Result<DeviceInfo> {
    let mut known = Vec::new();
    if let Some(client) = &mut client
        && let Ok(Some(mut info)) = via_netlink::find(client, name, options)
    {
        complete(&mut info, options);
        return Ok(info);
    }
    // The name is a node's, or netlink does not answer.
    let devices = by_best_source(client, options).unwrap_or_default();
    for info in devices {
        if info.name == name || info.uverbs.as_deref() == Some(name) {
            return Ok(info);
        }
        known.push(info.name);
    }
    // A node of another network namespace, or of a device that the sources do not list.
    via_nodes::find(name, options).ok_or_else(|| {
        let error = Error::new(Op::OpenDevice, ErrorKind::NotFound).fact("device", name);
        if known.is_empty() {
            error
                .fact("known_devices", "none")
                .hint("there is no RDMA device: load its module, or see `rdma system` for network namespaces")
        } else {
            error.fact("known_devices", known.join(" "))
        }
    })
}

/// Finds the device with this index, the kernel's number for it, which netlink and the connection
/// manager report.
///
/// Four system calls by netlink; the other sources know no index.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is none in this network namespace; EMFILE, ENFILE, ENOMEM.
pub fn at_index(index: u32, options: &Options) -> Result<DeviceInfo> {
    at_index_with(connect(Op::OpenDevice, options)?, index, options)
}

pub(super) fn at_index_with<T: NetlinkTransport>(
    client: Option<Client<T>>,
    index: u32,
    options: &Options,
) -> Result<DeviceInfo> {
    let found = match client {
        Some(mut client) => via_netlink::at(&mut client, index, options)?,
        None => None,
    };
    let Some(mut info) = found else {
        return Err(Error::new(Op::OpenDevice, ErrorKind::NotFound)
            .fact("device_index", index)
            .hint("the device was removed, or is not in this network namespace"));
    };
    complete(&mut info, options);
    Ok(info)
}

/// Finds a device by its device number, which comes from a path or a passed descriptor.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no source knows the number.
pub fn identify(number: CharDevice, options: &Options) -> Result<DeviceInfo> {
    let options = Options {
        probe_access: false,
        ..options.clone()
    };
    let found = list(&options)?
        .into_iter()
        .find(|info| info.number == Some(number));
    found.ok_or_else(|| {
        Error::new(Op::OpenDevice, ErrorKind::NotFound)
            .fact("device_number", number.to_string())
            .hint("no RDMA device of this network namespace has this number")
    })
}

/// Fills in from sysfs what netlink did not report: the node on old kernels, the driver of some
/// hardware.
fn complete(info: &mut DeviceInfo, options: &Options) {
    if info.uverbs.is_some() && info.driver != DriverMatch::Unknown {
        return;
    }
    let more = if options.sysfs {
        via_sysfs::node_of(&info.name, options)
    } else {
        None
    };
    if let Some(more) = more {
        if info.uverbs.is_none() {
            info.access = Access::Unchecked;
            info.abi_version = more.abi_version;
            info.uverbs = more.uverbs;
            info.number = more.number;
            info.path = more.path;
        }
        info.driver = info.driver.or(|| more.driver);
    }
    info.driver = info.driver.or(|| DriverMatch::from_name(&info.name));
}
