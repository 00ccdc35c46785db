//! What queues are given and give back, entry by entry.
//!
//! Commands go through one funnel, where a [`Recorder`](crate::sys::recorder::Recorder) writes them
//! down. Requests and completions go through memory. A [`UverbsFile`](crate::UverbsFile) that is
//! [watched](crate::UverbsFile::watched_by) tells an [`Observer`] of them: of requests as a
//! doorbell hands them over, of completions as they are polled. Each is an [`Entry`]: its bytes,
//! and what they mean, by name.
//!
//! ```text
//! sq 0x118[3] RDMA_WRITE index=3 units=3 flags=signaled remote_address=0x7f0000001000 rkey=… length=64 lkey=… address=0x7f0000002000
//! cq 0x402[0] REQ request=RDMA_WRITE byte_count=64 timestamp=0x1234 qpn=0x118 counter=3 user_index=0x1 signature=0x34 owner=0
//! ```
//!
//! Keys are left out of the printed form, as they are of commands. Only with the feature `rings` is
//! there any of this: without it, queues ask nobody whether they are watched.

mod entry;
mod fields;
mod json;
mod print;
mod watch;

pub use entry::{Entry, QueueKind, Value};
pub use fields::Fields;
pub use print::WithKeys;
pub use watch::{Collector, Observer, Watch, Watched};

#[cfg(test)]
mod tests;
