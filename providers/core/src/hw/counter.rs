//! A device's counter, which is mapped to be read.
//!
//! # Safety
//!
//! A [`Counter`] owns its mapping, and its two halves of 4 bytes lie inside, aligned: that was
//! checked when it was made. They are read by atomic accesses.
#![allow(unsafe_code, reason = "reads a device's registers")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "alignment is checked when a counter is made"
)]

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::sys::Mapping;

/// Two registers of 4 bytes, big-endian, that count together: the upper half, and behind it the
/// lower one.
pub struct Counter {
    page: Mapping,
    offset: usize,
}

impl Counter {
    /// The counter at `offset` bytes of a page, which may be mapped to be read only. `None` where
    /// it is not inside, or not aligned to 4.
    pub fn new(page: Mapping, offset: usize) -> Option<Self> {
        let end = offset.checked_add(8)?;
        let start = page.as_ptr().addr().checked_add(offset)?;
        (end <= page.len() && start.is_multiple_of(4)).then_some(Self { page, offset })
    }

    /// Reads it, up to so many times until the upper half stands still meanwhile. `None` if it
    /// never does.
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

    /// One of the halves (`which` is masked to 0 or 1), before what is read next.
    fn half(&self, which: usize) -> u32 {
        let place = self.page.as_ptr().wrapping_add(self.offset);
        let place = place.wrapping_add((which & 1) * 4).cast::<AtomicU32>();
        // SAFETY: inside the mapping, and aligned; memory that may only be read may be loaded from.
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
        // SAFETY: the memory is never freed, and reached by atomics.
        unsafe { Mapping::from_owner(start, 16, Box::new(())) }
    }

    #[test]
    fn both_halves_are_one_number() {
        let bytes = *b"\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0";
        let counter = Counter::new(page(bytes), 4).unwrap();
        assert_eq!(counter.read(1), Some(0x0102_0304_0506_0708));
        assert_eq!(counter.read(0), None);
        for offset in [2, 9, 12, 16, usize::MAX - 3] {
            assert!(Counter::new(page(bytes), offset).is_none(), "{offset}");
        }
    }
}
