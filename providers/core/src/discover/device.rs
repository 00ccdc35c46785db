//! What is known of a device before it is opened.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::{CharDevice, DriverMatch};
use crate::error::{Error, ErrorKind, Op, Result};
use crate::types::{DriverId, Guid, NodeType};

/// Where to look for devices, and what to find out.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each switch stands alone")]
pub struct Options {
    /// Ask RDMA netlink. Default: yes.
    pub netlink: bool,
    /// Read sysfs where netlink does not answer. Default: yes.
    pub sysfs: bool,
    /// Try to open every device, to fill [`DeviceInfo::access`]: two to three system calls each.
    /// Default: no.
    pub probe_access: bool,
    /// Ask whether the kernel copies pinned pages on fork along with the device, one system call
    /// more, so that [`copy_on_fork`](super::copy_on_fork) need not ask again. Default: no.
    pub learn_fork: bool,
    /// Where sysfs is mounted. Default: `/sys`.
    pub sysfs_root: PathBuf,
    /// Where device nodes are. Default: `/dev`.
    pub dev_root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            netlink: true,
            sysfs: true,
            probe_access: false,
            learn_fork: false,
            sysfs_root: PathBuf::from("/sys"),
            dev_root: PathBuf::from("/dev"),
        }
    }
}

/// Who told of a device.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// RDMA netlink.
    Netlink,
    /// Files of sysfs.
    Sysfs,
    /// Only its node: name, driver and version are not known.
    DevOnly,
}

/// Whether a device can be opened.
#[derive(Clone, Debug)]
pub enum Access {
    /// Not tried; see [`Options::probe_access`].
    Unchecked,
    /// It could be opened just now.
    Openable,
    /// It could not be opened, for this reason.
    Refused(Error),
}

/// A device that can perhaps be opened.
///
/// What its [`source`](Self::source) does not tell is `None`.
#[doc(alias = "ibv_device")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// `ibv_get_device_name`—`rxe0`, `mlx5_0`; the name of its node when no other is known.
    #[doc(alias = "ibv_get_device_name")]
    pub name: String,
    /// `ibv_get_device_index`—the kernel's number for it, kept over renames.
    #[doc(alias = "ibv_get_device_index")]
    pub index: Option<u32>,
    /// `ibv_get_device_guid`—GUID of the device.
    #[doc(alias = "ibv_get_device_guid")]
    pub node_guid: Option<Guid>,
    /// GUID of what it is part of.
    pub sys_image_guid: Option<Guid>,
    /// What kind of node it is.
    pub node_type: Option<NodeType>,
    /// Number of ports.
    pub ports: Option<u32>,
    /// Firmware version.
    pub fw_version: Option<String>,
    /// What its first port speaks: `ib`, `roce`, `iw`.
    pub protocol: Option<String>,
    /// Which kernel driver serves it, and how that is known.
    pub driver: DriverMatch,
    /// Version of the provider's part of the kernel interface: 2 for rxe, 1 for mlx5.
    pub abi_version: Option<u32>,
    /// Name of its node in `/dev/infiniband`; none when `ib_uverbs` is not loaded.
    pub uverbs: Option<String>,
    /// Number of its node.
    pub number: Option<CharDevice>,
    /// Where its node should be.
    pub path: Option<PathBuf>,
    /// Who told of it.
    pub source: Source,
    /// Whether it can be opened.
    pub access: Access,
}

impl DeviceInfo {
    /// A device of which only the name is known.
    pub fn named(name: String, source: Source) -> Self {
        Self {
            name,
            index: None,
            node_guid: None,
            sys_image_guid: None,
            node_type: None,
            ports: None,
            fw_version: None,
            protocol: None,
            driver: DriverMatch::Unknown,
            abi_version: None,
            uverbs: None,
            number: None,
            path: None,
            source,
            access: Access::Unchecked,
        }
    }

    /// Which kernel driver serves it, if known.
    pub fn driver_id(&self) -> Option<DriverId> {
        self.driver.driver_id()
    }

    /// Refuses a device whose driver speaks another version than its provider here.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the version is known and not among `versions`.
    pub fn check_abi(&self, versions: RangeInclusive<u32>) -> Result<()> {
        match self.abi_version {
            Some(version) if !versions.contains(&version) => {
                Err(Error::new(Op::OpenDevice, ErrorKind::Unsupported)
                    .fact("device", self.name.as_str())
                    .fact("abi_version", version)
                    .fact("min", *versions.start())
                    .fact("max", *versions.end()))
            }
            _ => Ok(()),
        }
    }

    /// Why there is nothing to open: what the kernel said when it was asked for the node.
    pub(super) fn without_node(&self, cause: Option<&Error>) -> Error {
        let error = match cause.and_then(Error::errno) {
            Some(errno) => Error::os(Op::OpenDevice, errno).with_kind(ErrorKind::NotFound),
            None => Error::new(Op::OpenDevice, ErrorKind::NotFound),
        };
        error
            .fact("device", self.name.as_str())
            .hint("the device has no verbs node: load the module (modprobe ib_uverbs)")
    }
}
