//! The base shared by all uverbs providers.
//!
//! | module | contents | may use |
//! |---|---|---|
//! | [`types`] | the vocabulary: values that users and providers share | – |
//! | [`error`] | the control-path error and the small data-path errors | – |
//! | [`sys`] | all system calls; every call on an RDMA fd is a [`sys::Call`] value | `types`, `error` |
//! | [`file`](mod@file) | one opened device: which command encoding to use, fork and removal checks | `sys` |
//! | [`kind`] | descriptions of kinds of kernel objects, and how to destroy one | `file` |
//! | [`cmd`] | one file per kernel object: its kind, its commands (request value in, reply value out) | `kind` |
//! | [`cm`] | the connection manager: one function per command, its events, its node | `file`, `discover` |
//! | [`object`] | a kernel object, destroyed exactly once and after its children | `kind` |
//! | [`hw`] | memory shared with a device: rings, DMA pages, barriers | `sys` |
//! | [`discover`] | lists devices and opens them | `sys` |
//! | [`contract`] | the traits a provider implements | all of the above |
//! | [`Slots`] | a table whose indexes wrap around | – |
//! | `rings` | reports queue entries, posted and polled, to an observer (feature `rings`) | `sys` |

pub mod cm;
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
mod slots;
pub mod sys;
pub mod types;

pub use error::{DestroyError, Errno, Error, ErrorKind, Op, PollError, PostError, Result};
pub use file::{CmFile, CommandPath, UverbsFile};
pub use kind::Kind;
pub use object::Object;
pub use slots::{Slots, SlotsView};
pub use types::EventCounts;
