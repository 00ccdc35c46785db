//! Words, locks and fences of threads, and rings that devices write: the language's and the driver
//! layer's.
//!
//! Where `loom` explores models (`cargo xtask loom`), it sees every access to a word; rings are
//! stand-ins there, of words that it sees. Miri (`cargo xtask miri`) has the real ones.

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
pub(crate) use stand_in::{Block, BlockRing, barrier};
#[cfg(not(loom))]
pub(crate) use uverbs_core::hw::{Block, BlockRing, barrier};

/// Waits for a thread that is a few steps from its end, for the `times`-th time: it may have been
/// interrupted, by this very one.
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
