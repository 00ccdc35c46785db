//! The mlx5 provider: ConnectX-4 and later.
//!
//! Queues are memory of this process that the device reads and writes; requests are handed over by
//! a doorbell record in memory and a store to the device's registers. No system call on the data
//! path.
//!
//! Layouts: the kernel's `include/linux/mlx5/device.h`, `mlx5_ifc.h` and `include/uapi/rdma/mlx5-abi.h`,
//! and the adapters' Programmer's Reference Manual.

pub mod caps;
pub mod devx;
mod inline;
mod operations;
pub mod pacing;
pub mod prm;
pub mod sched;
mod sizes;
mod umr;
mod wqe;

/// The driver ABI versions this provider speaks.
pub const ABI_VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;
