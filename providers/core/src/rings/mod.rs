//! Observes queues: the requests and completions that pass through them, entry by entry.
//!
//! All commands pass through one interface, where a [`Recorder`](crate::sys::recorder::Recorder)
//! can record them. Requests and completions pass through memory. A
//! [`UverbsFile`](crate::UverbsFile) that is [watched](crate::UverbsFile::watched_by) reports them
//! to an [`Observer`]: requests when a doorbell submits them, completions when they are polled.
//! Each is an [`Entry`]: its bytes, and its decoded fields by name.
//!
//! ```text
//! sq 0x118[3] RDMA_WRITE index=3 units=3 flags=signaled remote_address=0x7f0000001000 rkey=… length=64 lkey=… address=0x7f0000002000
//! cq 0x402[0] REQ request=RDMA_WRITE byte_count=64 timestamp=0x1234 qpn=0x118 counter=3 user_index=0x1 signature=0x34 owner=0
//! ```
//!
//! Keys are omitted from the printed form, as they are for commands. All of this exists only with
//! the feature `rings`: without it, queues do not even check whether they are watched.

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
