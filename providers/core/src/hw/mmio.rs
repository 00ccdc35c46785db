//! A page of a device's registers.
//!
//! # Safety
//!
//! Every store is of atomic words, aligned to 8, and inside the mapping: offsets are checked when a
//! [`Register`] is created, against the mapping that the register keeps. Registers are never read.
#![allow(unsafe_code, reason = "stores to a device's registers")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "offsets are multiples of 8 in a page-aligned mapping"
)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::wide;
use super::{Block, BlockRing};
use crate::sys::Mapping;

/// Whether ordinary stores can access registers on this architecture. s390x needs special
/// instructions for that.
pub const HAS_REGISTERS: bool = cfg!(not(target_arch = "s390x"));

/// A part of a page of registers, which belongs to one doorbell.
///
/// Stores of several threads arrive in any order. Where the order of two stores matters to the
/// device, [`barrier::flush_registers`](super::barrier::flush_registers) has to be called between
/// them.
#[derive(Clone)]
pub struct Register {
    start: *mut u8,
    len: usize,
    page: Arc<Mapping>,
}

// SAFETY: a register has no thread affinity; the pointer is into `page`, which is `Send` and
// `Sync`.
unsafe impl Send for Register {}
// SAFETY: `&self` makes only atomic stores of words.
unsafe impl Sync for Register {}

