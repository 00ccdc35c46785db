//! Zeroed pages of this process that a device may read and write.
//!
//! # Safety
//!
//! [`Pages`] lends no references to its memory by itself: [`Pages::copy_to`] and
//! [`Pages::copy_from`] make volatile accesses, which are right while a device writes. The two
//! unsafe lenders are for memory that no device touches at the moment, which their callers prove.
#![allow(
    unsafe_code,
    reason = "copies to and from memory that a device may access"
)]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "alignment is made sure of before words are accessed"
)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Errno;
use crate::sys::Mapping;

/// Whole pages, mapped for this process alone, zeroed, page aligned, and unmapped when dropped.
#[derive(Debug)]
pub struct Pages {
    mapping: Mapping,
    len: usize,
}

impl Pages {
    /// `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// EINVAL for 0 bytes, ENOMEM.
    pub fn new(len: usize) -> Result<Self, Errno> {
        Ok(Self {
            mapping: Mapping::anonymous(len)?,
            len,
        })
    }

    /// The same, left out of children (`MADV_DONTFORK`): for queues, whose memory a child must not touch, nor
    /// make the parent lose to copy-on-write.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_device(len: usize) -> Result<Self, Errno> {
        Ok(Self {
            mapping: Mapping::for_device(len)?,
            len,
        })
    }

    /// Bytes that were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes, which cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, as queues and registrations carry it.
    pub fn address(&self) -> u64 {
        self.mapping.address()
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr()
    }

    /// The mapping underneath.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    #[inline]
    fn contains(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Copies `bytes` in at `offset`. Returns false, and copies nothing, when they do not fit.
    ///
    /// Right while a device or a peer accesses the memory: each byte is stored once, in no
    /// particular order, and what others see meanwhile is a mix of old and new bytes.
    pub fn copy_from(&self, offset: usize, bytes: &[u8]) -> bool {
        if !self.contains(offset, bytes.len()) {
            return false;
        }
        let to = self.as_ptr().wrapping_add(offset);
        let head = to.align_offset(8).min(bytes.len());
        let (first, rest) = bytes.split_at(head);
        let (words, last) = rest.as_chunks::<8>();
        store_bytes(to, first);
        for (at, word) in words.iter().enumerate() {
            let word = u64::from_ne_bytes(*word);
            // SAFETY: the word lies in the range checked above and is aligned by `head`.
            unsafe {
                to.wrapping_add(head + at * 8)
                    .cast::<u64>()
                    .write_volatile(word);
            };
        }
        store_bytes(to.wrapping_add(head + words.len() * 8), last);
        true
    }

    /// Copies bytes at `offset` out. Returns false, and copies nothing, when the range does not fit.
    ///
    /// Right while a device or a peer accesses the memory, as [`copy_from`](Self::copy_from).
    pub fn copy_to(&self, offset: usize, bytes: &mut [u8]) -> bool {
        if !self.contains(offset, bytes.len()) {
            return false;
        }
        let from = self.as_ptr().wrapping_add(offset);
        let head = from.align_offset(8).min(bytes.len());
        let (first, rest) = bytes.split_at_mut(head);
        let (words, last) = rest.as_chunks_mut::<8>();
        load_bytes(from, first);
        let count = words.len();
        for (at, word) in words.iter_mut().enumerate() {
            // SAFETY: the word lies in the range checked above and is aligned by `head`.
            let bits = unsafe {
                from.wrapping_add(head + at * 8)
                    .cast::<u64>()
                    .read_volatile()
            };
            *word = bits.to_ne_bytes();
        }
        load_bytes(from.wrapping_add(head + count * 8), last);
        true
    }

    /// Loads the aligned 8 bytes at `offset` in one access. `None` outside the pages or unaligned.
    pub fn load(&self, offset: usize, order: Ordering) -> Option<u64> {
        Some(self.word(offset)?.load(order))
    }

    /// Stores the aligned 8 bytes at `offset` in one access. False outside the pages or unaligned.
    pub fn store(&self, offset: usize, value: u64, order: Ordering) -> bool {
        match self.word(offset) {
            Some(word) => {
                word.store(value, order);
                true
            }
            None => false,
        }
    }

    /// Loads the aligned 4 bytes at `offset` in one access. `None` outside the pages or unaligned.
    pub fn load_u32(&self, offset: usize) -> Option<u32> {
        Some(self.half_word(offset)?.load(Ordering::Relaxed))
    }

    /// Stores the aligned 4 bytes at `offset` in one access. False outside the pages or unaligned.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32) -> bool {
        self.half_word(offset)
            .map(|word| word.store(value, Ordering::Relaxed))
            .is_some()
    }

    #[inline]
    fn half_word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || !self.contains(offset, 4) {
            return None;
        }
        // SAFETY: as in `word`.
        Some(unsafe { AtomicU32::from_ptr(self.as_ptr().wrapping_add(offset).cast()) })
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) || !self.contains(offset, 8) {
            return None;
        }
        // SAFETY: aligned and inside the pages (checked above), which live as long as `self`; an
        // atomic may be shared with writers outside the language.
        Some(unsafe { AtomicU64::from_ptr(self.as_ptr().wrapping_add(offset).cast()) })
    }

    /// Lends a range for reading.
    ///
    /// # Safety
    /// While the slice lives, nothing writes to the range: no device, no peer, no other handle.
    /// `offset + len` lies inside the pages.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: the caller's promise; the memory was zeroed when it was mapped.
        unsafe { std::slice::from_raw_parts(self.as_ptr().wrapping_add(offset), len) }
    }

    /// Lends a range for writing.
    ///
    /// # Safety
    /// While the slice lives, nothing else reads or writes the range: no device, no peer, no other
    /// handle. `offset + len` lies inside the pages.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller proves that the range is its own"
    )]
    pub unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: the caller's promise; the memory was zeroed when it was mapped.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().wrapping_add(offset), len) }
    }
}

fn store_bytes(to: *mut u8, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: the caller checked that the range lies inside its pages.
        unsafe { to.wrapping_add(at).write_volatile(*byte) };
    }
}

fn load_bytes(from: *mut u8, bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        // SAFETY: the caller checked that the range lies inside its pages.
        *byte = unsafe { from.wrapping_add(at).read_volatile() };
    }
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
}
