//! A mapped part of a device's own memory.
//!
//! # Safety
//!
//! A [`Window`] owns its mapping, and every access is atomic, aligned, and inside the mapping,
//! which is checked each time. Accesses are 8 bytes wide if they are aligned to 8 and as many bytes
//! are left, otherwise 4 bytes: device memory does not support compare-and-exchange, so part of a
//! word is written by a store of that width. A lock, which writers hold exclusively, prevents
//! concurrent accesses of different widths.
#![allow(unsafe_code, reason = "accesses a device's memory")]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::sys::Mapping;

/// Bytes of the smallest access.
const HALF: usize = 4;
/// Bytes of the widest one.
const WORD: usize = 8;

/// A part of a device's memory, accessed only through this value.
pub struct Window {
    memory: Mapping,
    /// Where it starts in the mapping.
    start: usize,
    len: usize,
    lock: RwLock<()>,
}

impl Window {
    /// Where it is in this process.
    pub fn address(&self) -> u64 {
        let start = self.memory.as_ptr().wrapping_add(self.start);
        start.expose_provenance() as u64
    }

    /// The `len` bytes of a mapping from `start` on; `None` if they are not inside it, or not
    /// aligned to 4.
    pub fn new(memory: Mapping, start: usize, len: usize) -> Option<Self> {
        let fits = start.checked_add(len)? <= memory.len();
        let aligned = memory.as_ptr().addr().is_multiple_of(WORD) && start.is_multiple_of(HALF);
        (fits && aligned).then(|| Self {
            memory,
            start,
            len,
            lock: RwLock::new(()),
        })
    }

    /// Stores bytes at `offset`. `None`, and nothing is stored, if they are not inside, or offset
    /// or length is not a multiple of 4.
    pub fn store(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        let mut at = self.range(offset, bytes.len())?;
        let mut rest = bytes;
        let _alone = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            let place = self.memory.as_ptr().wrapping_add(at);
            let wide = rest.split_first_chunk::<WORD>();
            if let Some((word, more)) = wide.filter(|_| at.is_multiple_of(WORD)) {
                // SAFETY: 8 bytes inside the mapping, and aligned; nothing else accesses them
                // meanwhile.
                let place = unsafe { AtomicU64::from_ptr(place.cast()) };
                place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                (at, rest) = (at + WORD, more);
            } else {
                let (half, more) = rest.split_first_chunk::<HALF>()?;
                // SAFETY: 4 bytes inside the mapping, and aligned; nothing else accesses them
                // meanwhile.
                let place = unsafe { AtomicU32::from_ptr(place.cast()) };
                place.store(u32::from_ne_bytes(*half), Ordering::Relaxed);
                (at, rest) = (at + HALF, more);
            }
        }
        Some(())
    }

    /// Loads bytes at `offset`. `None`, and nothing is loaded, if they are not inside, or offset or
    /// length is not a multiple of 4.
    pub fn load(&self, offset: usize, bytes: &mut [u8]) -> Option<()> {
        let mut at = self.range(offset, bytes.len())?;
        let mut rest = bytes;
        let _readers = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            let place = self.memory.as_ptr().wrapping_add(at);
            let step = if at.is_multiple_of(WORD) && rest.len() >= WORD {
                let (word, more) = rest.split_first_chunk_mut::<WORD>()?;
                // SAFETY: 8 bytes inside the mapping, and aligned; nothing writes to them
                // meanwhile.
                let place = unsafe { AtomicU64::from_ptr(place.cast()) };
                *word = place.load(Ordering::Relaxed).to_ne_bytes();
                rest = more;
                WORD
            } else {
                let (half, more) = rest.split_first_chunk_mut::<HALF>()?;
                // SAFETY: 4 bytes inside the mapping, and aligned; nothing writes to them
                // meanwhile.
                let place = unsafe { AtomicU32::from_ptr(place.cast()) };
                *half = place.load(Ordering::Relaxed).to_ne_bytes();
                rest = more;
                HALF
            };
            at += step;
        }
        Some(())
    }

    /// The offset in the mapping of the `len` bytes at `offset` of the window.
    fn range(&self, offset: usize, len: usize) -> Option<usize> {
        let inside = offset.checked_add(len)? <= self.len;
        let whole = offset.is_multiple_of(HALF) && len.is_multiple_of(HALF);
        // No overflow: the end is inside the mapping.
        (inside && whole).then(|| self.start + offset)
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn words_are_copied_at_any_alignment() {
        let window = Window::new(Mapping::anonymous(4096).unwrap(), 64, 1024).unwrap();
        let bytes: Vec<u8> = (1..=28).collect();
        for at in [0, 4, 1024 - 28] {
            assert_eq!(window.store(at, &bytes), Some(()));
            let mut back = [0; 28];
            assert_eq!(window.load(at, &mut back), Some(()));
            assert_eq!(back[..], bytes);
        }
        let mut back = [9; 28];
        for at in [1024 - 24, 2, usize::MAX - 3] {
            assert_eq!(window.store(at, &bytes), None);
            assert_eq!(window.load(at, &mut back), None);
        }
        assert_eq!(back, [9; 28]);
        assert_eq!(window.store(0, &bytes[..6]), None);
    }

    #[test]
    fn windows_that_do_not_fit_are_refused() {
        let window = |start, len| Window::new(Mapping::anonymous(4096).unwrap(), start, len);
        for (start, len) in [(64, 4033), (2, 8), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(window(start, len).is_none(), "{len} bytes at {start}");
        }
        assert!(window(64, 4032).is_some());
    }

    #[test]
    fn a_window_is_where_it_starts_in_its_mapping() {
        let memory = Mapping::anonymous(4096).unwrap();
        let start = memory.address();
        let window = Window::new(memory, 64, 32).unwrap();
        assert_eq!(window.address(), start + 64);
        assert_eq!(format!("{window:?}"), "Window(32 bytes)");
    }

    #[test]
    fn bytes_land_behind_the_start_of_the_window() {
        let memory = Arc::new(Mapping::anonymous(4096).unwrap());
        let start = NonNull::new(memory.as_ptr()).unwrap();
        let owner = Box::new(Arc::clone(&memory));
        // SAFETY: the owner keeps the memory mapped, and it is only accessed by atomics.
        let shared = unsafe { Mapping::from_owner(start, memory.len(), owner) };
        let window = Window::new(shared, 64, 32).unwrap();
        assert_eq!(window.store(8, &[7; 12]), Some(()));
        let found: Vec<_> = (0..5)
            .map(|word| memory.load(64 + word * 8).unwrap().to_ne_bytes())
            .collect();
        let half = [7, 7, 7, 7, 0, 0, 0, 0];
        assert_eq!(found, [[0; 8], [7; 8], half, [0; 8], [0; 8]]);
        assert_eq!(memory.load(0), Some(0));
    }
}
