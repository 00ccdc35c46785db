//! Pages of queues, many of them by one mapping.

use std::sync::Arc;

use super::Pages;
use super::queue_memory::{self, QueueBuffer, QueueMemory};
use super::slab::Slab;
use crate::error::Errno;
use crate::sys::page_size;

/// An allocator of pages that a device may access and children do not inherit: those of small
/// queues and of doorbell records. Clones share their pages.
///
/// A queue that needs more than a quarter of a mapping has one of its own.
#[derive(Clone, Debug)]
pub struct PagePool(pub(super) Arc<Slab>);

/// Pages of one mapping: 64 KiB where pages have 4 KiB.
const MAPPED: usize = 16;

impl Default for PagePool {
    fn default() -> Self {
        Self(Arc::new(Slab::new(page_size(), MAPPED, None)))
    }
}

impl PagePool {
    /// `len` zeroed bytes, rounded up to whole pages. No system call while there is room.
    ///
    /// # Errors
    /// EINVAL for 0 bytes, ENOMEM. EPERM in a child of the process that made the pool.
    pub fn take(&self, len: usize) -> Result<Pages, Errno> {
        if len == 0 {
            return Err(Errno::INVAL);
        }
        if len > page_size() * MAPPED / 4 {
            return Pages::for_device(len);
        }
        self.0.pages(len)
    }

    /// The same for a queue: from `memory` if that is given and has some for it.
    ///
    /// # Errors
    /// As [`take`](Self::take), and those of `memory`; EINVAL for memory of it that does not begin
    /// with a page.
    pub fn for_queue(
        &self,
        memory: Option<&Arc<dyn QueueMemory>>,
        len: usize,
        buffer: QueueBuffer,
    ) -> Result<Pages, Errno> {
        let lent = match memory {
            Some(memory) => queue_memory::allocate(memory, len, buffer)?,
            None => None,
        };
        match lent {
            Some(mapping) => Ok(Pages::of_mapping(mapping, len)),
            None => self.take(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_share_a_mapping_and_large_ones_have_their_own() {
        let (pool, page) = (PagePool::default(), page_size());
        let [one, two] = [100, page + 1].map(|len| pool.take(len).unwrap());
        assert_eq!((one.len(), two.len()), (100, page + 1));
        assert_eq!(two.address() - one.address(), page as u64);
        assert!(one.address().is_multiple_of(page as u64));
        assert!(pool.take(4 * page + 1).is_ok());
        assert!(pool.take(13 * page).is_ok());
        let three = pool.take(1).unwrap();
        assert_eq!(three.address() - two.address(), 2 * page as u64);
        assert_eq!(pool.take(0).unwrap_err(), Errno::INVAL);
        assert!(pool.take(usize::MAX).is_err());
    }

    #[test]
    fn pages_are_zeroed_each_time() {
        let pool = PagePool::default();
        let pages = pool.take(5000).unwrap();
        // Keeps the mapping.
        let _other = pool.take(1).unwrap();
        assert!(pages.copy_from(0, &[0xff; 5000]));
        let at = pages.address();
        drop(pages);
        let again = pool.take(5000).unwrap();
        let mut bytes = [1; 5000];
        assert!(again.copy_to(0, &mut bytes));
        assert_eq!((again.address(), bytes), (at, [0; 5000]));
    }
}
