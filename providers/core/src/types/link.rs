//! The link of a port: state, kind, packet size, width and speed.

open_enum! {
    /// The physical state of a port (IBTA PortPhysicalState).
    pub enum PhysicalState: u8 {
        /// Asleep.
        Sleep = 1, "IB_PORT_PHYS_STATE_SLEEP", "sleep";
        /// Looking for a peer.
        Polling = 2, "IB_PORT_PHYS_STATE_POLLING", "polling";
        /// Switched off.
        Disabled = 3, "IB_PORT_PHYS_STATE_DISABLED", "disabled";
        /// Training the link.
        Training = 4, "IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING", "port configuration training";
        /// Up.
        LinkUp = 5, "IB_PORT_PHYS_STATE_LINK_UP", "link up";
        /// Recovering from errors.
        LinkErrorRecovery = 6, "IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY", "link error recovery";
        /// Under test.
        PhyTest = 7, "IB_PORT_PHYS_STATE_PHY_TEST", "phy test";
    }
}

impl PhysicalState {
    /// The name `ibv_devinfo` prints, such as `LINK_UP`.
    pub const fn devinfo_name(self) -> &'static str {
        match self {
            Self::Sleep => "SLEEP",
            Self::Polling => "POLLING",
            Self::Disabled => "DISABLED",
            Self::Training => "PORT_CONFIGURATION TRAINNING",
            Self::LinkUp => "LINK_UP",
            Self::LinkErrorRecovery => "LINK_ERROR_RECOVERY",
            Self::PhyTest => "PHY TEST",
            Self::Unknown(_) => "invalid physical state",
        }
    }
}

impl Default for PhysicalState {
    /// Not reported.
    fn default() -> Self {
        Self::from_raw(0)
    }
}

open_enum! {
    /// The link layer of a port.
    #[derive(Default)]
    pub enum LinkLayer: u8 {
        /// Not reported: InfiniBand on old kernels.
        #[default]
        Unspecified = 0, "IBV_LINK_LAYER_UNSPECIFIED", "unspecified";
        /// InfiniBand.
        InfiniBand = 1, "IBV_LINK_LAYER_INFINIBAND", "infiniband";
        /// Ethernet: RoCE or iWARP.
        Ethernet = 2, "IBV_LINK_LAYER_ETHERNET", "ethernet";
    }
}

impl LinkLayer {
    /// The name `ibv_devinfo` and sysfs print.
    pub const fn devinfo_name(self) -> &'static str {
        match self {
            Self::Unspecified | Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::Unknown(_) => "Unknown",
        }
    }
}

open_enum! {
    /// `ibv_mtu`—the largest payload of one packet, without headers.
    #[doc(alias = "ibv_mtu")]
    pub enum Mtu: u8 {
        /// 256 bytes.
        B256 = 1, "IBV_MTU_256", "256";
        /// 512 bytes.
        B512 = 2, "IBV_MTU_512", "512";
        /// 1024 bytes.
        B1024 = 3, "IBV_MTU_1024", "1024";
        /// 2048 bytes.
        B2048 = 4, "IBV_MTU_2048", "2048";
        /// 4096 bytes.
        B4096 = 5, "IBV_MTU_4096", "4096";
    }
}

impl Mtu {
    /// Bytes, or `None` for an unknown number.
    pub const fn bytes(self) -> Option<u32> {
        Some(match self {
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
            Self::Unknown(_) => return None,
        })
    }

    /// The MTU of exactly `bytes` bytes.
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        Some(match bytes {
            256 => Self::B256,
            512 => Self::B512,
            1024 => Self::B1024,
            2048 => Self::B2048,
            4096 => Self::B4096,
            _ => return None,
        })
    }

    /// The largest MTU of at most `bytes` bytes, or `None` below 256.
    pub const fn within(bytes: u32) -> Option<Self> {
        Some(match bytes {
            0..=255 => return None,
            256..=511 => Self::B256,
            512..=1023 => Self::B512,
            1024..=2047 => Self::B1024,
            2048..=4095 => Self::B2048,
            4096.. => Self::B4096,
        })
    }
}

open_enum! {
    /// How many lanes a link has.
    pub enum LinkWidth: u8 {
        /// One lane.
        X1 = 1, "IB_WIDTH_1X", "1x";
        /// Four lanes.
        X4 = 2, "IB_WIDTH_4X", "4x";
        /// Eight lanes.
        X8 = 4, "IB_WIDTH_8X", "8x";
        /// Twelve lanes.
        X12 = 8, "IB_WIDTH_12X", "12x";
        /// Two lanes.
        X2 = 16, "IB_WIDTH_2X", "2x";
    }
}

impl LinkWidth {
    /// Lanes, or `None` for an unknown number.
    pub const fn lanes(self) -> Option<u32> {
        Some(match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
            Self::Unknown(_) => return None,
        })
    }
}

impl Default for LinkWidth {
    fn default() -> Self {
        Self::from_raw(0)
    }
}

open_enum! {
    /// Speed of one lane.
    pub enum LinkSpeed: u32 {
        /// 2.5 Gb/s.
        Sdr = 1, "IB_SPEED_SDR", "SDR";
        /// 5 Gb/s.
        Ddr = 2, "IB_SPEED_DDR", "DDR";
        /// 10 Gb/s.
        Qdr = 4, "IB_SPEED_QDR", "QDR";
        /// 10 Gb/s with the coding of FDR.
        Fdr10 = 8, "IB_SPEED_FDR10", "FDR10";
        /// 14 Gb/s.
        Fdr = 16, "IB_SPEED_FDR", "FDR";
        /// 25 Gb/s.
        Edr = 32, "IB_SPEED_EDR", "EDR";
        /// 50 Gb/s.
        Hdr = 64, "IB_SPEED_HDR", "HDR";
        /// 100 Gb/s. Replies with an 8-bit speed report this for anything faster, too.
        Ndr = 128, "IB_SPEED_NDR", "NDR";
        /// 200 Gb/s.
        Xdr = 256, "IB_SPEED_XDR", "XDR";
    }
}

impl LinkSpeed {
    /// Nominal Mb/s of one lane as the kernel's sysfs counts them, or `None` for an unknown number.
    pub const fn lane_mbps(self) -> Option<u32> {
        Some(match self {
            Self::Sdr => 2_500,
            Self::Ddr => 5_000,
            Self::Qdr | Self::Fdr10 => 10_000,
            Self::Fdr => 14_000,
            Self::Edr => 25_000,
            Self::Hdr => 50_000,
            Self::Ndr => 100_000,
            Self::Xdr => 200_000,
            Self::Unknown(_) => return None,
        })
    }
}

impl Default for LinkSpeed {
    fn default() -> Self {
        Self::from_raw(0)
    }
}

open_enum! {
    /// How many virtual lanes a port has at most (IBTA VLCap).
    pub enum VirtualLanes: u8 {
        /// Lane 0.
        Vl0 = 1, "VL0", "1";
        /// Lanes 0 and 1.
        Vl0To1 = 2, "VL0 - VL1", "2";
        /// Lanes 0 to 3.
        Vl0To3 = 3, "VL0 - VL3", "4";
        /// Lanes 0 to 7.
        Vl0To7 = 4, "VL0 - VL7", "8";
        /// Lanes 0 to 14.
        Vl0To14 = 5, "VL0 - VL14", "15";
    }
}

impl Default for VirtualLanes {
    fn default() -> Self {
        Self::from_raw(0)
    }
}
