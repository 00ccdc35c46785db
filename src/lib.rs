//! RDMA verbs in pure Rust, straight to the Linux kernel's uverbs ABI: no libibverbs, no provider
//! libraries, no C.
//!
//! A process opens `/dev/infiniband/uverbsN`, issues the kernel's commands itself and maps the
//! device's queues. A static musl binary is enough; a scratch container needs nothing else.
//!
//! ```no_run
//! use uverbs::owned;
//! use uverbs::transport::Rc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = uverbs::Context::open("rxe0")?;
//! let pd = context.alloc_pd()?;
//! let mut cq = context.create_cq(16)?;
//! let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;
//!
//! // Endpoints are exchanged with the peer; here the peer is this queue pair itself.
//! let endpoint = prepared.endpoint();
//! let mut qp = owned::QueuePair::new(prepared.handshake(endpoint)?);
//!
//! // Buffers move in with a request and come back with its completion.
//! let [mut message, reply] = pd.buffers::<2>(64)?;
//! message[..5].copy_from_slice(b"hello");
//! qp.recv(reply, 0)?;
//! qp.send(message, 5, 1)?;
//! let mut done = 0;
//! while done < 2 {
//!     let Some(completion) = cq.poll()? else { continue };
//!     if let Ok(finished) = qp.complete(completion) {
//!         assert!(finished.status().is_success());
//!         done += 1;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What the objects are
//!
//! RDMA lets a network adapter read and write a program's memory without the kernel, and without
//! the peer's processor. What a program needs for that:
//!
//! - A **[context](Context)** is an opened device. Everything else belongs to one.
//! - A **[protection domain](ProtectionDomain)** (PD) says which objects may be used together.
//! - A **[memory region](MemoryRegion)** (MR) is memory that the device may access. Its `lkey`
//!   names it in this host's requests, its `rkey` in those of peers, where it allows them.
//! - A **[queue pair](QueuePair)** (QP) is one end of a connection: work requests are posted to its
//!   send queue (send, RDMA write, RDMA read, atomics) and to its receive queue (where incoming
//!   messages go).
//! - A **[completion queue](CompletionQueue)** (CQ) is where the device reports which requests have
//!   finished, and how. Several queues may share one.
//! - A **[shared receive queue](SharedReceiveQueue)** (SRQ) holds receive requests that all of its
//!   queue pairs take from, so that many connections need few buffers.
//!
//! Posting and polling go straight to memory that is shared with the device; everything else is a
//! system call. A request's memory belongs to the device until its completion is polled.
//!
//! # Two memory worlds
//!
//! [`owned`] is the safe one: queues own the buffers of posted work until it has completed, or
//! until the kernel has confirmed that the queue is gone. No safe program can free or alias memory
//! that a device may still touch, whatever it forgets or drops, in any order.
//!
//! The queues themselves ([`QueuePair::post_send`], [`SharedReceiveQueue::post_recv`]) take raw
//! scatter/gather entries. Posting those is `unsafe`, and each function lists what its caller must
//! guarantee.
//!
//! # Handles
//!
//! Handles own their parents: one struct can hold a context, a protection domain, queues and
//! regions, and every drop order is correct. [`Context`], [`ProtectionDomain`], [`MemoryRegion`]
//! and [`AddressHandle`] are cheap to clone. Queues are not: `&mut` gives the exclusive access that
//! lets posting and polling do without locks.
//!
//! # Errors
//!
//! Control-path calls return [`Error`]: the operation, the errno, the facts, a hint. Posting and
//! polling return the small [`PostError`] and [`PollError`]. Nothing here panics on an answer from
//! the kernel or the device.
//!
//! # Where things are
//!
//! The root holds what programs start with. `x.create_y(…)` creates; `x.y(…)` returns a builder,
//! and its `build` creates. Everything else is in modules by subject:
//!
//! | module | what is in it |
//! |---|---|
//! | [`owned`] | the safe memory world |
//! | [`hub`] | many connections on one completion queue |
//! | [`attr`], [`caps`], [`link`], [`gid`] | what devices, ports and queues are, and can do |
//! | [`time`], [`rate`], [`address`], [`memory`], [`request`] | parts of settings and requests |
//! | [`completion`], [`event`], [`error`] | what comes back |
//! | [`cm`] | connections by IP address (`rdma_cm`) |
//! | [`stream`] | streams of bytes by IP address |
//! | [`typed`] | queues of a vendor that the program knows |
//! | [`exchange`] | exchanging endpoints, memory and readiness with a peer |
//! | [`transport`] | what queue pairs of each transport can be set to and can do |
//! | [`transition`] | the states of a queue pair |
//! | [`discover`], [`kernel`], [`recorder`] | devices, how commands reach the kernel, and what they look like |
//! | [`mlx5`] | what only ConnectX has |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `mlx5` (default) | the provider of ConnectX-4 and later, and [`mlx5`] |
//! | `rxe` (default) | the provider of soft RoCE |
//! | `rings` | queues can be watched, entry by entry (`rings`) |
//! | `memmap2` | memory maps of that crate can be registered ([`owned::StableBytes`]) |
//! | `zerocopy` | buffers of values (`owned::TypedBuffer`), and views of bytes as values |
//! | `tokio` | `async` waiting for completions and events ([`asynchronous`]) |

#![cfg_attr(
    not(feature = "mlx5"),
    allow(dead_code, reason = "only what is one vendor's alone uses it")
)]
#![cfg_attr(
    not(any(feature = "mlx5", feature = "rxe")),
    allow(
        unreachable_code,
        unused_variables,
        reason = "without a provider there are no queue pairs"
    )
)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("uverbs speaks the 64-bit Linux kernel's RDMA interface");

