//! A device's counter, mapped for reading.
//!
//! # Safety
//!
//! A [`Counter`] owns its mapping, and its two 4-byte halves are inside it and aligned, which was
//! checked when it was created. They are read by atomic accesses.
#![allow(unsafe_code, reason = "reads a device's registers")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "alignment is checked when a counter is created"
)]

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::sys::Mapping;

/// Two 4-byte big-endian registers that form one counter: the upper half, followed by the lower
/// half.
pub struct Counter {
    page: Mapping,
    offset: usize,
}

impl Counter {
    /// The counter at offset `offset` of a page, which may be mapped read-only. `None` if it is not
    /// inside the page, or not aligned to 4.
    pub fn new(page: Mapping, offset: usize) -> Option<Self> {
        let end = offset.checked_add(8)?;
        let start = page.as_ptr().addr().checked_add(offset)?;
        (end <= page.len() && start.is_multiple_of(4)).then_some(Self { page, offset })
    }

    /// Reads the counter, at most `tries` times, until the upper half does not change during the
    /// read. `None` if it changed every time.
    pub fn read(&self, tries: u32) -> Option<u64> {
        let mut upper = self.half(0);
        for _ in 0..tries {
            let lower = self.half(1);
            let again = self.half(0);
            if again == upper {
                return Some(u64::from(upper) << 32 | u64::from(lower));
            }
            upper = again;
        }
        None
    }

    /// Loads one of the halves (`which` is masked to 0 or 1), ordered before later loads.
    fn half(&self, which: usize) -> u32 {
        let place = self.page.as_ptr().wrapping_add(self.offset);
        let place = place.wrapping_add((which & 1) * 4).cast::<AtomicU32>();
        // SAFETY: inside the mapping, and aligned; atomic loads of this width are valid on
        // read-only memory.
        let half = unsafe { &*place }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        u32::from_be(half)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter(at {})", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    fn page(bytes: [u8; 16]) -> Mapping {
        let memory = Box::leak(Box::new([const { AtomicU32::new(0) }; 4]));
        for (place, four) in memory.iter().zip(bytes.as_chunks().0) {
            place.store(u32::from_ne_bytes(*four), Ordering::Relaxed);
        }
        let start = NonNull::from(memory).cast();
        // SAFETY: the memory is never freed, and only accessed by atomics.
        unsafe { Mapping::from_owner(start, 16, Box::new(())) }
    }

    #[test]
    fn a_counter_is_read_as_one_big_endian_number() {
        let bytes = *b"\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0";
        let counter = Counter::new(page(bytes), 4).unwrap();
        assert_eq!(counter.read(1), Some(0x0102_0304_0506_0708));
        assert_eq!(counter.read(0), None);
        for offset in [2, 9, 12, 16, usize::MAX - 3] {
            assert!(Counter::new(page(bytes), offset).is_none(), "{offset}");
        }
    }

    #[test]
    fn a_counter_may_end_where_its_page_does() {
        let bytes = *b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07";
        let last = Counter::new(page(bytes), 8).unwrap();
        assert_eq!(last.read(3), Some(7));
        assert_eq!(format!("{last:?}"), "Counter(at 8)");
        assert_eq!(Counter::new(page(bytes), 0).unwrap().read(1), Some(0));
    }
}
