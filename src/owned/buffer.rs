//! Memory that is owned either by the user or by a queue, never by both.
//!
//! # Safety
//!
//! A [`Buffer`] is the only handle to its range of a [`Region`]: ranges are disjoint by
//! construction, a range is split only with its buffer, and a pool hands one out only after its
//! last buffer is gone. The region is registered for local access only, so no peer can reach it,
//! and work requests name the range only while a queue owns the buffer.
#![allow(
    unsafe_code,
    reason = "lends memory that a device accesses at other times"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use uverbs_core::hw::Pages;
use uverbs_core::types::{AccessFlags, Sge};
use uverbs_core::{Error, Op, Result};

use super::region::{self, Held, Region};
use crate::ProtectionDomain;

/// Registered memory of this process; see [the module](crate::owned).
///
/// It derefs to a byte slice. Memory that this library allocated is initially zeroed, and aligned
/// to 64 bytes.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Dropped by [`give_up`].
    pub(super) region: ManuallyDrop<Arc<Region>>,
}

// SAFETY: the pointer is to memory of the region, which has no thread affinity and which only this
// handle lends.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer only lends shared slices.
unsafe impl Sync for Buffer {}

/// Each buffer starts on a cache line of its own, so that a device writing to one does not disturb
/// another.
pub(super) const ALIGN: usize = 64;

impl ProtectionDomain {
    /// Allocates and registers `N` buffers of `len` bytes each. Three system calls for all of them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a length or a count of 0, or a total
    /// that no address space has; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for a length
    /// of 4 GiB or more; [`OutOfResources`](crate::ErrorKind::OutOfResources) for memory, usually
    /// `RLIMIT_MEMLOCK`.
    pub fn buffers<const N: usize>(&self, len: usize) -> Result<[Buffer; N]> {
        let row = self.row_of(N, len)?;
        Ok(std::array::from_fn(|at| row.buffer(at)))
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
        let row = self.row_of(count, len)?;
        Ok((0..count).map(|at| row.buffer(at)).collect())
    }

    fn row_of(&self, count: usize, len: usize) -> Result<Row> {
        let total = total(count, len)?;
        let (mr, pages) = region::allocate(self, total, AccessFlags::LOCAL_WRITE)?;
        let held = Arc::clone(&pages) as Held;
        let region = Arc::new(Region::new(mr, held, None));
        Ok(Row { region, pages, len })
    }
}

/// Memory for buffers of one length, each of which is made once.
struct Row {
    region: Arc<Region>,
    pages: Arc<Pages>,
    len: usize,
}

impl Row {
    fn buffer(&self, at: usize) -> Buffer {
        // SAFETY: the pages are the region's, `row_of` mapped enough of them, and each place is
        // taken once.
        unsafe { Buffer::of_pages(&self.region, &self.pages, at, self.len) }
    }
}

/// Bytes for `count` buffers.
pub(super) fn total(count: usize, len: usize) -> Result<usize> {
    let op = Op::RegisterMemory;
    if u32::try_from(len).is_err() {
        return Err(Error::limit(op, "length", len as u64, u32::MAX.into()));
    }
    stride(len).checked_mul(count).ok_or_else(|| {
        Error::invalid(op, "count")
            .fact("count", count)
            .fact("length", len)
    })
}

