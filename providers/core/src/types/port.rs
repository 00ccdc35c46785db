//! The state and limits of a port.

use super::{LinkLayer, LinkSpeed, LinkWidth, Mtu, PhysicalState, VirtualLanes};

open_enum! {
    /// `ibv_port_state`—the logical state of a port.
    #[doc(alias = "ibv_port_state")]
    #[derive(Default)]
    pub enum PortState: u8 {
        /// No change; only meaningful in requests to the port.
        #[default]
        Nop = 0, "IBV_PORT_NOP", "no change";
        /// The link is down.
        Down = 1, "IBV_PORT_DOWN", "down";
        /// The link is up; a subnet manager has not configured it yet.
        Init = 2, "IBV_PORT_INIT", "init";
        /// Configured, not activated.
        Armed = 3, "IBV_PORT_ARMED", "armed";
        /// Packets flow.
        Active = 4, "IBV_PORT_ACTIVE", "active";
        /// Packets flow, the link is recovering.
        ActiveDefer = 5, "IBV_PORT_ACTIVE_DEFER", "active defer";
    }
}

impl PortState {
    /// `ibv_port_state_str`—the text of the C library.
    #[doc(alias = "ibv_port_state_str")]
    pub const fn ibv_str(self) -> &'static str {
        match self {
            Self::Nop => "no state change (NOP)",
            Self::Down => "down",
            Self::Init => "init",
            Self::Armed => "armed",
            Self::Active => "active",
            Self::ActiveDefer => "active defer",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The name `ibv_devinfo` prints, such as `PORT_ACTIVE`.
    pub const fn devinfo_name(self) -> &'static str {
        match self {
            Self::Down => "PORT_DOWN",
            Self::Init => "PORT_INIT",
            Self::Armed => "PORT_ARMED",
            Self::Active => "PORT_ACTIVE",
            Self::Nop | Self::ActiveDefer | Self::Unknown(_) => "invalid state",
        }
    }
}

