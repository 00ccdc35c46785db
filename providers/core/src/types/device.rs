//! The identity and the limits of a device.

use std::fmt;

use super::{
    AtomicCap, CqModerationCaps, DeviceCaps, Guid, OdpCaps, RawPacketCaps, RssCaps, TagMatchingCaps,
};

open_enum! {
    /// `ibv_node_type`—what kind of node a device is (`RDMA_NODE_*`).
    #[doc(alias = "ibv_node_type")]
    pub enum NodeType: u8 {
        /// InfiniBand channel adapter; RoCE adapters too.
        ChannelAdapter = 1, "IBV_NODE_CA", "channel adapter";
        /// InfiniBand switch.
        Switch = 2, "IBV_NODE_SWITCH", "switch";
        /// InfiniBand router.
        Router = 3, "IBV_NODE_ROUTER", "router";
        /// iWARP adapter.
        Rnic = 4, "IBV_NODE_RNIC", "iwarp adapter";
        /// usNIC.
        UsNic = 5, "IBV_NODE_USNIC", "usnic";
        /// usNIC over UDP.
        UsNicUdp = 6, "IBV_NODE_USNIC_UDP", "usnic over udp";
        /// A device with a transport of its own (EFA).
        Unspecified = 7, "IBV_NODE_UNSPECIFIED", "unspecified";
    }
}

impl NodeType {
    /// `ibv_node_type_str`—the C library's text.
    #[doc(alias = "ibv_node_type_str")]
    pub const fn ibv_str(self) -> &'static str {
        match self {
            Self::ChannelAdapter => "InfiniBand channel adapter",
            Self::Switch => "InfiniBand switch",
            Self::Router => "InfiniBand router",
            Self::Rnic => "iWARP NIC",
            Self::UsNic => "usNIC",
            Self::UsNicUdp => "usNIC UDP",
            Self::Unspecified => "unspecified",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The transport of such a node, or `None` for an unknown type.
    pub const fn transport(self) -> Option<TransportType> {
        Some(match self {
            Self::ChannelAdapter | Self::Switch | Self::Router => TransportType::InfiniBand,
            Self::Rnic => TransportType::Iwarp,
            Self::UsNic => TransportType::UsNic,
            Self::UsNicUdp => TransportType::UsNicUdp,
            Self::Unspecified => TransportType::Unspecified,
            Self::Unknown(_) => return None,
        })
    }
}

open_enum! {
    /// `ibv_transport_type`—the protocol family of a node. RoCE counts as InfiniBand.
    #[doc(alias = "ibv_transport_type")]
    pub enum TransportType: u8 {
        /// InfiniBand and RoCE.
        InfiniBand = 0, "IBV_TRANSPORT_IB", "infiniband";
        /// iWARP.
        Iwarp = 1, "IBV_TRANSPORT_IWARP", "iwarp";
        /// usNIC.
        UsNic = 2, "IBV_TRANSPORT_USNIC", "usnic";
        /// usNIC over UDP.
        UsNicUdp = 3, "IBV_TRANSPORT_USNIC_UDP", "usnic over udp";
        /// Its own.
        Unspecified = 4, "IBV_TRANSPORT_UNSPECIFIED", "unspecified";
    }
}

open_enum! {
    /// Which kernel driver serves a device (`enum rdma_driver_id` of `ib_user_ioctl_verbs.h`).
    pub enum DriverId: u32 {
        /// The driver reports no number.
        Unspecified = 0, "RDMA_DRIVER_UNKNOWN", "unspecified";
        /// NVIDIA ConnectX-4 and later, BlueField.
        Mlx5 = 1, "RDMA_DRIVER_MLX5", "mlx5";
        /// Mellanox ConnectX-2, -3.
        Mlx4 = 2, "RDMA_DRIVER_MLX4", "mlx4";
        /// Chelsio T3.
        Cxgb3 = 3, "RDMA_DRIVER_CXGB3", "cxgb3";
        /// Chelsio T4 to T6.
        Cxgb4 = 4, "RDMA_DRIVER_CXGB4", "cxgb4";
        /// Mellanox InfiniHost.
        Mthca = 5, "RDMA_DRIVER_MTHCA", "mthca";
        /// Broadcom NetXtreme-E.
        BnxtRe = 6, "RDMA_DRIVER_BNXT_RE", "bnxt_re";
        /// Emulex OneConnect.
        Ocrdma = 7, "RDMA_DRIVER_OCRDMA", "ocrdma";
        /// NetEffect.
        Nes = 8, "RDMA_DRIVER_NES", "nes";
        /// Intel E810, X722 (formerly i40iw).
        Irdma = 9, "RDMA_DRIVER_IRDMA", "irdma";
        /// VMware paravirtual.
        Pvrdma = 10, "RDMA_DRIVER_VMW_PVRDMA", "vmw_pvrdma";
        /// Marvell FastLinQ.
        Qedr = 11, "RDMA_DRIVER_QEDR", "qedr";
        /// HiSilicon.
        Hns = 12, "RDMA_DRIVER_HNS", "hns";
        /// Cisco usNIC.
        UsNic = 13, "RDMA_DRIVER_USNIC", "usnic";
        /// RDMA over Ethernet in software.
        Rxe = 14, "RDMA_DRIVER_RXE", "rxe";
        /// Intel Omni-Path.
        Hfi1 = 15, "RDMA_DRIVER_HFI1", "hfi1";
        /// Intel TrueScale.
        Qib = 16, "RDMA_DRIVER_QIB", "qib";
        /// Amazon Elastic Fabric Adapter.
        Efa = 17, "RDMA_DRIVER_EFA", "efa";
        /// iWARP in software.
        Siw = 18, "RDMA_DRIVER_SIW", "siw";
        /// Alibaba Elastic RDMA.
        Erdma = 19, "RDMA_DRIVER_ERDMA", "erdma";
        /// Microsoft Azure.
        Mana = 20, "RDMA_DRIVER_MANA", "mana";
        /// AMD Pensando.
        Ionic = 21, "RDMA_DRIVER_IONIC", "ionic";
    }
}

/// Firmware version as the kernel packs it: major, minor and sub-minor, 16 bits each.
///
/// `{}` prints `1.2.3` (rxe and most providers), `{:#}` prints `1.2.0003` as mlx5 tools do.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FirmwareVersion(u64);

impl FirmwareVersion {
    /// The packed number, as the kernel reports it.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The packed number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Major, minor, sub-minor.
    #[expect(clippy::cast_possible_truncation, reason = "each part has 16 bits")]
    pub const fn parts(self) -> (u16, u16, u16) {
        ((self.0 >> 32) as u16, (self.0 >> 16) as u16, self.0 as u16)
    }
}

impl fmt::Display for FirmwareVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, sub) = self.parts();
        if f.alternate() {
            write!(f, "{major}.{minor}.{sub:04}")
        } else {
            write!(f, "{major}.{minor}.{sub}")
        }
    }
}

