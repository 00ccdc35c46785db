//! Static rates of the InfiniBand and RoCE address vector.

open_enum! {
    /// `ibv_rate`—how fast packets to one destination may leave, a field of the address vector.
    ///
    /// Numbers: IBTA volume 1 (StaticRate) and `enum ib_rate` of the kernel's
    /// `include/rdma/ib_verbs.h`.
    ///
    /// The conversions below are exact. Where libibverbs returns −1 for an unknown value
    /// (`ibv_rate_to_mult`, `ibv_rate_to_mbps`) or `IBV_RATE_MAX` (`mult_to_ibv_rate`,
    /// `mbps_to_ibv_rate`), these return `None`; [`Rate::Max`] itself has neither a multiplier nor
    /// a speed.
    #[doc(alias = "ibv_rate")]
    #[derive(Default)]
    pub enum Rate: u8 {
        /// No throttling: the port's own rate. The kernel calls it `IB_RATE_PORT_CURRENT`.
        #[default]
        Max = 0, "IBV_RATE_MAX", "port rate";
        /// 2.5 Gb/s.
        Gbps2_5 = 2, "IBV_RATE_2_5_GBPS", "2.5 Gb/s";
        /// 10 Gb/s.
        Gbps10 = 3, "IBV_RATE_10_GBPS", "10 Gb/s";
        /// 30 Gb/s.
        Gbps30 = 4, "IBV_RATE_30_GBPS", "30 Gb/s";
        /// 5 Gb/s.
        Gbps5 = 5, "IBV_RATE_5_GBPS", "5 Gb/s";
        /// 20 Gb/s.
        Gbps20 = 6, "IBV_RATE_20_GBPS", "20 Gb/s";
        /// 40 Gb/s.
        Gbps40 = 7, "IBV_RATE_40_GBPS", "40 Gb/s";
        /// 60 Gb/s.
        Gbps60 = 8, "IBV_RATE_60_GBPS", "60 Gb/s";
        /// 80 Gb/s.
        Gbps80 = 9, "IBV_RATE_80_GBPS", "80 Gb/s";
        /// 120 Gb/s.
        Gbps120 = 10, "IBV_RATE_120_GBPS", "120 Gb/s";
        /// 14 Gb/s (14.0625).
        Gbps14 = 11, "IBV_RATE_14_GBPS", "14 Gb/s";
        /// 56 Gb/s (56.25).
        Gbps56 = 12, "IBV_RATE_56_GBPS", "56 Gb/s";
        /// 112 Gb/s (112.5).
        Gbps112 = 13, "IBV_RATE_112_GBPS", "112 Gb/s";
        /// 168 Gb/s (168.75).
        Gbps168 = 14, "IBV_RATE_168_GBPS", "168 Gb/s";
        /// 25 Gb/s (25.78125).
        Gbps25 = 15, "IBV_RATE_25_GBPS", "25 Gb/s";
        /// 100 Gb/s (103.125).
        Gbps100 = 16, "IBV_RATE_100_GBPS", "100 Gb/s";
        /// 200 Gb/s (206.25).
        Gbps200 = 17, "IBV_RATE_200_GBPS", "200 Gb/s";
        /// 300 Gb/s (309.375).
        Gbps300 = 18, "IBV_RATE_300_GBPS", "300 Gb/s";
        /// 28 Gb/s (28.125).
        Gbps28 = 19, "IBV_RATE_28_GBPS", "28 Gb/s";
        /// 50 Gb/s (53.125).
        Gbps50 = 20, "IBV_RATE_50_GBPS", "50 Gb/s";
        /// 400 Gb/s (425).
        Gbps400 = 21, "IBV_RATE_400_GBPS", "400 Gb/s";
        /// 600 Gb/s (637.5).
        Gbps600 = 22, "IBV_RATE_600_GBPS", "600 Gb/s";
        /// 800 Gb/s (850).
        Gbps800 = 23, "IBV_RATE_800_GBPS", "800 Gb/s";
        /// 1200 Gb/s (1275). Named by libibverbs; the kernel has no name for 24.
        Gbps1200 = 24, "IBV_RATE_1200_GBPS", "1200 Gb/s";
        /// 1600 Gb/s (1700). Named by newer kernels (6.1 has not); libibverbs has no name for 25.
        Gbps1600 = 25, "IB_RATE_1600_GBPS", "1600 Gb/s";
    }
}