open_flags! {
    /// `ibv_port_cap_flags`—PortInfo CapabilityMask (`enum ib_uverbs_query_port_cap_flags`).
    #[doc(alias = "ibv_port_cap_flags")]
    pub struct PortCaps: u32 {
        /// A subnet manager runs here.
        SM = 1 << 1, "IBV_PORT_SM";
        /// Notices.
        NOTICE_SUP = 1 << 2, "IBV_PORT_NOTICE_SUP";
        /// Traps.
        TRAP_SUP = 1 << 3, "IBV_PORT_TRAP_SUP";
        /// Optional inter-packet delays.
        OPT_IPD_SUP = 1 << 4, "IBV_PORT_OPT_IPD_SUP";
        /// Automatic path migration.
        AUTO_MIGR_SUP = 1 << 5, "IBV_PORT_AUTO_MIGR_SUP";
        /// Service level mapping.
        SL_MAP_SUP = 1 << 6, "IBV_PORT_SL_MAP_SUP";
        /// The management key survives power loss.
        MKEY_NVRAM = 1 << 7, "IBV_PORT_MKEY_NVRAM";
        /// Partition keys survive power loss.
        PKEY_NVRAM = 1 << 8, "IBV_PORT_PKEY_NVRAM";
        /// LED control.
        LED_INFO_SUP = 1 << 9, "IBV_PORT_LED_INFO_SUP";
        /// The subnet manager here is switched off.
        SM_DISABLED = 1 << 10, "IB_UVERBS_PCF_SM_DISABLED";
        /// System image GUID.
        SYS_IMAGE_GUID_SUP = 1 << 11, "IBV_PORT_SYS_IMAGE_GUID_SUP";
        /// Partition traps from external switch ports.
        PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12, "IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP";
        /// FDR and EDR.
        EXTENDED_SPEEDS_SUP = 1 << 14, "IBV_PORT_EXTENDED_SPEEDS_SUP";
        /// A second capability mask exists: [`PortCaps2`].
        CAP_MASK2_SUP = 1 << 15, "IBV_PORT_CAP_MASK2_SUP";
        /// Communication management.
        CM_SUP = 1 << 16, "IBV_PORT_CM_SUP";
        /// SNMP tunnelling.
        SNMP_TUNNEL_SUP = 1 << 17, "IBV_PORT_SNMP_TUNNEL_SUP";
        /// Reinitialisation.
        REINIT_SUP = 1 << 18, "IBV_PORT_REINIT_SUP";
        /// Device management.
        DEVICE_MGMT_SUP = 1 << 19, "IBV_PORT_DEVICE_MGMT_SUP";
        /// Vendor classes.
        VENDOR_CLASS_SUP = 1 << 20, "IBV_PORT_VENDOR_CLASS_SUP";
        /// Notices by directed route.
        DR_NOTICE_SUP = 1 << 21, "IBV_PORT_DR_NOTICE_SUP";
        /// Notices on capability changes.
        CAP_MASK_NOTICE_SUP = 1 << 22, "IBV_PORT_CAP_MASK_NOTICE_SUP";
        /// Boot management.
        BOOT_MGMT_SUP = 1 << 23, "IBV_PORT_BOOT_MGMT_SUP";
        /// Link latency measurement.
        LINK_LATENCY_SUP = 1 << 24, "IBV_PORT_LINK_LATENCY_SUP";
        /// Client reregistration.
        CLIENT_REG_SUP = 1 << 25, "IBV_PORT_CLIENT_REG_SUP";
        /// GIDs are IP addresses. The kernel's own flag, in place of the IBTA's bit at this
        /// position.
        IP_BASED_GIDS = 1 << 26, "IBV_PORT_IP_BASED_GIDS";
        /// Table of link speeds and widths.
        LINK_SPEED_WIDTH_TABLE_SUP = 1 << 27, "IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP";
        /// Table of vendor MADs.
        VENDOR_SPECIFIC_MADS_TABLE_SUP = 1 << 28, "IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP";
        /// Multicast partition traps can be suppressed.
        MCAST_PKEY_TRAP_SUPPRESSION_SUP = 1 << 29, "IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP";
        /// Multicast forwarding table top.
        MCAST_FDB_TOP_SUP = 1 << 30, "IB_UVERBS_PCF_MCAST_FDB_TOP_SUP";
        /// Hierarchy information.
        HIERARCHY_INFO_SUP = 1 << 31, "IB_UVERBS_PCF_HIERARCHY_INFO_SUP";
    }
}

open_flags! {
    /// `ibv_port_cap_flags2`—PortInfo CapabilityMask2. Zero where the kernel has only the shorter
    /// reply.
    #[doc(alias = "ibv_port_cap_flags2")]
    pub struct PortCaps2: u16 {
        /// The node description can be set.
        SET_NODE_DESC_SUP = 1 << 0, "IBV_PORT_SET_NODE_DESC_SUP";
        /// Extended port information.
        INFO_EXT_SUP = 1 << 1, "IBV_PORT_INFO_EXT_SUP";
        /// Virtual ports.
        VIRT_SUP = 1 << 2, "IBV_PORT_VIRT_SUP";
        /// Switch port state table.
        SWITCH_PORT_STATE_TABLE_SUP = 1 << 3, "IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP";
        /// Two lanes.
        LINK_WIDTH_2X_SUP = 1 << 4, "IBV_PORT_LINK_WIDTH_2X_SUP";
        /// HDR.
        LINK_SPEED_HDR_SUP = 1 << 5, "IBV_PORT_LINK_SPEED_HDR_SUP";
        /// NDR.
        LINK_SPEED_NDR_SUP = 1 << 10, "IBV_PORT_LINK_SPEED_NDR_SUP";
        /// XDR.
        LINK_SPEED_XDR_SUP = 1 << 12, "IBV_PORT_LINK_SPEED_XDR_SUP";
    }
}

