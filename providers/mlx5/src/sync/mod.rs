//! Words, locks and fences for threads, and rings that devices write: those of the language and of
//! the base crate.
//!
//! When `loom` explores models (`cargo xtask loom`), it sees every access to a word; rings are then
//! stand-ins made of words that it sees. Miri (`cargo xtask miri`) uses the real ones.

#[cfg(loom)]
mod stand_in;

#[cfg(loom)]
pub(crate) use loom::thread;
#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(loom)]
pub(crate) use stand_in::{Block, BlockCursor, BlockRing, barrier};
#[cfg(not(loom))]
pub(crate) use uverbs_core::hw::{Block, BlockCursor, BlockRing, barrier};

/// Waits, for the `times`-th time, for a thread that is a few steps from its end: it may have been
/// interrupted, by the calling thread itself.
#[cold]
pub(crate) fn pause(times: u32) {
    #[cfg(loom)]
    {
        let _ = times;
        thread::yield_now();
    }
    #[cfg(not(loom))]
    if times < 100 {
        std::hint::spin_loop();
    } else {
        thread::sleep(std::time::Duration::from_micros(20));
    }
}
