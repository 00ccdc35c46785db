//! The soft-RoCE (rxe) provider.
//!
//! rxe is the kernel's software RDMA device. Its queues are kernel memory that the process maps: a
//! request is written to a slot, the producer index is published, and for sends a doorbell command
//! makes the kernel process them. Completions are copied out of the ring without a system call.
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
mod typed;
mod vector;
mod wqe;

pub use context::Context;
pub use cq::CompletionQueue;
pub use qp::QueuePair;
pub use srq::SharedReceiveQueue;

/// The driver ABI versions that this provider supports.
pub const ABI_VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