open_flags! {
    /// What every packet of a port must have (`enum ib_uverbs_query_port_flags`).
    pub struct PortFlags: u8 {
        /// Every address vector needs a global route; always set on RoCE.
        GRH_REQUIRED = 1 << 0, "IBV_QPF_GRH_REQUIRED";
    }
}

/// `ibv_port_attr`—state and limits of a port: the fields of `ib_uverbs_query_port_resp_ex`.
///
/// On a kernel without the longer reply, `caps2` is empty and `active_speed` comes from the 8-bit
/// field.
#[doc(alias = "ibv_port_attr")]
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PortAttr {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub phys_state: PhysicalState,
    /// Link layer.
    pub link_layer: LinkLayer,
    /// Largest MTU that the port supports.
    pub max_mtu: Mtu,
    /// MTU in use.
    pub active_mtu: Mtu,
    /// Length of the GID table.
    pub gid_tbl_len: u32,
    /// Length of the partition key table.
    pub pkey_tbl_len: u16,
    /// Capabilities.
    pub caps: PortCaps,
    /// More capabilities.
    pub caps2: PortCaps2,
    /// What every packet must have.
    pub flags: PortFlags,
    /// Largest message, bytes.
    pub max_msg_sz: u32,
    /// Packets with a bad partition key.
    pub bad_pkey_cntr: u32,
    /// Packets with a bad queue key.
    pub qkey_viol_cntr: u32,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Number of low LID bits that select a path (LID mask control).
    pub lmc: u8,
    /// Virtual lanes.
    pub max_vl_num: VirtualLanes,
    /// Service level for packets to the subnet manager.
    pub sm_sl: u8,
    /// Propagation delay in the subnet: 4.096 µs · 2ⁿ.
    pub subnet_timeout: u8,
    /// How the subnet manager initialised the port.
    pub init_type_reply: u8,
    /// Lanes in use.
    pub active_width: LinkWidth,
    /// Speed of a lane in use.
    pub active_speed: LinkSpeed,
}

impl Default for PortAttr {
    fn default() -> Self {
        Self {
            state: PortState::default(),
            phys_state: PhysicalState::default(),
            link_layer: LinkLayer::default(),
            max_mtu: Mtu::from_raw(0),
            active_mtu: Mtu::from_raw(0),
            gid_tbl_len: 0,
            pkey_tbl_len: 0,
            caps: PortCaps::empty(),
            caps2: PortCaps2::empty(),
            flags: PortFlags::empty(),
            max_msg_sz: 0,
            bad_pkey_cntr: 0,
            qkey_viol_cntr: 0,
            lid: 0,
            sm_lid: 0,
            lmc: 0,
            max_vl_num: VirtualLanes::default(),
            sm_sl: 0,
            subnet_timeout: 0,
            init_type_reply: 0,
            active_width: LinkWidth::default(),
            active_speed: LinkSpeed::default(),
        }
    }
}

impl PortAttr {
    /// Nominal Mb/s of all lanes together, or `None` if width or speed is unknown.
    pub const fn link_mbps(&self) -> Option<u32> {
        match (self.active_width.lanes(), self.active_speed.lane_mbps()) {
            (Some(lanes), Some(mbps)) => Some(lanes * mbps),
            _ => None,
        }
    }

    /// Nominal Gb/s of all lanes together, or `None` if width or speed is unknown.
    pub fn link_gbps(&self) -> Option<f64> {
        self.link_mbps().map(|mbps| f64::from(mbps) / 1000.0)
    }

    /// Whether packets can be sent.
    pub const fn is_active(&self) -> bool {
        matches!(self.state, PortState::Active | PortState::ActiveDefer)
    }

    /// Whether address vectors of this port need a global route.
    pub const fn needs_grh(&self) -> bool {
        self.flags.contains(PortFlags::GRH_REQUIRED)
            || matches!(self.link_layer, LinkLayer::Ethernet)
    }
}
