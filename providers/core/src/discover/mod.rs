//! Lists devices and opens them.
//!
//! | source | requires | provides |
//! |---|---|---|
//! | [`netlink`] | a kernel with RDMA; no `/sys`, no privilege | everything |
//! | [`sysfs`] | `/sys` | everything but the driver's id, which is derived from name and PCI ids |
//! | `/dev/infiniband` | the nodes | their device numbers |
//!
//! Each source is used if the one before it is unavailable. [`list()`] lists devices; [`open()`]
//! opens a device by name, by path or from a descriptor that was passed to this process. Nothing
//! waits for a device to appear.

mod device;
mod driver;
pub mod fork;
mod list;
mod neighbour;
pub mod netlink;
mod opening;
mod pages;
pub mod sysfs;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod via_netlink;
mod via_nodes;
mod via_sysfs;

pub use device::{Access, DeviceInfo, Options, Source};
pub use driver::DriverMatch;
pub use fork::{ForkGuard, copy_on_fork};
pub(crate) use list::available;
pub use list::{at_index, find, identify, list};
pub use neighbour::{EthernetPeer, ethernet_peer};
pub use opening::{Opened, Target, open, open_device};

pub use crate::sys::open::CharDevice;
