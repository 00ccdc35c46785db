//! What discovery would tell of the device.

use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use crate::discover::{Access, DeviceInfo, DriverMatch, Source};
use crate::types::{DriverId, NodeType};

use super::{DeviceProfile, FakeKernel};

impl FakeKernel {
    /// The device as discovery by netlink describes it.
    pub fn device_info(&self) -> DeviceInfo {
        match self.lock().device.as_deref() {
            Some(device) => of_another(device),
            None => own(),
        }
    }
}

fn of_another(device: &DeviceProfile) -> DeviceInfo {
    DeviceInfo {
        name: device.name.clone(),
        ports: Some(u32::from(device.device.base.phys_port_cnt)),
        protocol: device.protocol(),
        driver: DriverMatch::Kernel(device.driver),
        abi_version: Some(device.abi_version),
        ..own()
    }
}

fn own() -> DeviceInfo {
    DeviceInfo {
        name: "rxe_fake0".to_owned(),
        index: Some(0),
        node_guid: None,
        sys_image_guid: None,
        node_type: Some(NodeType::ChannelAdapter),
        ports: Some(1),
        fw_version: None,
        protocol: Some("roce".to_owned()),
        driver: DriverMatch::Kernel(DriverId::from_raw(RDMA_DRIVER_RXE)),
        abi_version: Some(2),
        uverbs: Some("uverbs0".to_owned()),
        number: None,
        path: None,
        source: Source::Netlink,
        access: Access::Openable,
    }
}
