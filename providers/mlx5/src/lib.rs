//! The mlx5 provider: ConnectX-4 and later.
//!
//! Queues are memory of this process that the device reads and writes; requests are handed over by
//! a doorbell record in memory and a store to the device's registers. No system call on the data
//! path.
//!
//! Layouts: the kernel's `include/linux/mlx5/device.h`, `mlx5_ifc.h` and `include/uapi/rdma/mlx5-abi.h`,
//! and the adapters' Programmer's Reference Manual.

mod ah;
pub mod caps;
mod clock;
mod compressed;
mod config;
mod context;
mod cq;
mod cq_ring;
mod cqe;
mod data_direct;
pub mod dc;
pub mod devx;
mod dm;
mod doorbell;
pub mod flow;
mod inline;
mod mmap;
#[cfg(test)]
mod models;
mod operations;
pub mod pacing;
mod pd;
mod poll;
pub mod prm;
mod qp;
mod raw;
mod registration;
mod request;
#[cfg(feature = "rings")]
mod rings;
mod rq;
pub mod rss;
pub mod rwq;
mod scatter;
pub mod sched;
mod sizes;
mod sq;
mod srq;
mod stamp;
pub mod steering;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod thread;
mod tracker;
mod uar;
mod umr;
pub mod var;
pub mod vport;
mod wqe;
pub mod xrc;

pub use clock::{Clock, ClockInfo};
pub use compressed::{Entries, EntrySize, Results};
pub use context::Context;
pub use cq::CompletionQueue;
pub use dm::{DeviceMemory, DeviceMemoryInfo, OperationWord};
pub use pd::ProtectionDomain;
pub use qp::{DcDestination, MaskedAtomic, QpExtra, QueuePair, RawNumbers};
pub use raw::Frame;
pub use srq::SharedReceiveQueue;
pub use thread::ThreadDomain;
pub use uar::Doorbells;

/// The driver ABI versions this provider speaks.
pub const ABI_VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;
