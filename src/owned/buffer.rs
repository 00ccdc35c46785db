//! Memory that is owned either by the user or by a queue, never by both.
//!
//! # Safety
//!
//! A [`Buffer`] is the only handle to its range of a [`Region`]: ranges are disjoint by
//! construction and never handed out twice. The region is registered for local access only, so no
//! peer can reach it, and work requests name the range only while a queue owns the buffer.
#![allow(
    unsafe_code,
    reason = "lends memory that a device accesses at other times"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use uverbs_core::contract::MrInit;
use uverbs_core::hw::Pages;
use uverbs_core::types::{AccessFlags, Sge};
use uverbs_core::{Error, Op, Result};

use crate::{MemoryRegion, ProtectionDomain};

/// Pages that this library allocated, and their registration.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) mr: MemoryRegion,
    pub(super) pages: Arc<Pages>,
}

/// Registered memory of this process; see [the module](crate::owned).
///
/// It derefs to a byte slice, initially zeroed and aligned to 64 bytes.
pub struct Buffer {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

/// Each buffer starts on a cache line of its own, so that a device writing to one does not disturb
/// another.
const ALIGN: usize = 64;

impl ProtectionDomain {
    /// Allocates and registers `N` buffers of `len` bytes each. Three system calls for all of them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a length or a count of 0, or a total
    /// that no address space has; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for a length
    /// of 4 GiB or more; [`OutOfResources`](crate::ErrorKind::OutOfResources) for memory, usually
    /// `RLIMIT_MEMLOCK`.
    pub fn buffers<const N: usize>(&self, len: usize) -> Result<[Buffer; N]> {
        let region = self.region_of(N, len)?;
        Ok(std::array::from_fn(|at| Buffer::of(&region, at, len)))
    }

    /// Allocates and registers `count` buffers of `len` bytes each, like
    /// [`buffers`](Self::buffers).
    ///
    /// # Errors
    /// As [`buffers`](Self::buffers), except that a `count` of 0 gives an empty list.
    pub fn buffer_list(&self, count: usize, len: usize) -> Result<Vec<Buffer>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let region = self.region_of(count, len)?;
        Ok((0..count).map(|at| Buffer::of(&region, at, len)).collect())
    }

    /// Memory for `count` buffers.
    fn region_of(&self, count: usize, len: usize) -> Result<Arc<Region>> {
        let op = Op::RegisterMemory;
        if u32::try_from(len).is_err() {
            return Err(Error::limit(op, "length", len as u64, u32::MAX.into()));
        }
        let total = stride(len).checked_mul(count).ok_or_else(|| {
            Error::invalid(op, "count")
                .fact("count", count)
                .fact("length", len)
        })?;
        Region::new(self, total, AccessFlags::LOCAL_WRITE).map(Arc::new)
    }
}

/// The distance from one buffer to the next, in bytes. The length is below 4 GiB.
const fn stride(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

impl Region {
    /// Maps and registers `len` bytes.
    pub(super) fn new(pd: &ProtectionDomain, len: usize, access: AccessFlags) -> Result<Self> {
        let op = Op::RegisterMemory;
        if len == 0 {
            return Err(Error::invalid(op, "length").fact("length", 0_u32));
        }
        let pages = Pages::new(len).map_err(|errno| Error::os(op, errno).fact("length", len))?;
        let pages = Arc::new(pages);
        let fork = pd.context().fork_guard()?;
        let protected = if fork.is_needed() {
            // SAFETY: the pages were mapped for this region alone.
            Some(unsafe { fork.protect(pages.as_ptr().addr(), len) }?)
        } else {
            None
        };
        let init = MrInit {
            address: pages.address(),
            length: len as u64,
            iova: pages.address(),
            access,
        };
        let mr = MemoryRegion::register(pd, &init, (Arc::clone(&pages), protected))?;
        Ok(Self { mr, pages })
    }
}

impl Buffer {
    /// Buffer number `at` of a region that was made for buffers of this length.
    fn of(region: &Arc<Region>, at: usize, len: usize) -> Self {
        Self {
            region: Arc::clone(region),
            offset: at * stride(len),
            len,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an empty buffer, which cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes as a scatter/gather entry; `None` if the buffer is shorter.
    pub(super) fn sge(&self, len: usize) -> Option<Sge> {
        if len > self.len {
            return None;
        }
        self.region
            .mr
            .sge(self.offset as u64, u32::try_from(len).ok()?)
    }

    /// All of it as a scatter/gather entry, if it is memory of `pd`.
    pub(super) fn whole_in(&self, pd: &ProtectionDomain) -> Option<Sge> {
        if self.is_in(pd) {
            self.sge(self.len)
        } else {
            None
        }
    }

    pub(super) fn is_in(&self, pd: &ProtectionDomain) -> bool {
        self.region.mr.pd().is_same(pd)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the pages by construction. `self` is its only handle, and as it
        // is borrowed here it is in no queue, so no device writes to it; peers never can.
        unsafe { self.region.pages.slice(self.offset, self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { self.region.pages.slice_mut(self.offset, self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
