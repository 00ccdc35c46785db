//! Observers of queues.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::entry::{Entry, QueueKind};
use super::fields::Fields;
use crate::sys::catch_panic;
use crate::sys::recorder::Lines;

/// Receives entries. It is called on the thread that posts or polls, before the device may process
/// a request, and before a completion is returned: an observer must not use the watched context.
///
/// An observer that panics is not called again; see [`Watch::unobserved`].
pub trait Observer: fmt::Debug + Send + Sync {
    /// Receives one entry.
    fn entry(&self, entry: &Entry);
}

/// An observer, and the number of entries that it missed.
#[derive(Debug)]
pub struct Watch {
    observer: Arc<dyn Observer>,
    unobserved: AtomicU64,
}

/// A watched queue.
#[derive(Clone, Debug)]
pub struct Watched {
    watch: Arc<Watch>,
    queue: QueueKind,
    number: u32,
}

impl Watch {
    /// Reports entries to `observer`.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            unobserved: AtomicU64::new(0),
        }
    }

    /// Number of entries that the observer did not process, or not completely, because it panicked.
    /// 0 if it never did.
    pub fn unobserved(&self) -> u64 {
        self.unobserved.load(Ordering::Relaxed)
    }

    /// A queue whose entries are reported.
    pub fn queue(self: &Arc<Self>, queue: QueueKind, number: u32) -> Watched {
        Watched {
            watch: Arc::clone(self),
            queue,
            number,
        }
    }
}

impl Watched {
    /// Reports the entry at `index` of the ring, decoded by `decode`.
    ///
    /// The queue is unaffected by what the observer does, even by a panic.
    #[cold]
    #[inline(never)]
    pub fn report(&self, index: u32, bytes: Vec<u8>, decode: impl FnOnce(&[u8]) -> Fields) {
        let reported = self.watch.unobserved() == 0
            && catch_panic(|| {
                let Fields { kind, list } = decode(&bytes);
                self.watch.observer.entry(&Entry {
                    queue: self.queue,
                    number: self.number,
                    index,
                    kind,
                    fields: list,
                    bytes,
                });
            })
            .is_some();
        if !reported {
            self.watch.unobserved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keeps entries in memory.
#[derive(Debug, Default)]
pub struct Collector(Mutex<Vec<Entry>>);

impl Collector {
    /// An empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes and returns what was collected so far.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Collector {
    fn entry(&self, entry: &Entry) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry.clone());
    }
}

/// Entries are interleaved with the commands recorded by the same `Lines`, in the order in which
/// they happen.
impl<W: Write + Send> Observer for Lines<W> {
    fn entry(&self, entry: &Entry) {
        self.write(|json, keys| match (json, keys) {
            (true, keys) => entry.to_json(keys),
            (false, true) => entry.with_keys().to_string(),
            (false, false) => entry.to_string(),
        });
    }
}
