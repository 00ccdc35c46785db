//! Another device that the fake imitates instead of its own rxe device, by recorded answers.

use std::collections::BTreeMap;

use uverbs_uapi::ib_user_ioctl_verbs::{IB_UVERBS_GID_TYPE_IB, ib_uverbs_query_port_resp_ex};
use uverbs_uapi::ib_user_verbs::ib_uverbs_ex_query_device_resp;

use crate::profile::Profile;
use uverbs_core::error::Errno;
use uverbs_core::types::DriverId;

/// `IB_LINK_LAYER_INFINIBAND` in the kernel's numbers: 1, or 0 for unspecified.
const INFINIBAND: [u8; 2] = [0, 1];

/// The identity of a device, and its kernel's answers to a program that opens and queries it.
///
/// `cargo xtask report FILE --to FOLDER` extracts one from the output of `uverbs selftest --json`;
/// [`parse`](Self::parse) reads that. What a report omits (GUIDs, keys) is zero.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeviceProfile {
    /// The device's name: `mlx5_0`.
    pub name: String,
    /// Its driver.
    pub driver: DriverId,
    /// The driver's ABI version.
    pub abi_version: u32,
    /// The kernel.
    pub kernel: Profile,
    /// The errnos with which the first attempts to get a context were refused, in order.
    pub refusals: Vec<Errno>,
    /// Completion vectors.
    pub comp_vectors: u32,
    /// What the core supports for every driver (`enum ib_uverbs_core_support`).
    pub core_support: u64,
    /// The driver data in the answer to `GET_CONTEXT`.
    pub context_data: Vec<u8>,
    /// The device's attributes.
    pub device: ib_uverbs_ex_query_device_resp,
    /// The driver data in the answer to `QUERY_DEVICE`.
    pub device_data: Vec<u8>,
    /// The attributes of the ports that were queried, by port number.
    pub ports: BTreeMap<u8, ib_uverbs_query_port_resp_ex>,
}

impl DeviceProfile {
    /// Discovery's name for the protocol of the first port: `ib` or `roce`.
    pub(super) fn protocol(&self) -> Option<String> {
        let port = self.ports.values().next()?;
        let name = if is_infiniband(port) { "ib" } else { "roce" };
        Some(name.to_owned())
    }
}

/// Whether a port has LIDs, and GIDs of the kind [`IB_UVERBS_GID_TYPE_IB`].
pub(super) fn is_infiniband(port: &ib_uverbs_query_port_resp_ex) -> bool {
    INFINIBAND.contains(&port.legacy_resp.link_layer)
}

/// The kind of a port's GIDs.
pub(super) fn gid_type(port: &ib_uverbs_query_port_resp_ex, ethernet: u32) -> u32 {
    if is_infiniband(port) {
        IB_UVERBS_GID_TYPE_IB
    } else {
        ethernet
    }
}
