//! Memory for queues from somewhere else than this library's pages.
//!
//! # Safety
//!
//! A mapping is made of memory that a [`QueueMemory`] allocated, as its trait promises it, and
//! gives it back once, when nothing refers to it any more.
#![allow(unsafe_code, reason = "a trait that is trusted, and memory of it")]

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::Errno;
use crate::sys::{Mapping, page_size};

/// What memory is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum QueueBuffer {
    /// Both rings of a queue pair.
    QueuePair,
    /// The ring of a work queue.
    WorkQueue,
    /// The ring of a shared receive queue.
    SharedReceiveQueue,
    /// The ring of a completion queue.
    CompletionQueue,
}

/// `ibv_parent_domain_init_attr::alloc`, `free`—allocates the memory of queues, which otherwise
/// have pages that the library maps: in huge pages, or near a processor.
///
/// # Safety
/// What [`allocate`](Self::allocate) returns
///
/// 1. begins at a multiple of `align`, and is valid for reads and writes of `len` bytes, until it
///    is passed to [`free`](Self::free);
/// 2. is accessed by nobody else meanwhile, except by the device;
/// 3. stays the same pages of this process: it is not mapped anew, and children do not inherit it,
///    or inherit copies.
#[doc(alias = "ibv_alloc_parent_domain")]
#[doc(alias = "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS")]
pub unsafe trait QueueMemory: Debug + Send + Sync {
    /// Allocates `len` bytes, whole pages, at a multiple of `align`. `None`: the queue is to have
    /// pages that the library maps.
    ///
    /// # Errors
    /// What the creation of the queue fails with.
    fn allocate(
        &self,
        len: usize,
        align: usize,
        buffer: QueueBuffer,
    ) -> Result<Option<NonNull<u8>>, Errno>;

    /// Takes memory back, after the kernel has confirmed that its queue is gone. What it panics
    /// with is dropped.
    fn free(&self, start: NonNull<u8>, len: usize, buffer: QueueBuffer);
}

/// Memory to be given back.
#[derive(Debug)]
struct Lent {
    memory: Arc<dyn QueueMemory>,
    start: NonNull<u8>,
    len: usize,
    buffer: QueueBuffer,
}

// SAFETY: an address range without thread affinity, as its trait promises; the allocator may be
// called from any thread.
unsafe impl Send for Lent {}
// SAFETY: as above; it lends no access.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        let free = || self.memory.free(self.start, self.len, self.buffer);
        drop(catch_unwind(AssertUnwindSafe(free)));
    }
}

/// At least `len` zeroed bytes of `memory`; `None` if it has none for this.
pub(super) fn allocate(
    memory: &Arc<dyn QueueMemory>,
    len: usize,
    buffer: QueueBuffer,
) -> Result<Option<Mapping>, Errno> {
    let page = page_size();
    if len == 0 {
        return Err(Errno::INVAL);
    }
    let len = len.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
    let Some(start) = memory.allocate(len, page, buffer)? else {
        return Ok(None);
    };
    let lent = Lent {
        memory: Arc::clone(memory),
        start,
        len,
        buffer,
    };
    if !start.addr().get().is_multiple_of(page) {
        return Err(Errno::INVAL);
    }
    // SAFETY: valid for writes, and nobody else accesses it (1, 2 of the trait).
    unsafe { start.as_ptr().write_bytes(0, len) };
    // SAFETY: valid until `lent` is dropped (1), and accessed through the mapping alone (2).
    Ok(Some(unsafe {
        Mapping::from_owner(start, len, Box::new(lent))
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::PagePool;
    use super::*;

    /// Lends pages that are mapped for it.
    #[derive(Debug, Default)]
    struct Lender {
        lent: Mutex<Vec<(Mapping, QueueBuffer)>>,
        declines: bool,
        shifts: usize,
        panics: bool,
    }

    // SAFETY: mappings of its own, until they are taken back; who gets shifted ones refuses them.
    unsafe impl QueueMemory for Lender {
        fn allocate(
            &self,
            len: usize,
            align: usize,
            buffer: QueueBuffer,
        ) -> Result<Option<NonNull<u8>>, Errno> {
            assert_eq!((len % align, align), (0, page_size()));
            if self.declines {
                return Ok(None);
            }
            let mapping = Mapping::anonymous(len)?;
            let start = mapping.as_ptr().wrapping_add(self.shifts);
            // SAFETY: just mapped.
            unsafe { mapping.as_ptr().write_bytes(0xff, len) };
            self.lent.lock().unwrap().push((mapping, buffer));
            Ok(NonNull::new(start))
        }

        fn free(&self, start: NonNull<u8>, len: usize, buffer: QueueBuffer) {
            let mut lent = self.lent.lock().unwrap();
            let start = start.as_ptr().wrapping_sub(self.shifts);
            let place = |(mapping, of): &(Mapping, QueueBuffer)| {
                (mapping.as_ptr(), mapping.len(), *of) == (start, len, buffer)
            };
            let at = lent.iter().position(place).unwrap();
            lent.remove(at);
            drop(lent);
            assert!(!self.panics);
        }
    }

    fn of(lender: Lender) -> (Arc<Lender>, Arc<dyn QueueMemory>) {
        let lender = Arc::new(lender);
        (Arc::clone(&lender), lender)
    }

    #[test]
    fn pages_of_an_allocator_are_zeroed_and_given_back_once() {
        for panics in [false, true] {
            let (lender, memory) = of(Lender {
                panics,
                ..Lender::default()
            });
            let pages = PagePool::default()
                .for_queue(Some(&memory), 5000, QueueBuffer::QueuePair)
                .unwrap();
            assert_eq!(lender.lent.lock().unwrap().len(), 1);
            assert_eq!(pages.len(), 5000);
            let mut bytes = [1; 5000];
            assert!(pages.copy_to(0, &mut bytes));
            assert_eq!(bytes, [0; 5000]);
            drop(pages);
            assert!(lender.lent.lock().is_ok_and(|lent| lent.is_empty()));
        }
    }

    #[test]
    fn an_allocator_may_decline() {
        let (lender, memory) = of(Lender {
            declines: true,
            ..Lender::default()
        });
        let pages = PagePool::default()
            .for_queue(Some(&memory), 64, QueueBuffer::WorkQueue)
            .unwrap();
        assert!(pages.store_u32(0, 7));
        assert!(lender.lent.lock().unwrap().is_empty());
        assert!(
            PagePool::default()
                .for_queue(None, 64, QueueBuffer::WorkQueue)
                .is_ok()
        );
    }

    #[test]
    fn memory_that_is_not_aligned_and_no_bytes_are_refused() {
        let (lender, memory) = of(Lender {
            shifts: 64,
            ..Lender::default()
        });
        let refused = |len| {
            PagePool::default()
                .for_queue(Some(&memory), len, QueueBuffer::CompletionQueue)
                .unwrap_err()
        };
        assert_eq!(refused(64), Errno::INVAL);
        assert!(lender.lent.lock().unwrap().is_empty());
        assert_eq!(refused(0), Errno::INVAL);
        assert_eq!(refused(usize::MAX), Errno::NOMEM);
    }
}
