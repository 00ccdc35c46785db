//! Registered memory of a test.
//!
//! # Safety
//!
//! Devices and peers may read and write this memory at any time. No reference to its bytes is ever
//! created; this process accesses single bytes through atomics. It is freed after it has been
//! deregistered.
#![allow(
    unsafe_code,
    reason = "lets a device use memory, and frees it afterwards"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use uverbs::{AccessFlags, MemoryRegion, ProtectionDomain, Sge};

use crate::failure::{Failure, Result};

/// Bytes that a device and peers may use.
pub(super) struct Memory {
    /// `None` once it was deregistered.
    region: Option<MemoryRegion>,
    start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    /// Allocates and registers at least `len` bytes, for local and remote use.
    pub(super) fn new(pd: &ProtectionDomain, len: usize) -> Result<Self> {
        let too_large = || Failure::new(format_args!("{len} bytes cannot be allocated"));
        let layout = Layout::from_size_align(len.max(1), 4096).map_err(|_| too_large())?;
        // SAFETY: the layout has at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
        let mut memory = Self {
            region: None,
            start,
            layout,
        };
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        // SAFETY: the bytes stay allocated until the region is deregistered (see `drop`); there are
        // no references to them, and any byte value is valid.
        let region = unsafe { pd.register(start.as_ptr(), layout.size(), access) };
        memory.region = Some(region?);
        Ok(memory)
    }

    pub(super) fn region(&self) -> Result<&MemoryRegion> {
        self.region
            .as_ref()
            .ok_or_else(|| Failure::new("the memory was given back"))
    }

    /// A scatter/gather entry for a part of it.
    pub(super) fn sge(&self, offset: usize, len: u32) -> Result<Sge> {
        self.region()?
            .sge(offset as u64, len)
            .ok_or_else(|| Failure::new("a message larger than the memory for it"))
    }

    /// The byte at `offset`, as an atomic.
    #[inline]
    pub(super) fn byte(&self, offset: usize) -> Option<&AtomicU8> {
        if offset >= self.layout.size() {
            return None;
        }
        // SAFETY: the offset was just checked against the allocation.
        let byte = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: the byte lives as long as `self`, which is borrowed for as long as the atomic;
        // this process accesses it through atomics only.
        Some(unsafe { AtomicU8::from_ptr(byte) })
    }

    /// Loads the byte at `offset`; 0 if that is outside.
    #[inline]
    pub(super) fn load(&self, offset: usize) -> u8 {
        self.byte(offset)
            .map_or(0, |byte| byte.load(Ordering::Acquire))
    }

    /// Stores to the byte at `offset`; does nothing if that is outside.
    #[inline]
    pub(super) fn store(&self, offset: usize, value: u8) {
        if let Some(byte) = self.byte(offset) {
            byte.store(value, Ordering::Release);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // If the kernel keeps the region, its memory is leaked.
        if let Some(region) = self.region.take()
            && region.deregister().is_err()
        {
            return;
        }
        // SAFETY: it was allocated with this layout, and the kernel has confirmed that no device
        // uses it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
