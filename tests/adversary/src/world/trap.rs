//! A sink that panics on request: the caller of the library must not see any effect of that.

use std::sync::atomic::{AtomicI32, Ordering};

use uverbs::recorder::{Record, Sink};

use crate::shaky::Sprung;

/// Records calls, and panics at one of them.
#[derive(Debug)]
pub(super) struct Trap(AtomicI32);

impl Default for Trap {
    fn default() -> Self {
        Self(AtomicI32::new(-1))
    }
}

impl Trap {
    /// Panics at the call after this many others.
    pub(super) fn arm(&self, after: u8) {
        self.0.store(after.into(), Ordering::Relaxed);
    }

    pub(super) fn disarm(&self) {
        self.0.store(-1, Ordering::Relaxed);
    }
}

impl Sink for Trap {
    #[expect(clippy::panic, reason = "that is what it is for")]
    fn record(&self, _: &Record) {
        let left = self.0.load(Ordering::Relaxed);
        if left >= 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        if left == 0 {
            std::panic::panic_any(Sprung);
        }
    }
}
