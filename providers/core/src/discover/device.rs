//! What is known about a device before it is opened.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::{CharDevice, DriverMatch};
use crate::error::{Error, ErrorKind, Op, Result};
use crate::types::{DriverId, Guid, NodeType};

/// Where to look for devices, and what to query.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the switches are independent"
)]
pub struct Options {
    /// Use RDMA netlink. Default: yes.
    pub netlink: bool,
    /// Read sysfs if netlink does not answer. Default: yes.
    pub sysfs: bool,
    /// Try to open every device, to fill in [`DeviceInfo::access`]: two to three system calls each.
    /// Default: no.
    pub probe_access: bool,
    /// Also query whether the kernel copies pinned pages on fork, with one more system call, so
    /// that [`copy_on_fork`](super::copy_on_fork) need not do it. Default: no.
    pub learn_fork: bool,
    /// Where sysfs is mounted. Default: `/sys`.
    pub sysfs_root: PathBuf,
    /// Directory of device nodes. Default: `/dev`.
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

/// Where the information about a device comes from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// RDMA netlink.
    Netlink,
    /// Files of sysfs.
    Sysfs,
    /// Only its node: name, driver and version are unknown.
    DevOnly,
}

/// Whether a device can be opened.
#[derive(Clone, Debug)]
pub enum Access {
    /// Not tried; see [`Options::probe_access`].
    Unchecked,
    /// It was opened successfully.
    Openable,
    /// It could not be opened, for this reason.
    Refused(Error),
}

/// A device that can perhaps be opened.
///
/// What its [`source`](Self::source) does not report is `None`.
#[doc(alias = "ibv_device")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// `ibv_get_device_name`—`rxe0`, `mlx5_0`; the name of its node if no other is known.
    #[doc(alias = "ibv_get_device_name")]
    pub name: String,
    /// `ibv_get_device_index`—the kernel's index of it, which renaming does not change.
    #[doc(alias = "ibv_get_device_index")]
    pub index: Option<u32>,
    /// `ibv_get_device_guid`—GUID of the device.
    #[doc(alias = "ibv_get_device_guid")]
    pub node_guid: Option<Guid>,
    /// GUID shared by the devices of one system image.
    pub sys_image_guid: Option<Guid>,
    /// What kind of node it is.
    pub node_type: Option<NodeType>,
    /// Number of ports.
    pub ports: Option<u32>,
    /// Firmware version.
    pub fw_version: Option<String>,
    /// The protocol of its first port: `ib`, `roce`, `iw`.
    pub protocol: Option<String>,
    /// Its kernel driver, and how that was determined.
    pub driver: DriverMatch,
    /// The driver's ABI version: 2 for rxe, 1 for mlx5.
    pub abi_version: Option<u32>,
    /// Name of its node in `/dev/infiniband`; `None` if `ib_uverbs` is not loaded.
    pub uverbs: Option<String>,
    /// Device number of its node.
    pub number: Option<CharDevice>,
    /// Expected path of its node.
    pub path: Option<PathBuf>,
    /// Where this information comes from.
    pub source: Source,
    /// Whether it can be opened.
    pub access: Access,
}

impl DeviceInfo {
    /// A device of which only the name is known; other fields are `None` or unknown.
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

    /// Its kernel driver, if known.
    pub fn driver_id(&self) -> Option<DriverId> {
        self.driver.driver_id()
    }

    /// Refuses a device whose driver has an ABI version that the provider does not support.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the version is known and not among `versions`.
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

    /// The error for a device without a node, with the kernel's reason as far as known.
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
