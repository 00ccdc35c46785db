//! Devices, ports and character devices.

use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_ATTR_CAP_FLAGS, RDMA_NLDEV_ATTR_CHARDEV, RDMA_NLDEV_ATTR_CHARDEV_ABI,
    RDMA_NLDEV_ATTR_CHARDEV_NAME, RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME,
    RDMA_NLDEV_ATTR_DEV_NODE_TYPE, RDMA_NLDEV_ATTR_DEV_PROTOCOL, RDMA_NLDEV_ATTR_FW_VERSION,
    RDMA_NLDEV_ATTR_LID, RDMA_NLDEV_ATTR_LMC, RDMA_NLDEV_ATTR_NDEV_INDEX,
    RDMA_NLDEV_ATTR_NDEV_NAME, RDMA_NLDEV_ATTR_NODE_GUID, RDMA_NLDEV_ATTR_PARENT_NAME,
    RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, RDMA_NLDEV_ATTR_PORT_STATE,
    RDMA_NLDEV_ATTR_SM_LID, RDMA_NLDEV_ATTR_SUBNET_PREFIX, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID,
    RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID,
};

use super::{Attributes, Malformed};
use crate::sys::open::CharDevice;
use crate::types::{DriverId, Guid, NodeType, PhysicalState, PortState};

/// A device (`RDMA_NLDEV_CMD_GET`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Device {
    /// The number by which netlink commands name it; renaming the device does not change it.
    pub index: u32,
    /// Its name, `rxe0`.
    pub name: String,
    /// Number of ports, which are numbered from 1.
    pub ports: Option<u32>,
    /// Capabilities, as the kernel's internal bits.
    pub caps: Option<u64>,
    /// Firmware version, if there is firmware.
    pub fw_version: Option<String>,
    /// GUID of the device.
    pub node_guid: Option<Guid>,
    /// GUID shared by the devices of one system image.
    pub sys_image_guid: Option<Guid>,
    /// What kind of node it is.
    pub node_type: Option<NodeType>,
    /// The protocol of its first port: `ib`, `roce`, `iw`, `opa` or `usnic` (Linux 5.2).
    pub protocol: Option<String>,
    /// The parent device (Linux 6.11).
    pub parent: Option<String>,
}

impl Device {
    /// Parses the answer. Unknown attributes are skipped.
    ///
    /// # Errors
    /// [`Malformed`] if index or name is missing, or an attribute cannot be parsed.
    pub fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let mut device = Self::default();
        let mut index = None;
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_ATTR_DEV_INDEX => index = Some(value.fit()?),
                RDMA_NLDEV_ATTR_DEV_NAME => device.name = value.name()?,
                RDMA_NLDEV_ATTR_PORT_INDEX => device.ports = Some(value.fit()?),
                RDMA_NLDEV_ATTR_CAP_FLAGS => device.caps = Some(value.number()?),
                RDMA_NLDEV_ATTR_FW_VERSION => device.fw_version = Some(value.text()?),
                RDMA_NLDEV_ATTR_NODE_GUID => {
                    device.node_guid = Some(Guid::from_u64(value.number()?));
                }
                RDMA_NLDEV_ATTR_SYS_IMAGE_GUID => {
                    device.sys_image_guid = Some(Guid::from_u64(value.number()?));
                }
                RDMA_NLDEV_ATTR_DEV_NODE_TYPE => {
                    device.node_type = Some(NodeType::from_raw(value.fit()?));
                }
                RDMA_NLDEV_ATTR_DEV_PROTOCOL => device.protocol = Some(value.text()?),
                RDMA_NLDEV_ATTR_PARENT_NAME => device.parent = Some(value.text()?),
                _ => {}
            }
        }
        device.index = index.ok_or(Malformed("no index"))?;
        if device.name.is_empty() {
            return Err(Malformed("no name"));
        }
        Ok(device)
    }
}

