//! Queues of a vendor that the program knows.
//!
//! [`QueuePair`](crate::QueuePair) and [`CompletionQueue`](crate::CompletionQueue) work with any
//! vendor's device, and check at each request which vendor it is. A program that knows its device
//! checks once:
//!
//! ```no_run
//! use uverbs::typed::vendor::Mlx5;
//! use uverbs::{CompletionQueue, QueuePair, SendRequest, Sge};
//!
//! fn send(qp: &mut QueuePair, cq: &mut CompletionQueue, sge: Sge) -> Result<(), Box<dyn std::error::Error>> {
//!     let mut sender = qp.sender::<Mlx5>()?;
//!     let sges = [sge];
//!     let mut batch = sender.batch();
//!     for wr_id in 0..8 {
//!         // SAFETY: the memory stays registered, and nobody writes to it, until the last poll.
//!         unsafe { batch.push(&SendRequest::send(&sges).wr_id(wr_id).signaled()) }?;
//!     }
//!     batch.submit()?;
//!     let mut poller = cq.poller::<Mlx5>()?;
//!     let mut left = 8;
//!     while left > 0 {
//!         if let Some(done) = poller.poll()? {
//!             println!("{} {}", done.wr_id(), done.status());
//!             left -= 1;
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! On mlx5 a batch consists of a few numbers that the compiler keeps in registers, and the ring
//! knows nothing of it before [`submit`](SendBatch::submit); completions are decoded field by
//! field, on demand. The checks are the same: process, room, lengths, and that a completion belongs
//! to a request that is under way. On rxe, whose requests cost system calls, little is gained.
//!
//! Requests that are determined by data, not by code, are posted from a [`Template`].

mod poller;
mod receiver;
mod sender;
pub mod vendor;

pub use poller::{Completion, EntryOf, Poller};
pub use receiver::{Receiver, RecvBatch};
pub use sender::{Prepared, SendBatch, Sender};
#[doc(inline)]
pub use uverbs_core::contract::Entry;
#[doc(inline)]
pub use uverbs_core::types::{Posting, Template};

use uverbs_core::{Error, ErrorKind, Op};

/// The queue belongs to a device of another vendor.
#[cold]
pub(crate) fn of_another_vendor(op: Op, device: &str) -> Error {
    Error::new(op, ErrorKind::Unsupported)
        .fact("device", device.to_owned())
        .hint("the device is of another vendor")
}
