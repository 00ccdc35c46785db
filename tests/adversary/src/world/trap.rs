//! A sink that panics when it is told to.

use std::sync::atomic::{AtomicI32, Ordering};

use uverbs::recorder::{Record, Sink};

/// The panic that a program makes on purpose.
#[derive(Debug)]
pub struct Sprung;

/// Hears of calls, and panics at one of them.
#[derive(Debug)]
pub(super) struct Trap(AtomicI32);

impl Default for Trap {
    fn default() -> Self {
        Self(AtomicI32::new(-1))
    }
}

impl Trap {
    /// Panics at the call after so many others.
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
        // A panic while another one unwinds would end the process, as the language has it.
        if left == 0 && !std::thread::panicking() {
            std::panic::panic_any(Sprung);
        }
    }
}
