//! Kernel objects and who created them, as `rdma resource` shows them.

use std::fmt;

#[allow(
    clippy::wildcard_imports,
    reason = "47 names of one header; the lint spares test builds"
)]
use uverbs_uapi::rdma_netlink::*;

use super::{Attributes, Malformed};
use crate::types::{LocalKey, QpState, RemoteKey};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal, $command:ident, $table:ident, $entry:ident, $id:ident;)*) => {
        /// A kind of kernel object that can be listed.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum ResourceKind {
            $($(#[$doc])* $kind,)*
        }

        impl ResourceKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The kernel's name for it, as in summaries.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }

            pub(super) const fn command(self) -> u16 {
                match self { $(Self::$kind => $command,)* }
            }

            const fn table(self) -> u16 {
                match self { $(Self::$kind => $table,)* }
            }

            const fn entry(self) -> u16 {
                match self { $(Self::$kind => $entry,)* }
            }

            const fn id(self) -> u16 {
                match self { $(Self::$kind => $id,)* }
            }
        }
    };
}

kinds! {
    /// Protection domains.
    ProtectionDomain = "pd", RDMA_NLDEV_CMD_RES_PD_GET,
        RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN;
    /// Completion queues.
    CompletionQueue = "cq", RDMA_NLDEV_CMD_RES_CQ_GET,
        RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN;
    /// Queue pairs.
    QueuePair = "qp", RDMA_NLDEV_CMD_RES_QP_GET,
        RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY, RDMA_NLDEV_ATTR_RES_LQPN;
    /// Connections of the connection manager.
    ConnectionId = "cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET,
        RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN;
    /// Memory regions.
    MemoryRegion = "mr", RDMA_NLDEV_CMD_RES_MR_GET,
        RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN;
    /// Opened devices (Linux 5.13).
    Context = "ctx", RDMA_NLDEV_CMD_RES_CTX_GET,
        RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY, RDMA_NLDEV_ATTR_RES_CTXN;
    /// Shared receive queues (Linux 5.13).
    SharedReceiveQueue = "srq", RDMA_NLDEV_CMD_RES_SRQ_GET,
        RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQN;
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Who created an object.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Owner {
    /// A process, by its pid in this process's pid namespace.
    Process(u32),
    /// A part of the kernel.
    Kernel(String),
    /// A process that has ended, or that is invisible to this one.
    #[default]
    Unknown,
}

/// A kernel object. Fields that do not apply to its kind are `None`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// Id of the object among those of its kind on its device; for a queue pair the queue pair
    /// number.
    pub id: Option<u32>,
    /// Who created it.
    pub owner: Owner,
    /// Port.
    pub port: Option<u32>,
    /// Protection domain, by its [`id`](Self::id).
    pub pd: Option<u32>,
    /// Completion queue, by its id.
    pub cq: Option<u32>,
    /// Opened device, by its id.
    pub context: Option<u32>,
    /// The peer's queue pair number.
    pub remote_qpn: Option<u32>,
    /// Sequence number of the next packet expected.
    pub rq_psn: Option<u32>,
    /// Sequence number of the next packet to send.
    pub sq_psn: Option<u32>,
    /// `enum ib_qp_type` or `enum ib_srq_type` of the kernel.
    pub kind: Option<u8>,
    /// State of a queue pair ([`QpState`]) or of a connection.
    pub state: Option<u8>,
    /// Entries of a completion queue.
    pub cqe: Option<u32>,
    /// How many objects use it.
    pub users: Option<u64>,
    /// Bytes of a memory region.
    pub length: Option<u64>,
    /// lkey; reported only with `CAP_NET_ADMIN`.
    pub lkey: Option<LocalKey>,
    /// rkey; reported only with `CAP_NET_ADMIN`.
    pub rkey: Option<RemoteKey>,
}

impl Resource {
    /// Adds the objects in one message of a list to `resources`.
    ///
    /// # Errors
    /// [`Malformed`] if an attribute cannot be parsed.
    pub fn parse_list(
        kind: ResourceKind,
        attributes: Attributes<'_>,
        resources: &mut Vec<Self>,
    ) -> Result<(), Malformed> {
        for table in attributes.all(kind.table()) {
            for entry in table?.nest().all(kind.entry()) {
                resources.push(Self::parse(kind, entry?.nest())?);
            }
        }
        Ok(())
    }

