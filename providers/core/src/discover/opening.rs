//! Opens devices.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use super::list::{find, identify};
use super::{CharDevice, DeviceInfo, DriverMatch, Options, via_nodes};
use crate::error::{Error, Result};
use crate::sys::open::{number_of, open_node};

/// Which device to open.
#[derive(Debug)]
#[non_exhaustive]
pub enum Target {
    /// The device of this name, `rxe0`, or of the node of this name, `uverbs0`.
    Name(String),
    /// The node at this path.
    Path(PathBuf),
    /// A node that was opened elsewhere and passed to this process.
    Fd(OwnedFd),
}

/// An opened device, before the first command.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// What is known about it.
    pub info: DeviceInfo,
    /// The descriptor for commands.
    pub fd: OwnedFd,
    /// Its device number, from `fstat(2)`.
    pub number: CharDevice,
}

/// `ibv_open_device`—opens the node of a device for commands.
///
/// By name it takes 6 system calls with netlink if the number in the name is the device's index,
/// otherwise 9 plus one per device. A path or a descriptor that no source knows is opened
/// nevertheless, as [`Source::DevOnly`](super::Source::DevOnly). It does not wait for a node to
/// appear.
///
/// # Errors
/// [`NotFound`](crate::ErrorKind::NotFound): no such device or node;
/// [`PermissionDenied`](crate::ErrorKind::PermissionDenied): the node's mode (EACCES), a device
/// cgroup or another network namespace (EPERM); [`InvalidInput`](crate::ErrorKind::InvalidInput):
/// not a character device, or not the expected one; EMFILE, ENFILE; EIO while the device is being
/// removed. The hint says what to do.
#[doc(alias = "ibv_open_device")]
pub fn open(target: Target, options: &Options) -> Result<Opened> {
    match target {
        Target::Name(name) => {
            let info = find(&name, options)?;
            open_device(info, options)
        }
        Target::Path(path) => {
            let (fd, number) = open_node(&path, None, &options.dev_root)?;
            Ok(describe(fd, number, Some(&path), options))
        }
        Target::Fd(fd) => {
            let number = number_of(fd.as_fd())?;
            Ok(describe(fd, number, None, options))
        }
    }
}

/// Opens the node of a known device. Two system calls.
///
/// # Errors
/// As [`open`].
pub fn open_device(info: DeviceInfo, options: &Options) -> Result<Opened> {
    let (fd, number) = open_known(&info, options)?;
    Ok(Opened { info, fd, number })
}

/// Opens a known device and returns the descriptor, and its device number from `fstat(2)`.
pub(super) fn open_known(info: &DeviceInfo, options: &Options) -> Result<(OwnedFd, CharDevice)> {
    let path = info.path.as_deref().ok_or_else(|| match &info.access {
        super::Access::Refused(error) => error.clone(),
        _ => info.without_node(None),
    })?;
    open_node(path, info.number, &options.dev_root)
        .map_err(|error| error.fact("device", info.name.as_str()))
}

fn describe(fd: OwnedFd, number: CharDevice, path: Option<&Path>, options: &Options) -> Opened {
    let info = identify(number, options).unwrap_or_else(|_: Error| {
        let node = path
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        let mut info = via_nodes::numbered(
            node.map_or_else(|| number.to_string(), str::to_owned),
            path,
            number,
        );
        info.uverbs = node
            .filter(|name| via_nodes::is_uverbs(name))
            .map(str::to_owned);
        info.driver = DriverMatch::Unknown;
        info
    });
    Opened { info, fd, number }
}
