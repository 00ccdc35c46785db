//! The safe memory world: queues own the memory of posted work.
//!
//! - A [`Buffer`] is memory that only this process accesses while the user holds it. Posting moves
//!   it into the queue; [`QueuePair::complete`] returns it. A forgotten buffer is leaked, and a
//!   forgotten queue leaks its buffers: neither lets a device write into memory that has another
//!   owner.
//! - [`ExposedMemory`] is memory that peers may read or write at any time. It never lends a
//!   reference; bytes are copied in and out.
//! - A queue pair that is dropped is destroyed first, and its buffers are freed once the kernel has
//!   confirmed that. If the kernel does not, they are leaked.
//!
//! Every request is signaled, so that each buffer comes back with a completion of its own.

mod buffer;
mod exposed;
mod qp;
mod slab;
mod srq;
mod work;

pub use buffer::Buffer;
pub use exposed::ExposedMemory;
pub use qp::QueuePair;
pub use srq::SharedReceiveQueue;
pub use work::{Finished, Memory, ReceiveRefused, Refused, Work};
