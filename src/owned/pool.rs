//! Buffers that come back to where they were taken from.
//!
//! # Safety
//!
//! A place is in the list of free ones, or has exactly one [`Buffer`]: taking removes it from the
//! list, and only the drop of that buffer puts it back. The list hands a place from one thread to
//! another with everything that was written to it.
#![allow(unsafe_code, reason = "makes buffers of places that are free")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use uverbs_core::hw::Pages;
use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, Op, Result};

use super::Buffer;
use super::buffer::total;
use super::region::{self, Held, Region};
use crate::ProtectionDomain;

/// Buffers of one size in one registered region, for any number of queues and threads.
///
/// A buffer from a pool is used like any other. Dropping it, on any thread, gives it back; so does
/// dropping the queue or the completion that owns it. Neither taking nor giving back makes a system
/// call, allocates or takes a lock. Cheap to clone; clones are the same pool. The memory is
/// deregistered and freed after the last clone and the last buffer.
///
/// A buffer that is taken contains what its last user left in it, zeros at first. One that is
/// forgotten does not come back.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain, srq: &mut uverbs::owned::SharedReceiveQueue)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let pool = pd.buffer_pool(1024, 4096)?;
/// while let Some(buffer) = pool.take() {
///     srq.recv(buffer, 0)?;
/// }
/// assert_eq!((pool.total(), pool.free()), (1024, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BufferPool {
    region: Arc<Region>,
    pages: Arc<Pages>,
    len: usize,
}

/// The free places of a pool.
#[derive(Debug)]
pub(super) struct Free {
    /// Their numbers.
    places: ArrayQueue<u32>,
    /// The address of the first place, and the distance from one to the next.
    first: usize,
    stride: usize,
    used: AtomicUsize,
    most: AtomicUsize,
}

impl ProtectionDomain {
    /// Allocates and registers a pool of `count` buffers of `len` bytes each. Three system calls.
    ///
    /// # Errors
    /// As [`buffers`](Self::buffers); [`LimitExceeded`](crate::ErrorKind::LimitExceeded) also for
    /// 2³² buffers or more.
    pub fn buffer_pool(&self, count: usize, len: usize) -> Result<BufferPool> {
        let op = Op::RegisterMemory;
        let places = u32::try_from(count)
            .map_err(|_| Error::limit(op, "count", count as u64, u32::MAX.into()))?;
        if count == 0 {
            return Err(Error::invalid(op, "count").fact("count", 0_u32));
        }
        let bytes = total(count, len)?;
        let (mr, pages) = region::allocate(self, bytes, AccessFlags::LOCAL_WRITE)?;
        let free = Free::new(places, pages.as_ptr().addr(), bytes / count);
        let held = Arc::clone(&pages) as Held;
        let region = Arc::new(Region::new(mr, held, Some(free)));
        Ok(BufferPool { region, pages, len })
    }
}

impl BufferPool {
    /// Takes a buffer; `None` if all are in use. From any thread; no system call.
    pub fn take(&self) -> Option<Buffer> {
        let place = self.region.free.as_ref()?.take()?;
        // SAFETY: the pages have room for every place, and this one was just taken from the list.
        Some(unsafe { Buffer::of_pages(&self.region, &self.pages, place, self.len) })
    }

    /// Bytes of each buffer.
    pub fn buffer_len(&self) -> usize {
        self.len
    }

    /// How many buffers there are.
    pub fn total(&self) -> usize {
        self.region.free.as_ref().map_or(0, Free::total)
    }

    /// How many can be taken. Other threads may change that at any time.
    pub fn free(&self) -> usize {
        self.total() - self.region.free.as_ref().map_or(0, Free::used)
    }

    /// The most that were in use at a time, since the pool was made.
    pub fn high_water(&self) -> usize {
        let most = |free: &Free| free.most.load(Ordering::Relaxed);
        self.region.free.as_ref().map_or(0, most)
    }

    /// Whether `buffer` is one of this pool's.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(&self.region, &buffer.region)
    }
}

impl Free {
    fn new(count: u32, first: usize, stride: usize) -> Self {
        let places = ArrayQueue::new(count as usize);
        for place in 0..count {
            // There is room for all.
            let _ = places.push(place);
        }
        Self {
            places,
            first,
            stride,
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        }
    }

    fn total(&self) -> usize {
        self.places.capacity()
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<usize> {
        let place = self.places.pop()?;
        // Counted while the place is not in the list, so that the count never exceeds the total.
        let used = self.used.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(used, Ordering::Relaxed);
        Some(place as usize)
    }

    /// Puts the place at `start` back, from the drop of its buffer.
    pub(super) fn give_back(&self, start: NonNull<u8>) {
        let place = (start.addr().get() - self.first) / self.stride;
        self.used.fetch_sub(1, Ordering::Relaxed);
        if let Ok(place) = u32::try_from(place) {
            // Its place in the list is free since it was taken.
            let _ = self.places.push(place);
        }
    }
}
