//! What every uverbs provider stands on.
//!
//! | module | what lives there | may use |
//! |---|---|---|
//! | [`types`] | the vocabulary: values users and providers share | – |
//! | [`error`] | the one control-path error, and the small data-path ones | – |
//! | [`sys`] | the only system calls; every call on an RDMA fd is a [`sys::Call`] value | `types`, `error` |
//! | [`file`] | one opened device: which command encoding to use, fork and removal checks | `sys` |
//! | [`kind`] | what describes a kind of kernel object, and how one is destroyed | `file` |
//! | [`cmd`] | one file per kernel object: its kind, request value in, reply value out | `kind` |
//! | [`object`] | a kernel object that is destroyed once, after its children | `kind` |
//! | [`hw`] | memory shared with a device: rings, DMA pages, barriers | `sys` |
//! | [`discover`] | which devices there are and how to open them | `sys` |
//! | [`contract`] | what a provider must do | all of the above |
//! | `rings` | what queues are given and give back, for who watches them (feature `rings`) | `sys` |

pub mod cmd;
pub mod contract;
pub mod discover;
pub mod error;
pub mod file;
pub mod hw;
pub mod kind;
pub mod object;
#[cfg(feature = "rings")]
pub mod rings;
pub mod sys;
pub mod types;

pub use error::{DestroyError, Errno, Error, ErrorKind, Op, PollError, PostError, Result};
pub use file::{CommandPath, UverbsFile};
pub use kind::Kind;
pub use object::Object;
pub use types::EventCounts;
