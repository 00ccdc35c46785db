//! Who is told.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::entry::{Entry, QueueKind};
use super::fields::Fields;
use crate::sys::catch_panic;
use crate::sys::recorder::Lines;

/// Is told of entries. It is called on the thread that posts or polls, before the device may look
/// at a request, and before a completion is given back: an observer must not use the context that
/// is watched.
///
/// One that panics is not called again; see [`Watch::untold`].
pub trait Observer: fmt::Debug + Send + Sync {
    /// Is told of one entry.
    fn entry(&self, entry: &Entry);
}

/// An observer, and what it missed.
#[derive(Debug)]
pub struct Watch {
    observer: Arc<dyn Observer>,
    untold: AtomicU64,
}

/// A queue that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    watch: Arc<Watch>,
    queue: QueueKind,
    number: u32,
}

impl Watch {
    /// Tells `observer`.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            untold: AtomicU64::new(0),
        }
    }

    /// Entries that the observer was not told of, or not to the end, because it panicked at one of
    /// them. 0: it never did.
    pub fn untold(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }

    /// A queue whose entries it is told of.
    pub fn queue(self: &Arc<Self>, queue: QueueKind, number: u32) -> Watched {
        Watched {
            watch: Arc::clone(self),
            queue,
            number,
        }
    }
}

impl Watched {
    /// Tells of the entry at `index` of the ring, whose bytes mean what `decode` finds.
    ///
    /// What the observer does ends here, a panic included: the queue goes on as if nobody had been
    /// told.
    #[cold]
    #[inline(never)]
    pub fn tell(&self, index: u32, bytes: Vec<u8>, decode: impl FnOnce(&[u8]) -> Fields) {
        let told = self.watch.untold() == 0
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
        if !told {
            self.watch.untold.fetch_add(1, Ordering::Relaxed);
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

    /// Takes out what was collected so far.
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

/// Entries come between the commands that the same lines are written of, in the order in which they
/// happen.
impl<W: Write + Send> Observer for Lines<W> {
    fn entry(&self, entry: &Entry) {
        self.write(|json, keys| match (json, keys) {
            (true, keys) => entry.to_json(keys),
            (false, true) => entry.with_keys().to_string(),
            (false, false) => entry.to_string(),
        });
    }
}
