//! The mlx5 provider: ConnectX-4 and later.
//!
//! Queues are memory of this process that the device reads and writes. Requests are submitted by a
//! doorbell record in memory and a store to the device's registers. The data path makes no system
//! calls.
//!
//! Layouts: the kernel's `include/linux/mlx5/device.h`, `mlx5_ifc.h` and
//! `include/uapi/rdma/mlx5-abi.h`, and the adapters' Programmer's Reference Manual.

mod context;
mod contract;
mod cq;
mod cqe;
pub mod devx;
mod doorbell;
mod memory;
mod mmap;
#[cfg(test)]
mod models;
pub mod prm;
mod qp;
#[cfg(feature = "rings")]
mod rings;
mod rq;
pub mod rss;
pub mod sched;
mod sq;
mod srq;
pub mod steering;
mod sync;
#[cfg(test)]
mod tests;
mod tracker;
mod wqe;

pub use context::{
    Clock, ClockInfo, Context, ProtectionDomain, RegisterBits, SwitchPort, ThreadDomain, caps,
};
pub use cq::{CompletionQueue, Entries, EntrySize, FrameFields, Taken};
pub use cqe::Results;
pub use doorbell::Doorbells;
pub use memory::{
    DeviceMemory, DeviceMemoryInfo, Encryption, IndirectKey, KeyOptions, MappedVar, OperationWord,
    SignatureChange, SignatureError, SignaturePart, SteeringMemory, Var, VarKind,
};
pub use qp::{
    DcDestination, LagPort, MaskedAtomic, QpExtra, QpPlace, QueuePair, RawNumbers, SharedXrcDomain,
    Streams, XrcDomain, flow, pacing,
};
pub use rq::{Receiver, RecvBatch};
pub use sq::raw::Frame;
pub use sq::{Prepared, SendBatch, Sender};
pub use srq::SharedReceiveQueue;
pub use wqe::encryption::EncryptionOrder;
pub use wqe::layout::{Interleaved, KeyChange, KeyLayout};
pub use wqe::signature::{
    BlockSize, Crc, Escape, Guard, Signature, Signatures, SignedBlocks, T10Dif,
};
pub use wqe::{Place, Unit};

/// The versions of the driver ABI that this provider supports.
pub const ABI_VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;
