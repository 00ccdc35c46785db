//! The device as discovery would report it.

use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use uverbs_core::discover::{Access, DeviceInfo, DriverMatch, Source};
use uverbs_core::types::{DriverId, NodeType};

use crate::{DeviceProfile, FakeKernel};

impl FakeKernel {
    /// The device as discovery by netlink would report it.
    pub fn device_info(&self) -> DeviceInfo {
        let state = self.lock();
        let mut info = state.device.as_deref().map_or_else(own, of_another);
        if state.cm.is_iwarp {
            info.node_type = Some(NodeType::Rnic);
            info.protocol = Some("iw".to_owned());
        }
        info
    }
}

fn of_another(device: &DeviceProfile) -> DeviceInfo {
    let mut info = own();
    info.name.clone_from(&device.name);
    info.ports = Some(u32::from(device.device.base.phys_port_cnt));
    info.protocol = device.protocol();
    info.driver = DriverMatch::Kernel(device.driver);
    info.abi_version = Some(device.abi_version);
    info
}

fn own() -> DeviceInfo {
    let mut info = DeviceInfo::named("rxe_fake0".to_owned(), Source::Netlink);
    info.index = Some(0);
    info.node_type = Some(NodeType::ChannelAdapter);
    info.ports = Some(1);
    info.protocol = Some("roce".to_owned());
    info.driver = DriverMatch::Kernel(DriverId::from_raw(RDMA_DRIVER_RXE));
    info.abi_version = Some(2);
    info.uverbs = Some("uverbs0".to_owned());
    info.access = Access::Openable;
    info
}