/// The distance from one buffer to the next, in bytes. The length is below 4 GiB.
const fn stride(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

impl Buffer {
    /// Buffer number `at` of those of `len` bytes in `pages`.
    ///
    /// # Safety
    /// The region is that of the pages, which have room for it, and no other buffer has the place.
    pub(super) unsafe fn of_pages(
        region: &Arc<Region>,
        pages: &Pages,
        at: usize,
        len: usize,
    ) -> Self {
        let start = pages.as_ptr().wrapping_add(at * stride(len));
        // SAFETY: it lies inside of a mapping.
        let start = unsafe { NonNull::new_unchecked(start) };
        // SAFETY: the caller's promise.
        unsafe { Self::of(region, start, len) }
    }

    /// A buffer of `len` bytes at `start`.
    ///
    /// # Safety
    /// They lie in memory that the region holds and registered, and no other buffer has them.
    pub(super) unsafe fn of(region: &Arc<Region>, start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            region: ManuallyDrop::new(Arc::clone(region)),
        }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a buffer of no bytes, which only [`split_off`](Self::split_off) makes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Splits it in two: keeps the first `at` bytes, and returns the others as a buffer of their
    /// own. Nothing is copied, no system call. Both are parts of one region, which is deregistered
    /// with the last of them.
    ///
    /// `None` if `at` is beyond the end, or if the buffer belongs to a
    /// [pool](crate::owned::BufferPool), where buffers keep their size; nothing is changed then.
    ///
    /// ```no_run
    /// # fn f(pd: &uverbs::ProtectionDomain) -> Result<(), uverbs::Error> {
    /// let [mut rest] = pd.buffers::<1>(1 << 20)?;
    /// let mut chunks = Vec::new();
    /// while rest.len() > 4096 {
    ///     let Some(next) = rest.split_off(4096) else { break };
    ///     chunks.push(std::mem::replace(&mut rest, next));
    /// }
    /// chunks.push(rest);
    /// assert_eq!(chunks.len(), 256);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the bytes that it no longer has are in the other buffer"]
    pub fn split_off(&mut self, at: usize) -> Option<Self> {
        if at > self.len || self.region.free.is_some() {
            return None;
        }
        // SAFETY: the place is inside of this buffer's range, or at its end.
        let start = unsafe { self.start.add(at) };
        let len = self.len - at;
        self.len = at;
        // SAFETY: this buffer just gave up these bytes.
        Some(unsafe { Self::of(&self.region, start, len) })
    }

    /// Appends `next`, if that is what lies behind it in the same region: the reverse of
    /// [`split_off`](Self::split_off). No system call.
    ///
    /// # Errors
    /// The other buffer, if it lies somewhere else; nothing is changed then.
    pub fn unsplit(&mut self, next: Self) -> Result<(), Self> {
        let adjacent = self.start.addr().get() + self.len == next.start.addr().get();
        let same = Arc::ptr_eq(&self.region, &next.region) && self.region.free.is_none();
        // Buffers of one allocation may have a gap between them, and then are not adjacent.
        if !adjacent || !same {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// The first `len` bytes as a scatter/gather entry; `None` if the buffer is shorter, or for 4
    /// GiB or more.
    #[inline]
    pub(super) fn sge(&self, len: usize) -> Option<Sge> {
        self.has(len).then(|| self.sge_of(len))
    }

    /// Whether a request of the domain with this identity can move its first `len` bytes.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn can_move(&self, domain: usize, len: usize) -> bool {
        self.region.domain == domain && self.has(len)
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn has(&self, len: usize) -> bool {
        len <= self.len && u32::try_from(len).is_ok()
    }

    /// Its first `len` bytes, which [it has](Self::can_move), as a scatter/gather entry.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "checked before")]
    pub(super) fn sge_of(&self, len: usize) -> Sge {
        Sge {
            address: self.start.addr().get() as u64,
            length: len as u32,
            key: self.region.lkey,
        }
    }

    #[inline]
    pub(super) fn is_in(&self, pd: &ProtectionDomain) -> bool {
        self.region.domain == pd.identity()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the region's memory, which is initialized. `self` is its only
        // handle, and as it is borrowed here it is in no queue, so no device writes to it; peers
        // never can.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nothing uses the region after this.
        let region = unsafe { ManuallyDrop::take(&mut self.region) };
        give_up(self.start, region);
    }
}

/// Drops a buffer's parts. They are passed by value: a buffer whose address is passed on has to be
/// in memory wherever it may be dropped.
#[inline(never)]
fn give_up(start: NonNull<u8>, region: Arc<Region>) {
    if let Some(free) = &region.free {
        free.give_back(start);
    }
    drop(region);
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