mod ah;
#[cfg(feature = "tokio")]
pub mod asynchronous;
mod channel;
pub mod cm;
mod context;
mod cq;
mod destroy;
mod device;
pub mod event;
mod event_table;
pub mod exchange;
pub mod hub;
#[cfg(feature = "mlx5")]
pub mod mlx5;
mod mr;
mod mw;
pub mod owned;
mod pd;
mod qp;
#[cfg(feature = "rings")]
pub mod rings;
mod srq;
pub mod stream;
pub mod transport;
pub mod typed;
mod unpolled;
mod unwind;
mod waiters;

pub use ah::AddressHandle;
pub use channel::CompletionChannel;
pub use context::{Context, OpenOptions};
pub use cq::{Completion, CompletionQueue, CompletionQueueBuilder, Notify};
pub use device::{Device, devices};
pub use mr::MemoryRegion;
pub use mw::MemoryWindow;
pub use pd::ProtectionDomain;
pub use qp::{
    PreparedQueuePair, QueuePair, QueuePairBuilder, QueuePairEndpoint, RecvBatch, SendBatch,
};
pub use srq::{SharedReceiveQueue, SharedReceiveQueueBuilder};

#[doc(inline)]
pub use uverbs_core::error::{Error, ErrorKind, PollError, PostError, Result};
#[doc(inline)]
pub use uverbs_core::sys::recorder;
#[doc(inline)]
pub use uverbs_core::types::{
    AccessFlags, AddressVector, Gid, Operation, Payload, QpState, QpType, RecvRequest, Remote,
    RemoteMemory, SendFlags, SendRequest, Sge, WcStatus, WorkCompletion,
};

/// Where datagrams go, and where they came from.
pub mod address {
    #[doc(inline)]
    pub use uverbs_core::types::{
        Address, Destination, FlowLabel, GlobalRoute, Grh, IpVersion, MULTICAST_LID_BASE,
        MULTICAST_QPN, PathBits, ServiceLevel,
    };
}

/// Attributes of devices, ports and queues: for creating, changing and querying them.
pub mod attr {
    #[doc(inline)]
    pub use uverbs_core::types::{
        AlternatePath, DeviceAttr, DriverId, Ece, FirmwareVersion, MigrationState, NodeType,
        PortAttr, Psn, QpAttr, QpAttrMask, QpCaps, QpCreateFlags, QpInfo, SigMode, SrqAttr,
        SrqModify, SrqType, TransportType,
    };
}

/// What devices and ports can do.
pub mod caps {
    #[doc(inline)]
    pub use uverbs_core::types::{
        AtomicCap, CqModerationCaps, DeviceCaps, OdpCaps, OdpGeneralCaps, OdpTransportCaps,
        PortCaps, PortCaps2, RawPacketCaps, RssCaps, TagMatchingCaps, TagMatchingFlags,
    };
}

/// What completions report, and the events that announce them.
pub mod completion {
    pub use crate::channel::CompletionEvent;
    pub use crate::cq::CqId;
    #[doc(inline)]
    pub use uverbs_core::types::{Timestamps, WcFlags, WcOpcode};
}

/// Which devices there are, as the kernel reports them.
pub mod discover {
    #[doc(inline)]
    pub use uverbs_core::discover::fork::{ForkAdvice, Registration};
    #[doc(inline)]
    pub use uverbs_core::discover::{
        Access, CharDevice, DeviceInfo, DriverMatch, ForkGuard, Options, Source, copy_on_fork,
        netlink, sysfs,
    };
}

/// The parts of errors, and the error types of individual calls.
pub mod error {
    pub use crate::destroy::DestroyError;
    pub use crate::qp::{HandshakeError, ParseEndpointError, PostFailed};
    #[doc(inline)]
    pub use uverbs_core::error::{Errno, Fact, Op};
    #[doc(inline)]
    pub use uverbs_core::types::{OutOfRange, Unrecognized};
}

/// Port addresses, and the tables that hold them.
pub mod gid {
    pub use crate::qp::{GidChoice, GidReason};
    #[doc(inline)]
    pub use uverbs_core::types::{GidEntry, GidType, Guid, ParseGidError, ParseGuidError};
}

/// How commands reach the kernel, or what stands in for it.
pub mod kernel {
    #[doc(inline)]
    pub use uverbs_core::CommandPath;
    #[doc(inline)]
    pub use uverbs_core::sys::{
        Attr, Call, CmCommand, Command, Kernel, Linux, Mapping, Pointer, Protection, Reply, Uhw,
        Value, WriteCommand,
    };
}

/// The state of a port and its cable.
pub mod link {
    #[doc(inline)]
    pub use uverbs_core::types::{
        LinkLayer, LinkSpeed, LinkWidth, Mtu, PhysicalState, PortFlags, PortState, VirtualLanes,
    };
}

/// What is registered, how it is changed, and the keys that name it.
pub mod memory {
    pub use crate::mr::{DmabufRange, Reregister};
    #[doc(inline)]
    pub use uverbs_core::types::{
        LocalKey, MrAdvice, MrAdviceFlags, MwType, ParseRemoteError, RemoteKey, ReregFlags,
    };
}

/// How fast a path is.
pub mod rate {
    #[doc(inline)]
    pub use uverbs_core::types::Rate;
}

/// Rarely used parts of work requests.
pub mod request {
    #[doc(inline)]
    pub use uverbs_core::types::{Placement, RESERVED_WR_IDS, WindowBinding};
}

/// Timers and retries of a connection.
pub mod time {
    #[doc(inline)]
    pub use uverbs_core::types::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
}

/// Which state a queue pair can enter from which, and what each transition requires.
pub mod transition {
    #[doc(inline)]
    pub use uverbs_core::types::{Diagnosis, Requirement, diagnose, is_legal, requirement};
}
