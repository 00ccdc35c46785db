//! Words, locks and fences of threads, and rings that devices write: the language's and the driver layer's.
//!
//! Where `loom` explores models (`cargo xtask loom`), it sees every access to a word; rings are stand-ins there, of words that it
//! sees. Miri (`cargo xtask miri`) has the real ones.

#[cfg(loom)]
mod stand_in;

#[cfg(all(test, loom))]
pub(crate) use loom::thread;
#[cfg(all(test, not(loom)))]
pub(crate) use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(loom)]
pub(crate) use stand_in::{Block, BlockRing, barrier};
#[cfg(not(loom))]
pub(crate) use uverbs_driver::hw::{Block, BlockRing, barrier};
