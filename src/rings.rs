//! What queues are given and give back, entry by entry: the requests that doorbells hand over and
//! the completions that are polled, with the names that the kernel's headers have for what is in
//! them.
//!
//! Only with the feature `rings`, which costs every doorbell and every poll a question. Commands
//! are recorded by [`OpenOptions::record`]; [`Lines`](crate::recorder::Lines) takes both, and
//! writes them in the order in which they happen.
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
    /// Tells `observer` of each request when a doorbell is about to hand it over, and of each
    /// completion when it is polled. Requests of raw packet queues that are not ready yet are told
    /// of when they are posted.
    ///
    /// An observer that panics is told nothing more; queues go on as if it had not.
    /// [`Context::untold`] counts what it missed.
    #[must_use]
    pub fn watch_rings(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl Context {
    /// Entries that the observer of [`OpenOptions::watch_rings`] was not told of, because it
    /// panicked. 0: it never did.
    pub fn untold(&self) -> u64 {
        self.inner.file.watch().map_or(0, Watch::untold)
    }
}

/// The file of a device whose queues somebody may watch.
pub(crate) fn watched(file: UverbsFile, observer: Option<Arc<dyn Observer>>) -> UverbsFile {
    match observer {
        Some(observer) => file.watched_by(Arc::new(Watch::new(observer))),
        None => file,
    }
}
