//! The safe memory world: queues own the memory of posted work.
//!
//! - A [`Buffer`] is memory that only this process accesses while the user holds it. Posting moves
//!   it into the queue; [`QueuePair::complete`] returns it. A forgotten buffer is leaked, and a
//!   forgotten queue leaks its buffers: neither lets a device write into memory that has another
//!   owner.
//! - A buffer is allocated alone or with others, taken from a [`BufferPool`], or made of memory
//!   that the program has ([`StableBytes`]), which is given back after its deregistration.
//! - [`ExposedMemory`] is memory that peers may read or write at any time: the library's, the
//!   program's, [shared](SharedMemory) with other processes, or a dmabuf. It never lends a
//!   reference; bytes are copied in and out.
//! - A queue pair that is dropped is destroyed first, and its buffers are freed once the kernel has
//!   confirmed that. If the kernel does not, they are leaked.
//!
//! A request is signaled, so that its memory comes back with a completion of its own, unless it
//! asks not to be ([`Work::unsignaled`]); then it comes back after that of a later one.

mod backing;
mod buffer;
mod exposed;
mod finished;
pub mod kind;
mod pool;
pub(crate) mod qp;
mod region;
mod sges;
mod shared_memory;
mod slab;
mod srq;
mod stable;
#[cfg(feature = "zerocopy")]
mod typed;
mod work;

pub use buffer::Buffer;
pub use exposed::ExposedMemory;
pub use finished::Finished;
pub use pool::BufferPool;
pub(crate) use qp::Carried;
pub use qp::{Batch, QueuePair};
pub use shared_memory::{PageSize, SharedMemory};
pub use srq::SharedReceiveQueue;
pub use stable::{NotRegistered, NotReturned, StableBytes};
#[cfg(feature = "zerocopy")]
pub use typed::TypedBuffer;
pub use work::{Memory, MemoryRefused, ReceiveRefused, Refused, Released, Work};
