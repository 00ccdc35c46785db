//! The bytes of exposed memory.
//!
//! # Safety
//!
//! The bytes stay mapped for as long as their owner is held, and while they are registered this
//! process accesses them only here, as words of the same range. Devices, peers and other processes
//! may access them at any time.
#![allow(unsafe_code, reason = "accesses memory that peers access")]

use std::ptr::NonNull;

use uverbs_core::hw::Words;

use super::region::Held;

/// Bytes that peers may access at the same time.
#[derive(Debug)]
pub(super) struct Backing {
    start: NonNull<u8>,
    len: usize,
    pub(super) held: Held,
}

// SAFETY: the bytes have no thread affinity, and all accesses are atomic.
unsafe impl Send for Backing {}
// SAFETY: as above.
unsafe impl Sync for Backing {}

impl Backing {
    /// The `len` bytes at `start`, which `held` owns.
    ///
    /// # Safety
    /// Until `held` is dropped they stay mapped, for reading and writing, and this process accesses
    /// them only through values made here of the same range.
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize, held: Held) -> Self {
        Self { start, len, held }
    }

    pub(super) fn words(&self) -> Words<'_> {
        // SAFETY: mapped while the owner is held; other accesses are made here.
        unsafe { Words::new(self.start.as_ptr(), self.len) }
    }
}
