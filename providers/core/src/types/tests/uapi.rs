//! The numbers are those of the kernel's headers.

use std::collections::BTreeSet;

use uverbs_uapi::{ib_user_ioctl_verbs as ioctl, ib_user_verbs as write, rdma_netlink as netlink};

use crate::types::{
    AccessFlags, CqCreateFlags, DeviceCaps, DriverId, GidType, MrAdvice, MrAdviceFlags, NodeType,
    OdpGeneralCaps, OdpTransportCaps, PortCaps, PortFlags, QpCreateFlags, QpType, RawPacketCaps,
    SrqType, WcOpcode,
};

/// Every member of the kernel's enum has a name here, which is the kernel's.
macro_rules! same_enum {
    ($($type:ident, $names:expr, $strip:literal => $add:literal;)+) => {
        $(
            for &(name, value) in $names {
                let ours = $type::from_raw(value.try_into().unwrap());
                let theirs = format!("{}{}", $add, name.strip_prefix($strip).unwrap());
                let known = ours.c_name().unwrap_or_else(|| panic!("{name} has no name here"));
                assert!(
                    known == theirs || known == name || ALIASES.contains(&(name, known)),
                    "{name} is called {known} here"
                );
            }
        )+
    };
}

/// Kernel names that libibverbs or a later driver changed.
const ALIASES: &[(&str, &str)] = &[
    ("IB_UVERBS_QPT_XRC_INI", "IBV_QPT_XRC_SEND"),
    ("IB_UVERBS_QPT_XRC_TGT", "IBV_QPT_XRC_RECV"),
    ("RDMA_DRIVER_I40IW", "RDMA_DRIVER_IRDMA"),
    ("RDMA_NODE_IB_CA", "IBV_NODE_CA"),
    ("RDMA_NODE_IB_SWITCH", "IBV_NODE_SWITCH"),
    ("RDMA_NODE_IB_ROUTER", "IBV_NODE_ROUTER"),
];

#[test]
fn enums() {
    same_enum! {
        QpType, ioctl::ib_uverbs_qp_type::NAMES, "IB_UVERBS_" => "IBV_";
        SrqType, ioctl::ib_uverbs_srq_type::NAMES, "IB_UVERBS_" => "IBV_";
        GidType, ioctl::ib_uverbs_gid_type::NAMES, "IB_UVERBS_" => "IBV_";
        MrAdvice, ioctl::ib_uverbs_advise_mr_advice::NAMES, "IB_UVERBS_" => "IBV_";
        DriverId, ioctl::rdma_driver_id::NAMES, "RDMA_DRIVER_" => "RDMA_DRIVER_";
        WcOpcode, write::ib_uverbs_wc_opcode::NAMES, "IB_UVERBS_" => "IBV_";
        NodeType, netlink::rdma_node_type::NAMES, "RDMA_NODE_" => "IBV_NODE_";
    }
}

/// The named bits are the kernel's, apart from those that only libibverbs or IBTA name.
macro_rules! same_flags {
    ($($type:ident, $names:expr, besides $extra:expr;)+) => {
        $(
            let theirs: BTreeSet<u64> = $names.iter()
                .filter(|(name, _)| !name.ends_with("_RANGE"))
                .map(|&(_, value)| u64::try_from(value).unwrap())
                .collect();
            let ours: BTreeSet<u64> = $type::all().iter_names()
                .map(|(_, flag)| u64::from(flag.bits()))
                .filter(|bit| !$extra.contains(bit)).collect();
            assert_eq!(ours, theirs, stringify!($type));
        )+
    };
}

#[test]
fn flags() {
    same_flags! {
        AccessFlags, ioctl::ib_uverbs_access_flags::NAMES, besides [0];
        QpCreateFlags, ioctl::ib_uverbs_qp_create_flags::NAMES, besides [1 << 10];
        PortCaps, ioctl::ib_uverbs_query_port_cap_flags::NAMES, besides [1 << 15];
        PortFlags, ioctl::ib_uverbs_query_port_flags::NAMES, besides [0];
        MrAdviceFlags, ioctl::ib_uverbs_advise_mr_flag::NAMES, besides [0];
        DeviceCaps, write::ib_uverbs_device_cap_flags::NAMES, besides [0];
        CqCreateFlags, write::ib_uverbs_ex_create_cq_flags::NAMES, besides [];
        RawPacketCaps, write::ib_uverbs_raw_packet_caps::NAMES, besides [0];
        OdpGeneralCaps, write::ib_uverbs_odp_general_cap_bits::NAMES, besides [0];
        OdpTransportCaps, write::ib_uverbs_odp_transport_cap_bits::NAMES, besides [0];
    }
}