impl Rate {
    /// `ibv_rate_to_mult`—the rate as a multiple of 2.5 Gb/s.
    ///
    /// `None` for [`Rate::Max`], for an unknown number, and for the eight rates (14, 56, 112, 168,
    /// 25, 100, 200 and 300 Gb/s) that have no multiplier in libibverbs, which returns −1 for them.
    /// (The kernel's `ib_rate_to_mult` rounds those.)
    #[doc(alias = "ibv_rate_to_mult")]
    pub const fn multiplier(self) -> Option<u32> {
        Some(match self {
            Self::Gbps2_5 => 1,
            Self::Gbps5 => 2,
            Self::Gbps10 => 4,
            Self::Gbps20 => 8,
            Self::Gbps28 => 11,
            Self::Gbps30 => 12,
            Self::Gbps40 => 16,
            Self::Gbps50 => 20,
            Self::Gbps60 => 24,
            Self::Gbps80 => 32,
            Self::Gbps120 => 48,
            Self::Gbps400 => 160,
            Self::Gbps600 => 240,
            Self::Gbps800 => 320,
            Self::Gbps1200 => 480,
            Self::Gbps1600 => 640,
            _ => return None,
        })
    }

    /// `mult_to_ibv_rate`—the rate that is `multiplier` times 2.5 Gb/s.
    ///
    /// `None` if no rate has exactly this multiplier; libibverbs returns `IBV_RATE_MAX` then.
    #[doc(alias = "mult_to_ibv_rate")]
    pub fn from_multiplier(multiplier: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|rate| rate.multiplier() == Some(multiplier))
    }

    /// `ibv_rate_to_mbps`—the rate in Mb/s, fractions cut off (14 Gb/s is 14062).
    ///
    /// `None` for [`Rate::Max`] and for an unknown number; libibverbs returns −1 then.
    #[doc(alias = "ibv_rate_to_mbps")]
    pub const fn mbps(self) -> Option<u32> {
        Some(match self {
            Self::Gbps2_5 => 2_500,
            Self::Gbps5 => 5_000,
            Self::Gbps10 => 10_000,
            Self::Gbps14 => 14_062,
            Self::Gbps20 => 20_000,
            Self::Gbps25 => 25_781,
            Self::Gbps28 => 28_125,
            Self::Gbps30 => 30_000,
            Self::Gbps40 => 40_000,
            Self::Gbps50 => 53_125,
            Self::Gbps56 => 56_250,
            Self::Gbps60 => 60_000,
            Self::Gbps80 => 80_000,
            Self::Gbps100 => 103_125,
            Self::Gbps112 => 112_500,
            Self::Gbps120 => 120_000,
            Self::Gbps168 => 168_750,
            Self::Gbps200 => 206_250,
            Self::Gbps300 => 309_375,
            Self::Gbps400 => 425_000,
            Self::Gbps600 => 637_500,
            Self::Gbps800 => 850_000,
            Self::Gbps1200 => 1_275_000,
            Self::Gbps1600 => 1_700_000,
            Self::Max | Self::Unknown(_) => return None,
        })
    }

    /// `mbps_to_ibv_rate`—the rate of exactly `mbps` Mb/s, as [`Rate::mbps`] gives it.
    ///
    /// `None` if there is none; libibverbs returns `IBV_RATE_MAX` then.
    #[doc(alias = "mbps_to_ibv_rate")]
    pub fn from_mbps(mbps: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|rate| rate.mbps() == Some(mbps))
    }
}