impl Register {
    /// The `len` bytes at `offset` of a page. Both must be multiples of 8, and from 64 bytes on the
    /// offset a multiple of 16; otherwise, and if they pass the page's end, `None`.
    pub fn new(page: Arc<Mapping>, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        let fits = HAS_REGISTERS && offset.is_multiple_of(8) && len >= 8 && len.is_multiple_of(8);
        let aligned =
            page.as_ptr().addr().is_multiple_of(64) && (len < 64 || offset.is_multiple_of(16));
        (fits && aligned && end <= page.len()).then(|| Self {
            start: page.as_ptr().wrapping_add(offset),
            len,
            page,
        })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a register has at least 8 bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is in this process. Writing there is up to its owner.
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// The page it is in.
    pub fn page(&self) -> &Arc<Mapping> {
        &self.page
    }

    /// Stores 8 bytes, in memory order, at the start by one access.
    #[inline]
    pub fn store(&self, word: u64) {
        // A register has at least 8 bytes.
        self.store_at(0, word);
    }

    /// Copies a block to the start, by the widest stores available. Does nothing if it would pass
    /// the end.
    #[inline]
    #[doc(hidden)] // For providers, whose rings have blocks.
    pub fn copy_block(&self, block: Block<'_>) {
        if self.len >= 64 {
            self.copy_inside(0, block);
        }
    }

    /// Copies `blocks` blocks of a ring, starting with `first`, to the start. Does nothing if they
    /// would pass the end.
    #[inline(never)]
    #[doc(hidden)] // For providers, whose rings have blocks.
    pub fn copy_blocks(&self, ring: &BlockRing, first: u32, blocks: u32) {
        if blocks as usize > self.len / 64 {
            return;
        }
        for at in 0..blocks {
            self.copy_inside(at as usize, ring.block(first.wrapping_add(at)));
        }
    }

    /// Copies a block to the position of block `number`, which the caller has checked to be inside.
    #[inline]
    fn copy_inside(&self, number: usize, block: Block<'_>) {
        let to = self.start.wrapping_add(number * 64).cast::<u64>();
        // SAFETY: inside the register, as the callers checked, and aligned; a block is eight words
        // of a ring, which does not overlap the register.
        unsafe { wide::copy_words(block.start(), to) };
    }

    /// Stores 16 bytes at `offset`, as two words. A word that would pass the end is not stored.
    #[inline]
    pub fn copy(&self, offset: usize, unit: [u64; 2]) {
        if offset.is_multiple_of(8) && offset < self.len && self.len - offset >= 16 {
            self.store_at(offset, unit[0]);
            self.store_at(offset + 8, unit[1]);
        }
    }

    /// Stores a word at an offset that the caller has checked to be inside and a multiple of 8.
    #[inline]
    fn store_at(&self, offset: usize, word: u64) {
        // SAFETY: inside the register, and aligned.
        let place = unsafe { AtomicU64::from_ptr(self.start.wrapping_add(offset).cast()) };
        place.store(word, Ordering::Relaxed);
        // A store to a register has side effects: the compiler must not merge it with the next one.
        compiler_fence(Ordering::SeqCst);
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Register({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_stay_inside() {
        let page = Arc::new(Mapping::anonymous(4096).unwrap());
        assert!(Register::new(Arc::clone(&page), 4096, 8).is_none());
        assert!(Register::new(Arc::clone(&page), 4, 8).is_none());
        assert!(Register::new(Arc::clone(&page), usize::MAX & !7, 16).is_none());
        let register = Register::new(Arc::clone(&page), 4096 - 32, 32).unwrap();
        register.store(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]));
        register.copy(16, [u64::from_ne_bytes([9; 8]), 7]);
        register.copy(24, [1, 1]);
        register.copy(usize::MAX & !7, [1, 1]);
        let part = crate::hw::Part::from(crate::hw::Pages::new(4096).unwrap());
        let ring = BlockRing::new(part, 2).unwrap();
        for unit in 0..4 {
            ring.block(1).put(unit, [2, 3]);
        }
        register.copy_block(ring.block(1));
        assert!(Register::new(Arc::clone(&page), 128 + 8, 64).is_none());
        let block = Register::new(Arc::clone(&page), 128, 64).unwrap();
        block.copy_block(ring.block(1));
        assert_eq!(page.load_u32(128 + 64), Some(0));
        assert_eq!(
            page.load_u32(128 + 56),
            Some(u32::from_ne_bytes(
                3_u64.to_ne_bytes()[..4].try_into().unwrap()
            ))
        );
        assert_eq!(
            page.load_u32(4096 - 32),
            Some(u32::from_ne_bytes([1, 2, 3, 4]))
        );
        assert_eq!(page.load_u32(4096 - 16), Some(u32::from_ne_bytes([9; 4])));
        assert_eq!(
            page.load_u32(4096 - 8),
            Some(u32::from_ne_bytes(
                7_u64.to_ne_bytes()[..4].try_into().unwrap()
            ))
        );
    }

    #[test]
    fn a_register_is_where_its_offset_says() {
        let page = Arc::new(Mapping::anonymous(4096).unwrap());
        let register = Register::new(Arc::clone(&page), 64, 24).unwrap();
        assert_eq!(register.address(), page.address() + 64);
        assert_eq!((register.len(), register.is_empty()), (24, false));
        assert!(Arc::ptr_eq(register.page(), &page));
        assert_eq!(format!("{register:?}"), "Register(24 bytes)");
        for (offset, len) in [(64, 0), (64, 4), (64, 12), (4096 - 8, 16)] {
            let refused = Register::new(Arc::clone(&page), offset, len);
            assert!(refused.is_none(), "{len} bytes at {offset}");
        }
        for (offset, len) in [(0, 4096), (4096 - 8, 8), (8, 56), (16, 64)] {
            let taken = Register::new(Arc::clone(&page), offset, len);
            assert!(taken.is_some(), "{len} bytes at {offset}");
        }
        assert!(
            Register::new(page, 8, 64).is_none(),
            "blocks are aligned to 16"
        );
    }

    #[test]
    fn two_words_are_copied_if_both_are_inside() {
        let page = Arc::new(Mapping::anonymous(4096).unwrap());
        let register = Register::new(Arc::clone(&page), 0, 24).unwrap();
        let of = |byte| u64::from_ne_bytes([byte; 8]);
        for (offset, stored) in [(0, true), (8, true), (16, false), (24, false), (4, false)] {
            let values = [of(1), of(2)];
            register.copy(0, [0; 2]);
            register.copy(8, [0; 2]);
            register.copy(offset, values);
            let found: Vec<_> = (0..4).map(|at| page.load(at * 8).unwrap()).collect();
            let mut expected = vec![0; 4];
            if stored {
                expected[offset / 8..][..2].copy_from_slice(&values);
            }
            assert_eq!(found, expected, "{offset}");
        }
    }

    #[test]
    fn as_many_blocks_are_copied_as_the_register_has_room_for() {
        let page = Arc::new(Mapping::anonymous(4096).unwrap());
        let part = crate::hw::Part::from(crate::hw::Pages::new(4096).unwrap());
        let ring = BlockRing::new(part, 4).unwrap();
        for block in 0..4 {
            for unit in 0..4 {
                let value = u64::from_ne_bytes([u8::try_from(block + 1).unwrap(); 8]);
                ring.block(block).put(unit, [value; 2]);
            }
        }
        let register = Register::new(Arc::clone(&page), 0, 128).unwrap();
        let first_bytes = || [0, 64, 128].map(|at| page.load(at).unwrap().to_ne_bytes()[0]);
        register.copy_blocks(&ring, 0, 3);
        register.copy_blocks(&ring, 0, 0);
        assert_eq!(first_bytes(), [0, 0, 0]);
        register.copy_blocks(&ring, 1, 1);
        assert_eq!(first_bytes(), [2, 0, 0]);
        register.copy_blocks(&ring, 2, 2);
        assert_eq!(first_bytes(), [3, 4, 0]);
    }
}