/// `ibv_device_attr_ex`—identity and limits of a device.
///
/// The fields are those of `ib_uverbs_ex_query_device_resp`. Fields that an older kernel does not
/// report are zero, which always means "none". Limits are upper bounds; creating objects may fail
/// below them.
#[doc(alias = "ibv_device_attr")]
#[doc(alias = "ibv_device_attr_ex")]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct DeviceAttr {
    /// Firmware version.
    pub fw_ver: FirmwareVersion,
    /// GUID of this device.
    pub node_guid: Guid,
    /// GUID shared by the devices of one system image.
    pub sys_image_guid: Guid,
    /// Largest memory region, bytes.
    pub max_mr_size: u64,
    /// Page sizes that regions can consist of: bit n stands for 2ⁿ bytes.
    pub page_size_cap: u64,
    /// Vendor, as an IEEE OUI or a PCI number.
    pub vendor_id: u32,
    /// Part number.
    pub vendor_part_id: u32,
    /// Hardware revision.
    pub hw_ver: u32,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of one queue.
    pub max_qp_wr: u32,
    /// Capabilities: all 64 bits where the kernel reports them, else the lower 32.
    pub caps: DeviceCaps,
    /// Scatter/gather entries of one work request (the smaller of send and receive).
    pub max_sge: u32,
    /// Scatter/gather entries of one RDMA read.
    pub max_sge_rd: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of one completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Incoming reads and atomics that one queue pair serves at a time.
    pub max_qp_rd_atom: u32,
    /// The same per end-to-end context (reliable datagrams; never implemented).
    pub max_ee_rd_atom: u32,
    /// Incoming reads and atomics that the device serves at a time.
    pub max_res_rd_atom: u32,
    /// Outgoing reads and atomics that one queue pair may have outstanding.
    pub max_qp_init_rd_atom: u32,
    /// The same per end-to-end context.
    pub max_ee_init_rd_atom: u32,
    /// The scope in which atomics are atomic.
    pub atomic_cap: AtomicCap,
    /// End-to-end contexts.
    pub max_ee: u32,
    /// Reliable datagram domains.
    pub max_rdd: u32,
    /// Memory windows.
    pub max_mw: u32,
    /// Raw IPv6 queue pairs.
    pub max_raw_ipv6_qp: u32,
    /// Raw EtherType queue pairs.
    pub max_raw_ethy_qp: u32,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs in one multicast group.
    pub max_mcast_qp_attach: u32,
    /// Queue pairs in all multicast groups.
    pub max_total_mcast_qp_attach: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Fast memory regions (gone from newer kernels).
    pub max_fmr: u32,
    /// Remaps of one fast memory region before it must be flushed.
    pub max_map_per_fmr: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Work requests of one shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter/gather entries of a request on a shared receive queue.
    pub max_srq_sge: u32,
    /// Partition keys of a port.
    pub max_pkeys: u16,
    /// Longest time this device takes to acknowledge: 4.096 µs · 2ⁿ.
    pub local_ca_ack_delay: u8,
    /// Ports; they are numbered from 1.
    pub phys_port_cnt: u8,

    /// On-demand paging.
    pub odp: OdpCaps,
    /// Valid bits of a completion timestamp; 0 if there are no timestamps.
    pub completion_timestamp_mask: u64,
    /// Frequency of the clock behind timestamps, kHz; 0 if unknown.
    pub hca_core_clock_khz: u64,
    /// Receive-side scaling.
    pub rss: RssCaps,
    /// Receive work queues.
    pub max_wq_type_rq: u32,
    /// Raw packets.
    pub raw_packet: RawPacketCaps,
    /// Tag matching.
    pub tag_matching: TagMatchingCaps,
    /// Completion moderation.
    pub cq_moderation: CqModerationCaps,
    /// Device memory that can be allocated, bytes.
    pub max_dm_size: u64,
}
