//! Words, locks and fences of threads, and rings that devices write: the language's and the driver layer's.
//!
//! Where `loom` explores models (`cargo xtask loom`), it sees every access to a word; and there, and in Miri's second pass (`cargo xtask
//! miri`), rings are stand-ins of whole words, because neither knows a word that is read in another width than it was written.

#[cfg(any(loom, stand_in))]
mod stand_in;

#[cfg(all(test, loom))]
pub(crate) use loom::thread;
#[cfg(all(test, not(loom)))]
pub(crate) use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(any(loom, stand_in))]
pub(crate) use stand_in::{Block, BlockRing, barrier};
#[cfg(not(any(loom, stand_in)))]
pub(crate) use uverbs_driver::hw::{Block, BlockRing, barrier};