    fn parse(kind: ResourceKind, attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let mut resource = Self::default();
        for attribute in attributes.iter() {
            let (attribute, value) = attribute?;
            match attribute {
                id if id == kind.id() => resource.id = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_PID => resource.owner = Owner::Process(value.fit()?),
                RDMA_NLDEV_ATTR_RES_KERN_NAME => resource.owner = Owner::Kernel(value.text()?),
                RDMA_NLDEV_ATTR_PORT_INDEX => resource.port = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_PDN => resource.pd = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_CQN => resource.cq = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_CTXN => resource.context = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_RQPN => resource.remote_qpn = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_RQ_PSN => resource.rq_psn = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_SQ_PSN => resource.sq_psn = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_TYPE => resource.kind = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_STATE => resource.state = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_CQE => resource.cqe = Some(value.fit()?),
                RDMA_NLDEV_ATTR_RES_USECNT => resource.users = Some(value.number()?),
                RDMA_NLDEV_ATTR_RES_MRLEN => resource.length = Some(value.number()?),
                RDMA_NLDEV_ATTR_RES_LKEY => resource.lkey = Some(LocalKey::from_raw(value.fit()?)),
                RDMA_NLDEV_ATTR_RES_RKEY => resource.rkey = Some(RemoteKey::from_raw(value.fit()?)),
                _ => {}
            }
        }
        Ok(resource)
    }

    /// The state of a queue pair.
    pub fn qp_state(&self) -> Option<QpState> {
        self.state.map(QpState::from_raw)
    }
}

/// How many objects of each kind a device has (`RDMA_NLDEV_CMD_RES_GET`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Index of the device.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// The kernel's name of a kind, and the number of objects. Newer kernels have more kinds.
    pub counts: Vec<(String, u64)>,
}

impl Summary {
    /// Parses the answer.
    ///
    /// # Errors
    /// [`Malformed`] if an entry has no name or number, or an attribute cannot be parsed.
    pub fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let mut summary = Self::default();
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_ATTR_DEV_INDEX => summary.index = value.fit()?,
                RDMA_NLDEV_ATTR_DEV_NAME => summary.name = value.name()?,
                RDMA_NLDEV_ATTR_RES_SUMMARY => {
                    for entry in value.nest().all(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY) {
                        summary.counts.push(count(entry?.nest())?);
                    }
                }
                _ => {}
            }
        }
        Ok(summary)
    }

    /// How many objects of a kind there are; 0 where the kernel does not count them.
    pub fn count(&self, kind: ResourceKind) -> u64 {
        let found = self.counts.iter().find(|(name, _)| name == kind.name());
        found.map_or(0, |(_, count)| *count)
    }
}

fn count(attributes: Attributes<'_>) -> Result<(String, u64), Malformed> {
    let (mut name, mut current) = (None, None);
    for attribute in attributes.iter() {
        let (kind, value) = attribute?;
        match kind {
            RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME => name = Some(value.text()?),
            RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR => current = Some(value.number()?),
            _ => {}
        }
    }
    name.zip(current)
        .ok_or(Malformed("a count without name or number"))
}

/// What one process holds, on all devices together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// Protection domains.
    pub pd: usize,
    /// Completion queues.
    pub cq: usize,
    /// Queue pairs.
    pub qp: usize,
    /// Connections of the connection manager.
    pub cm_id: usize,
    /// Memory regions.
    pub mr: usize,
    /// Opened devices.
    pub ctx: usize,
    /// Shared receive queues.
    pub srq: usize,
}

impl Usage {
    pub(super) fn of(&mut self, kind: ResourceKind) -> &mut usize {
        match kind {
            ResourceKind::ProtectionDomain => &mut self.pd,
            ResourceKind::CompletionQueue => &mut self.cq,
            ResourceKind::QueuePair => &mut self.qp,
            ResourceKind::ConnectionId => &mut self.cm_id,
            ResourceKind::MemoryRegion => &mut self.mr,
            ResourceKind::Context => &mut self.ctx,
            ResourceKind::SharedReceiveQueue => &mut self.srq,
        }
    }

    /// All of them.
    pub const fn total(&self) -> usize {
        self.pd + self.cq + self.qp + self.cm_id + self.mr + self.ctx + self.srq
    }
}
