//! Features that are requested of kernels and that not all of them have: the table of
//! `docs/guide/kernels.md`.
//!
//! For features that the fake plays, the version comes from [`Feature::since`]; for the rest it is
//! given here, as read in the kernel's sources.

mod drivers;

use std::fmt::Write as _;

pub use drivers::OF_MLX5;
use uverbs_fake::Feature;

/// When a feature was added.
#[derive(Clone, Copy, Debug)]
pub enum Since {
    /// Since the fake's kernels have it.
    Fake(Feature),
    /// Read in sources; the fake does not play it.
    Kernel(u8, u8),
}

impl Since {
    /// Major and minor version.
    pub const fn version(self) -> (u8, u8) {
        match self {
            Self::Fake(feature) => feature.since(),
            Self::Kernel(major, minor) => (major, minor),
        }
    }
}

/// On what the behaviour without it was tested.
#[derive(Clone, Copy, Debug)]
pub enum Tried {
    /// A booted kernel that lacks it, and the fake if it plays that.
    Booted(&'static str),
    /// Only the fake kernel, or a scripted one.
    MadeUp,
    /// Nothing: it was read in sources.
    Read,
}

/// A feature that kernels have from a version on.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// When it was added.
    pub since: Since,
    /// Its names.
    pub what: &'static str,
    /// What the library does where it is missing.
    pub without: &'static str,
    /// The name of the test of that behaviour.
    pub test: &'static str,
    /// What that test, and others, ran on.
    pub tried: Tried,
}

const fn fake(feature: Feature) -> Since {
    Since::Fake(feature)
}

