//! The soft-RoCE (rxe) provider.
//!
//! rxe is the kernel's software RDMA device. Its queues are kernel memory that the process maps: a
//! request is written into a slot, the producer index is published, and for sends a doorbell
//! command tells the kernel to look. Completions are copied out of the ring without a system call.
//!
//! Layouts: `include/uapi/rdma/rdma_user_rxe.h`; behaviour: `drivers/infiniband/sw/rxe`. The same
//! layouts hold for driver ABI 1 and 2.

mod ah;
mod context;
mod cq;
mod limits;
mod qp;
mod queue;
#[cfg(feature = "rings")]
mod rings;
mod rq;
mod sq;
mod srq;
mod vector;
mod wqe;

pub use context::Context;
pub use cq::CompletionQueue;
pub use qp::QueuePair;
pub use srq::SharedReceiveQueue;

/// The driver ABI versions this provider speaks.
pub const ABI_VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
