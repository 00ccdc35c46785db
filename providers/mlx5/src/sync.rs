//! Words, locks and fences of threads, and rings that devices write: the language's and the driver layer's. In models
//! (`cargo xtask loom`) they are stand-ins, of which every order of accesses is gone through.

#[cfg(loom)]
mod stand_in;

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(loom)]
pub(crate) use stand_in::{Block, BlockRing, barrier};
#[cfg(not(loom))]
pub(crate) use uverbs_driver::hw::{Block, BlockRing, barrier};
