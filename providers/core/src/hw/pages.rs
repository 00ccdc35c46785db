//! Zeroed pages of this process that a device may read and write.
//!
//! # Safety
//!
//! [`Pages`] are accessed through [`Words`], which cover all bytes that were requested. Users of
//! the pointer access memory that nothing else accesses at the same time, which they must ensure.
#![allow(
    unsafe_code,
    reason = "copies to and from memory that a device may access"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::slab::Slots;
use super::words::{WORD, Words};
use crate::error::Errno;
use crate::sys::Mapping;

/// Whole private pages, zeroed, page-aligned, and unmapped, or given back, on drop.
#[derive(Debug)]
pub struct Pages {
    memory: Memory,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Mapped(Mapping),
    /// Of a mapping that others have slots of, too.
    Slots(Slots),
}

impl Pages {
    /// `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// EINVAL for 0 bytes, ENOMEM.
    pub fn new(len: usize) -> Result<Self, Errno> {
        Ok(Self::of_mapping(Mapping::anonymous(len)?, len))
    }

    /// The same, excluded from forked children (`MADV_DONTFORK`): for queues, whose memory a child
    /// must not access, and whose pages the parent must not lose to copy-on-write.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_device(len: usize) -> Result<Self, Errno> {
        Ok(Self::of_mapping(Mapping::for_device(len)?, len))
    }

    /// The first `len` bytes of a mapping.
    pub(super) fn of_mapping(mapping: Mapping, len: usize) -> Self {
        Self {
            memory: Memory::Mapped(mapping),
            len,
        }
    }

    /// `len` bytes of `slots`, which are that long.
    pub(super) fn of_slots(slots: Slots, len: usize) -> Self {
        Self {
            memory: Memory::Slots(slots),
            len,
        }
    }

    /// Requested size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes; such pages cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, for queues and registrations.
    pub fn address(&self) -> u64 {
        self.as_ptr().expose_provenance() as u64
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.memory {
            Memory::Mapped(mapping) => mapping.as_ptr(),
            Memory::Slots(slots) => slots.start().as_ptr(),
        }
    }

    #[inline]
    fn words(&self) -> Words<'_> {
        // SAFETY: mapped for reading and writing for as long as `self`. All other accesses to the
        // pages are made here, or by users of the pointer, who have to ensure exclusive access.
        unsafe { Words::new(self.as_ptr(), self.len) }
    }

    /// Copies `bytes` in at `offset`. Returns false, and copies nothing, if they do not fit.
    ///
    /// May be used while a device, a peer or another thread accesses the memory: each 8-byte word
    /// is stored atomically, in no particular order, and others may see a mix of old and new words
    /// meanwhile. Bytes next to the written ones keep their values, or get those that others write
    /// to them meanwhile.
    pub fn copy_from(&self, offset: usize, bytes: &[u8]) -> bool {
        self.words().write(offset, bytes)
    }

    /// Copies bytes at `offset` out. Returns false, and copies nothing, if the range does not fit.
    ///
    /// May be used while others access the memory, like [`copy_from`](Self::copy_from).
    pub fn copy_to(&self, offset: usize, bytes: &mut [u8]) -> bool {
        self.words().read(offset, bytes)
    }

    /// The aligned 8 bytes at `offset`. `None` if outside the pages or unaligned.
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.words().word(offset)
    }

    /// Loads the aligned 8 bytes at `offset` by one access. `None` if outside the pages or
    /// unaligned. Of `order`, only what applies to loads takes effect.
    pub fn load(&self, offset: usize, order: Ordering) -> Option<u64> {
        let order = match order {
            Ordering::Release => Ordering::Relaxed,
            Ordering::AcqRel => Ordering::Acquire,
            order => order,
        };
        Some(self.words().word(offset)?.load(order))
    }

    /// Stores the aligned 8 bytes at `offset` by one access. False if outside the pages or
    /// unaligned. Of `order`, only what applies to stores takes effect.
    pub fn store(&self, offset: usize, value: u64, order: Ordering) -> bool {
        let order = match order {
            Ordering::Acquire => Ordering::Relaxed,
            Ordering::AcqRel => Ordering::Release,
            order => order,
        };
        match self.words().word(offset) {
            Some(word) => {
                word.store(value, order);
                true
            }
            None => false,
        }
    }

    /// Loads the aligned 4 bytes at `offset` by one access. `None` if unaligned, or outside the
    /// whole 8-byte words.
    pub fn load_u32(&self, offset: usize) -> Option<u32> {
        let (word, shift) = self.half(offset)?;
        Some(half_of(word.load(Ordering::Relaxed), shift))
    }

    /// Stores the aligned 4 bytes at `offset` by one access, without changing the bytes next to
    /// them. False if unaligned, or outside the whole 8-byte words.
    pub fn store_u32(&self, offset: usize, value: u32) -> bool {
        let Some((word, shift)) = self.half(offset) else {
            return false;
        };
        let mask = u64::from(u32::MAX) << shift;
        let changed = |old| Some(old & !mask | u64::from(value) << shift);
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed)
            .is_ok()
    }

    /// The word that contains the 4 bytes at `offset`, and their shift in it.
    fn half(&self, offset: usize) -> Option<(&AtomicU64, u32)> {
        if !offset.is_multiple_of(WORD / 2) {
            return None;
        }
        let upper = offset.is_multiple_of(WORD) == cfg!(target_endian = "big");
        let word = self.words().word(offset - offset % WORD)?;
        Some((word, if upper { 32 } else { 0 }))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of a word")]
fn half_of(word: u64, shift: u32) -> u32 {
    (word >> shift) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_at_every_alignment() {
        let pages = Pages::new(64).unwrap();
        let bytes: Vec<u8> = (1..=40).collect();
        for offset in 0..16 {
            for len in 0..bytes.len() {
                assert!(pages.copy_from(offset, &bytes[..len]));
                let mut back = vec![0; len];
                assert!(pages.copy_to(offset, &mut back));
                assert_eq!(back, bytes[..len]);
            }
        }
    }

    #[test]
    fn ranges_outside_are_refused() {
        let pages = Pages::new(64).unwrap();
        assert!(!pages.copy_from(60, &[0; 5]));
        assert!(!pages.copy_to(usize::MAX, &mut [0; 2]));
        assert_eq!(pages.load(60, Ordering::Relaxed), None);
        assert_eq!(pages.load(4, Ordering::Relaxed), None);
        assert!(pages.store(56, 7, Ordering::Relaxed));
        assert_eq!(pages.load(56, Ordering::Relaxed), Some(7));
    }

    #[test]
    fn halves_of_words_are_stored_separately() {
        let pages = Pages::new(20).unwrap();
        assert!(pages.copy_from(0, &[0xff; 20]));
        assert!(pages.store_u32(4, 0x0102_0304));
        assert_eq!(
            (pages.load_u32(0), pages.load_u32(4)),
            (Some(u32::MAX), Some(0x0102_0304))
        );
        let mut bytes = [0; 20];
        assert!(pages.copy_to(0, &mut bytes));
        assert_eq!(bytes[4..8], 0x0102_0304_u32.to_ne_bytes());
        assert!(
            bytes[..4]
                .iter()
                .chain(&bytes[8..])
                .all(|byte| *byte == 0xff)
        );
        // Half of no whole word, unaligned, outside.
        for offset in [16, 2, 20, usize::MAX - 3] {
            assert_eq!(pages.load_u32(offset), None);
            assert!(!pages.store_u32(offset, 0));
        }
    }

    #[test]
    fn memory_orders_that_an_access_cannot_have_do_not_panic() {
        let pages = Pages::new(8).unwrap();
        for order in [Ordering::Acquire, Ordering::AcqRel, Ordering::SeqCst] {
            assert!(pages.store(0, 3, order));
        }
        assert_eq!(pages.load(0, Ordering::Release), Some(3));
        assert_eq!(pages.load(0, Ordering::AcqRel), Some(3));
    }

    #[test]
    fn pages_are_not_empty_and_say_where_they_are() {
        let pages = Pages::new(5000).unwrap();
        assert!(!pages.is_empty());
        assert!(pages.len() >= 5000);
        assert_eq!(pages.address(), pages.as_ptr().addr() as u64);
    }
}