/// The core, discovery and rxe, oldest first.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        since: fake(Feature::Ioctl),
        what: "`RDMA_VERBS_IOCTL`, the ioctl interface (or earlier)",
        without: "every command by `write(2)`",
        test: "a_kernel_without_the_ioctl_or_without_invoke_write_is_served_by_write",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::InvokeWrite),
        what: "`DEVICE/INVOKE_WRITE`: legacy commands by ioctl",
        without: "`write(2)`, which is refused after `setuid`",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::FirstMethods),
        what: "`DEVICE/QUERY_PORT`, `INFO_HANDLES`, `MR/ADVISE_MR`; destroys of domains, regions, windows, addresses, flows, XRC domains and tables of work queues",
        without: "legacy commands; lists of handles and advice are `Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: Since::Kernel(5, 3),
        what: "netlink: nodes, drivers and ABI versions of devices (`RDMA_NLDEV_CMD_GET_CHARDEV`), counters",
        without: "sysfs",
        test: "sysfs_completes_what_an_old_kernel_leaves_out",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::ContextMethods),
        what: "`DEVICE/GET_CONTEXT`, `ASYNC_EVENT/ALLOC`; access that a device may ignore",
        without: "the legacy command, which brings its event file; such access is not asked for",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::LongInline),
        what: "rxe: 512 bytes inline",
        without: "400; more is refused by the kernel",
        test: "limits_are_the_kernel_s",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::QueueMethods),
        what: "methods of `QP`, `SRQ`, `WQ`; an event file per queue",
        without: "legacy commands",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::CqMethods),
        what: "methods of `CQ`; earlier where the kernel is configured for it (`INFINIBAND_EXP_LEGACY_VERBS_NEW_UAPI`)",
        without: "legacy commands",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::QueryMethods),
        what: "`DEVICE/QUERY_CONTEXT`, `MR/QUERY_MR`",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::GidMethods),
        what: "`DEVICE/QUERY_GID_TABLE`, `QUERY_GID_ENTRY`",
        without: "sysfs",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::ExtendedOfRxe),
        what: "rxe: extended commands (`QUERY_DEVICE`)",
        without: "plain commands",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::Booted("5.10"),
    },
    Requirement {
        since: Since::Kernel(5, 12),
        what: "`MR/REG_DMABUF_MR`",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: Since::Kernel(5, 13),
        what: "netlink: whether pinned memory is copied on fork (`COPY_ON_FORK`); 5.12 copies, and does not say so",
        without: "registered memory is kept out of children (`MADV_DONTFORK`)",
        test: "exactly_the_registered_pages_are_left_out",
        tried: Tried::Booted("5.10"),
    },
    Requirement {
        since: fake(Feature::MemoryWindows),
        what: "rxe: memory windows",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::Booted("5.10"),
    },
    Requirement {
        since: fake(Feature::AddressNumbers),
        what: "rxe: numbers of address handles",
        without: "each datagram says its whole path",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::Booted("5.10"),
    },
    Requirement {
        since: fake(Feature::LargeLimits),
        what: "rxe: about a million queue pairs, regions, requests in a queue",
        without: "65 536 queue pairs, 16 384 requests; 4096 regions with 5.14 and 5.15",
        test: "limits_are_the_kernel_s",
        tried: Tried::Booted("5.10"),
    },
    Requirement {
        since: fake(Feature::Flush),
        what: "rxe: flush, atomic write",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::Booted("6.1"),
    },
    Requirement {
        since: fake(Feature::QueueSizes),
        what: "rxe: how many requests a queue pair's queues hold, as made",
        without: "as asked",
        test: "limits_are_the_kernel_s",
        tried: Tried::Booted("6.1"),
    },
    Requirement {
        since: fake(Feature::Reregister),
        what: "rxe: re-registering",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::Booted("6.1"),
    },
    Requirement {
        since: fake(Feature::SpeedEx),
        what: "a port's speed in 32 bits (`active_speed_ex`)",
        without: "the speed in 8 bits",
        test: "the_longer_port_reply_knows_faster_speeds",
        tried: Tried::Booted("6.1"),
    },
    Requirement {
        since: fake(Feature::LongMessages),
        what: "rxe: messages of 2 GiB (not in 6.12.0, in 6.14; Debian's 6.12 has it)",
        without: "8 MiB",
        test: "limits_are_the_kernel_s",
        tried: Tried::Booted("6.1"),
    },
    Requirement {
        since: fake(Feature::ContextDescriptors),
        what: "`GET_CONTEXT` with descriptors that say what the context may do",
        without: "`Unsupported`, if any are given",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::MadeUp,
    },
    Requirement {
        since: fake(Feature::RegisterMethod),
        what: "`MR/REG_MR`; `DMAH`",
        without: "`REG_MR` by its number, `REG_DMABUF_MR`; hints are `Unsupported`",
        test: "newer_registrations_fall_back_to_older_ones",
        tried: Tried::Booted("6.12"),
    },
    Requirement {
        since: fake(Feature::SpeedMethod),
        what: "`DEVICE/QUERY_PORT_SPEED`",
        without: "`Unsupported`",
        test: "what_a_kernel_lacks_is_unsupported",
        tried: Tried::Booted("6.12"),
    },
    Requirement {
        since: fake(Feature::RobustUdata),
        what: "the core announces that drivers check their input (`ROBUST_UDATA`)",
        without: "nothing depends on it",
        test: "the_core_verbs_work_on_every_kernel",
        tried: Tried::Booted("6.12"),
    },
    Requirement {
        since: fake(Feature::CmEvents),
        what: "connection manager: services, and events that programs write (first seen in 7.2)",
        without: "`Unsupported`, distinguished from a wrong request by a second command",
        test: "older_kernels_lack_two_commands",
        tried: Tried::MadeUp,
    },
];

/// The rows of a Markdown table.
pub fn rows(requirements: &[Requirement]) -> String {
    let mut table =
        String::from("| since | what | without it | tested by | on |\n|---|---|---|---|---|\n");
    for row in requirements {
        let (major, minor) = row.since.version();
        let on = match row.tried {
            Tried::Booted(kernel) => format!("{kernel}, booted"),
            Tried::MadeUp => "a made-up kernel".to_owned(),
            Tried::Read => "nothing: only read".to_owned(),
        };
        let Requirement {
            what,
            without,
            test,
            ..
        } = row;
        let test = if test.is_empty() {
            "–".to_owned()
        } else {
            format!("`{test}`")
        };
        let _ = writeln!(
            table,
            "| {major}.{minor} | {what} | {without} | {test} | {on} |"
        );
    }
    table
}
