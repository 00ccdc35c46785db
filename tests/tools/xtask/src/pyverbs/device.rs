//! The devices that the suite runs on.

use std::str::FromStr;
use testbed::Function;

const OF_RXE: [&str; 10] = [
    "test_addr",
    "test_cq",
    "test_cq_events",
    "test_cqex",
    "test_device",
    "test_flow",
    "test_fork",
    "test_pd",
    "test_qp",
    "test_srq",
];
const OF_ETHERNET: [&str; 11] = [
    "test_addr",
    "test_device",
    "test_flow",
    "test_mlx5_dc",
    "test_mlx5_flow",
    "test_mlx5_raw_wqe",
    "test_mlx5_sched",
    "test_mlx5_udp_sport",
    "test_qp",
    "test_rss_traffic",
    "test_srq",
];

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// The kernel's own soft RoCE, without a model.
    Rxe,
    /// A function of the software ConnectX.
    Connectx(Function),
}

impl Device {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rxe => "rxe",
            Self::Connectx(function) => function.name(),
        }
    }

    /// The name of its driver in recordings.
    pub(super) fn driver(self) -> &'static str {
        match self {
            Self::Rxe => "rxe",
            Self::Connectx(_) => "mlx5",
        }
    }

    /// The modules that are recorded; empty for all of them.
    ///
    /// rxe's port has 1024 GIDs, all of which the suite reads over and over, and the recorder stops
    /// at every one of these calls: the other modules exceed their time limit. On RoCE only modules
    /// that depend on the kind of port are recorded, without test_mlx5_dr: its thousands of
    /// firmware commands take too long, too.
    pub(super) fn recorded(self) -> &'static [&'static str] {
        match self {
            Self::Rxe => &OF_RXE,
            Self::Connectx(Function::Ib) => &[],
            Self::Connectx(_) => &OF_ETHERNET,
        }
    }

    /// How many tests pass at least on this kernel.
    pub(super) fn least(self, kernel: &str) -> u32 {
        match (self, kernel) {
            (Self::Rxe, "6.12") => 102,
            (Self::Connectx(Function::Ib), "6.12") => 186,
            (Self::Connectx(Function::Roce), "6.12") => 215,
            (Self::Connectx(Function::Ib | Function::Roce), _) => 110,
            _ => 0,
        }
    }

    /// The verbs name of the first device of its kind.
    pub(super) fn verbs_name(self) -> &'static str {
        match self {
            Self::Rxe => "rxe0",
            Self::Connectx(_) => "mlx5_0",
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "rxe" => Ok(Self::Rxe),
            function => function.parse().map(Self::Connectx),
        }
    }
}
