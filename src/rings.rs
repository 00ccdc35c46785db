//! What goes into queues and comes out of them, entry by entry: the requests that doorbells submit
//! and the completions that are polled, with their fields named as in the kernel's headers.
//!
//! Only with the feature `rings`, which adds a check to every doorbell and every poll. Commands are
//! recorded by [`OpenOptions::record`]; [`Lines`](crate::recorder::Lines) takes both and writes
//! them in the order in which they happen.
//!
//! ```no_run
//! use std::sync::Arc;
//! use uverbs::{OpenOptions, recorder::Lines};
//!
//! let lines = Arc::new(Lines::new(std::io::stderr()));
//! let context = OpenOptions::new()
//!     .record(lines.clone())
//!     .watch_rings(lines)
//!     .open("rxe0")?;
//! # Ok::<(), uverbs::Error>(())
//! ```

use std::sync::Arc;

use uverbs_core::UverbsFile;
use uverbs_core::rings::Watch;
pub use uverbs_core::rings::{Collector, Entry, Observer, QueueKind, Value, WithKeys};

use crate::{Context, OpenOptions};

impl OpenOptions {
    /// Shows `observer` each request when a doorbell is about to submit it, and each completion
    /// when it is polled. Requests of raw packet queues that are not yet ready are shown when they
    /// are posted.
    ///
    /// An observer that panics is shown nothing more; queues continue as if it had not.
    /// [`Context::unobserved`] counts what it missed.
    #[must_use]
    pub fn watch_rings(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl Context {
    /// The number of entries that the observer of [`OpenOptions::watch_rings`] missed because it
    /// panicked; 0 if it never did.
    pub fn unobserved(&self) -> u64 {
        self.inner.file.watch().map_or(0, Watch::unobserved)
    }
}

/// The file of a device, with an observer of its queues if there is one.
pub(crate) fn watched(file: UverbsFile, observer: Option<Arc<dyn Observer>>) -> UverbsFile {
    match observer {
        Some(observer) => file.watched_by(Arc::new(Watch::new(observer))),
        None => file,
    }
}