/// A device's verbs character device (`RDMA_NLDEV_CMD_GET_CHARDEV` of `uverbs`), or that of the
/// connection manager.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Uverbs {
    /// The node's name in `/dev/infiniband`, `uverbs0`.
    pub name: String,
    /// The device's number.
    pub number: CharDevice,
    /// The driver's ABI version.
    pub abi_version: u32,
    /// Its kernel driver; absent for drivers whose hardware must be recognised by its PCI ids.
    pub driver_id: Option<DriverId>,
}

impl Uverbs {
    /// Parses the answer.
    ///
    /// # Errors
    /// [`Malformed`] if name, number or version is missing, or an attribute cannot be parsed.
    pub fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let (mut name, mut number, mut abi_version, mut driver_id) = (None, None, None, None);
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_ATTR_CHARDEV_NAME => name = Some(value.name()?),
                RDMA_NLDEV_ATTR_CHARDEV => {
                    number = Some(CharDevice::from_netlink(value.fit::<u32>()?.into()));
                }
                RDMA_NLDEV_ATTR_CHARDEV_ABI => abi_version = Some(value.fit()?),
                RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID => {
                    driver_id = Some(DriverId::from_raw(value.fit()?));
                }
                _ => {}
            }
        }
        Ok(Self {
            name: name.ok_or(Malformed("no name"))?,
            number: number.ok_or(Malformed("no number"))?,
            abi_version: abi_version.ok_or(Malformed("no version"))?,
            driver_id,
        })
    }
}

/// A port (`RDMA_NLDEV_CMD_PORT_GET`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Port {
    /// Index of its device.
    pub device: u32,
    /// Its number, from 1.
    pub number: u32,
    /// Capabilities of an InfiniBand port: mask, and mask 2 from bit 32.
    pub caps: Option<u64>,
    /// Upper half of an InfiniBand port's GIDs.
    pub subnet_prefix: Option<u64>,
    /// Local identifier of an InfiniBand port.
    pub lid: Option<u32>,
    /// Local identifier of its subnet manager.
    pub sm_lid: Option<u32>,
    /// Number of low bits of the local identifier that the port ignores.
    pub lmc: Option<u8>,
    /// Logical state.
    pub state: Option<PortState>,
    /// Physical state.
    pub physical_state: Option<PhysicalState>,
    /// Interface index of its network device, if that is in this network namespace.
    pub netdev_index: Option<u32>,
    /// Name of its network device.
    pub netdev: Option<String>,
}

impl Port {
    /// Parses the answer.
    ///
    /// # Errors
    /// [`Malformed`] if the port's number is missing, or an attribute cannot be parsed.
    pub fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let mut port = Self::default();
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_ATTR_DEV_INDEX => port.device = value.fit()?,
                RDMA_NLDEV_ATTR_PORT_INDEX => port.number = value.fit()?,
                RDMA_NLDEV_ATTR_CAP_FLAGS => port.caps = Some(value.number()?),
                RDMA_NLDEV_ATTR_SUBNET_PREFIX => port.subnet_prefix = Some(value.number()?),
                RDMA_NLDEV_ATTR_LID => port.lid = Some(value.fit()?),
                RDMA_NLDEV_ATTR_SM_LID => port.sm_lid = Some(value.fit()?),
                RDMA_NLDEV_ATTR_LMC => port.lmc = Some(value.fit()?),
                RDMA_NLDEV_ATTR_PORT_STATE => port.state = Some(PortState::from_raw(value.fit()?)),
                RDMA_NLDEV_ATTR_PORT_PHYS_STATE => {
                    port.physical_state = Some(PhysicalState::from_raw(value.fit()?));
                }
                RDMA_NLDEV_ATTR_NDEV_INDEX => port.netdev_index = Some(value.fit()?),
                RDMA_NLDEV_ATTR_NDEV_NAME => port.netdev = Some(value.text()?),
                _ => {}
            }
        }
        if port.number == 0 {
            Err(Malformed("a port without a number"))
        } else {
            Ok(port)
        }
    }
}
