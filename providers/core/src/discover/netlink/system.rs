//! Settings of the whole RDMA subsystem.

use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, RDMA_NLDEV_SYS_ATTR_MONITOR_MODE,
    RDMA_NLDEV_SYS_ATTR_NETNS_MODE, RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE,
};

use super::{Attributes, Malformed};
use crate::types::Unrecognized;

/// Whether devices belong to network namespaces.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum NetnsMode {
    /// A device belongs to one namespace and can only be opened there.
    Exclusive,
    /// All devices are visible in all namespaces.
    Shared,
    /// A mode without a name in this version. Only a kernel's answer creates one.
    Unknown(Unrecognized<NetnsMode, u8>),
}

impl NetnsMode {
    /// The kernel's number.
    pub const fn raw(self) -> u8 {
        match self {
            Self::Exclusive => 0,
            Self::Shared => 1,
            Self::Unknown(unrecognized) => unrecognized.raw(),
        }
    }

    /// The mode of a kernel number.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0 => Self::Exclusive,
            1 => Self::Shared,
            raw => Self::Unknown(Unrecognized::new(raw)),
        }
    }
}

/// The answer to `RDMA_NLDEV_CMD_SYS_GET`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct System {
    /// Whether devices belong to network namespaces (Linux 5.2).
    pub netns_mode: Option<NetnsMode>,
    /// Pinned pages are copied for a child when a process forks, so registered memory needs no
    /// special treatment (Linux 5.13).
    pub copy_on_fork: bool,
    /// Unprivileged processes may use privileged queue keys (Linux 6.7).
    pub privileged_qkey: Option<bool>,
    /// The kernel can report device changes (Linux 6.12).
    pub monitor: bool,
}

impl System {
    /// Parses the answer.
    ///
    /// # Errors
    /// [`Malformed`] if an attribute cannot be parsed.
    pub fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let mut system = Self::default();
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_SYS_ATTR_NETNS_MODE => {
                    system.netns_mode = Some(NetnsMode::from_raw(value.fit()?));
                }
                RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK => system.copy_on_fork = value.flag()?,
                RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE => {
                    system.privileged_qkey = Some(value.flag()?);
                }
                RDMA_NLDEV_SYS_ATTR_MONITOR_MODE => system.monitor = value.flag()?,
                _ => {}
            }
        }
        Ok(system)
    }
}
