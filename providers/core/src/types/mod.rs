//! The vocabulary of RDMA verbs: plain values, no I/O.
//!
//! Providers and commands use these types, and the public crate re-exports them. Three rules hold
//! throughout:
//!
//! - *Unknown values are kept in replies and never sent in requests.* An enum that the kernel may
//!   extend has an `Unknown` variant, which never holds a number that has a name; `from_raw` and
//!   `raw` are total and inverse to each other. Flag sets keep unnamed bits. Code that writes a
//!   request converts values by `checked`, which rejects unnamed ones.
//! - *Numbers are the kernel's.* Raw values are those of `include/uapi/rdma/*.h`; where libibverbs
//!   uses other numbers, the type's documentation says so.
//! - *Names.* `Display` prints short lower-case words. `c_name` returns the name of the libibverbs
//!   constant. Where the C library has a `*_str` function, `ibv_str` returns exactly its text.

#[macro_use]
pub(crate) mod macros;

mod ah;
pub(crate) mod checked;
mod cq;
mod device;
mod device_caps;
mod ece;
mod event;
mod gid;
mod grh;
mod guid;
mod link;
mod mr;
mod port;
mod qp;
mod qp_attr;
mod qp_transition;
mod range;
mod rate;
mod remote;
mod srq;
mod template;
#[cfg(test)]
mod tests;
mod time;
mod wr;

pub use ah::{
    AddressVector, FlowLabel, GlobalRoute, MULTICAST_LID_BASE, MULTICAST_QPN, PathBits,
    ServiceLevel,
};
pub use checked::Unrecognized;
pub use cq::{CqCreateFlags, Timestamps, WcFlags, WcOpcode, WcStatus, WorkCompletion};
pub use device::{DeviceAttr, DriverId, FirmwareVersion, NodeType, TransportType};
pub use device_caps::{
    AtomicCap, CqModerationCaps, DeviceCaps, OdpCaps, OdpGeneralCaps, OdpTransportCaps,
    RawPacketCaps, RssCaps, TagMatchingCaps, TagMatchingFlags,
};
pub use ece::Ece;
pub use event::{AsyncEventType, EventCounts, EventObject};
pub use gid::{Gid, GidEntry, GidType, ParseGidError};
pub use grh::{Grh, IpVersion};
pub use guid::{Guid, ParseGuidError};
pub use link::{LinkLayer, LinkSpeed, LinkWidth, Mtu, PhysicalState, VirtualLanes};
pub use mr::{AccessFlags, LocalKey, MrAdvice, MrAdviceFlags, MwType, RemoteKey, ReregFlags};
pub use port::{PortAttr, PortCaps, PortCaps2, PortFlags, PortState};
pub use qp::{MigrationState, QpAttrMask, QpCaps, QpCreateFlags, QpState, QpType, SigMode};
pub use qp_attr::{AlternatePath, QpAttr, QpInfo};
pub use qp_transition::{Diagnosis, Requirement, diagnose, is_legal, requirement};
pub use range::OutOfRange;
pub use rate::Rate;
pub use remote::{ParseRemoteError, Remote, RemoteMemory};
pub use srq::{SrqAttr, SrqAttrMask, SrqModify, SrqType};
pub use template::{Posting, Template};
pub use time::{AckTimeout, Psn, RetryCount, RnrRetry, RnrTimer};
pub use wr::{
    Address, Destination, Operation, Payload, Placement, RESERVED_WR_IDS, RecvRequest, SendFlags,
    SendRequest, Sge, WindowBinding,
};
