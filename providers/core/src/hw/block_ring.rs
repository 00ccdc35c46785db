//! A ring of 64-byte blocks of four units each: send requests and completions take whole blocks.
//!
//! The block's number is masked once; the offsets inside a block are then constants in the code.
//! A [`BlockCursor`](super::BlockCursor) walks around a ring without masking.
//!
//! # Safety
//!
//! [`BlockRing`] is a [`UnitRing`] of a multiple of 4 units, so any block up to `mask` (the number
//! of blocks minus one) is inside the ring. [`Block`] points to the first unit of such a block, and
//! does not outlive the ring; like the ring, it makes only atomic accesses of words. [`BlockMut`]
//! borrows the ring exclusively, and with it the only way to its memory: a [`UnitRing`] behind a
//! reference has no second handle.
#![allow(unsafe_code, reason = "accesses memory shared with a device")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "units are aligned to 16 when a ring is made"
)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::unit_ring::UNIT;
use super::wide::{self, Wide};
use super::{Part, UnitRing};

/// Units per block.
pub(super) const UNITS: usize = 4;
/// Bytes per block.
pub(super) const BYTES: usize = UNITS * UNIT;

/// A ring of blocks, and of the units that they are made of.
#[derive(Debug)]
pub struct BlockRing {
    units: UnitRing,
    mask: u32,
}

/// A block of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Block<'r> {
    start: *mut [u64; 2],
    ring: PhantomData<&'r BlockRing>,
}

/// A block of a ring, with exclusive access within this process.
#[derive(Debug)]
pub struct BlockMut<'r> {
    block: Block<'r>,
}

impl BlockRing {
    /// A ring of `blocks` (a power of two) blocks at the start of `part`; `None` if the part is
    /// smaller, or not aligned to a unit.
    pub fn new(part: Part, blocks: u32) -> Option<Self> {
        let units = blocks.checked_mul(4)?;
        UnitRing::new(part, units).map(|units| Self {
            mask: blocks - 1,
            units,
        })
    }

    /// Where it is in this process.
    pub fn address(&self) -> u64 {
        self.units.address()
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u32 {
        self.mask + 1
    }

    /// The index in the ring of the block `number`.
    #[inline]
    pub fn index(&self, number: u32) -> u32 {
        number & self.mask
    }

    /// A block; its number is masked.
    #[inline]
    pub fn block(&self, number: u32) -> Block<'_> {
        // SAFETY: a masked number is that of a block (see the module's safety section).
        unsafe { self.at_index(self.index(number)) }
    }

    /// The block with this index.
    ///
    /// # Safety
    /// It is below their number.
    #[inline]
    pub(super) unsafe fn at_index(&self, index: u32) -> Block<'_> {
        let start = self.units.start().wrapping_add(index as usize * UNITS);
        // SAFETY: it starts in this ring, by the caller's promise.
        unsafe { Block::new(start) }
    }

    /// The same with exclusive access.
    ///
    /// # Safety
    /// As [`at_index`](Self::at_index).
    #[inline]
    pub(super) unsafe fn at_index_mut(&mut self, index: u32) -> BlockMut<'_> {
        // SAFETY: the caller's promise.
        let block = unsafe { self.at_index(index) };
        BlockMut { block }
    }

    /// A block with exclusive access, which also allows stores of other widths.
    #[inline]
    pub fn block_mut(&mut self, number: u32) -> BlockMut<'_> {
        BlockMut {
            block: self.block(number),
        }
    }
}

impl Deref for BlockRing {
    type Target = UnitRing;

    #[inline]
    fn deref(&self) -> &UnitRing {
        &self.units
    }
}

impl<'r> Block<'r> {
    /// The block that starts here.
    ///
    /// # Safety
    /// It is a block of a ring that lives as long.
    #[inline]
    pub(super) const unsafe fn new(start: *mut [u64; 2]) -> Self {
        Self {
            start,
            ring: PhantomData,
        }
    }

    /// Loads a word (`at` is masked, below 8) in memory order, by one access.
    #[inline]
    pub fn word(self, at: usize) -> u64 {
        self.word_at(at).load(Ordering::Relaxed)
    }

    /// Like [`word`](Self::word), for a word that marks others as valid: loads after it see what
    /// was written before it.
    #[inline]
    pub fn flag(self, at: usize) -> u64 {
        self.word_at(at).load(Ordering::Acquire)
    }

    /// Stores a unit (`at` is masked, below 4) in memory order, as two words.
    #[inline]
    pub fn put(self, at: usize, unit: [u64; 2]) {
        let at = at.wrapping_mul(2);
        self.word_at(at).store(unit[0], Ordering::Relaxed);
        self.word_at(at | 1).store(unit[1], Ordering::Relaxed);
    }

    #[inline]
    fn word_at(self, at: usize) -> &'r AtomicU64 {
        let word = self.start.cast::<u64>().wrapping_add(at & 7);
        // SAFETY: inside the block and aligned (see the module's safety section).
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// A pointer to the first of its eight words.
    #[inline]
    pub(super) fn start(self) -> *const u64 {
        self.start.cast_const().cast()
    }
}

impl<'r> Deref for BlockMut<'r> {
    type Target = Block<'r>;

    #[inline]
    fn deref(&self) -> &Block<'r> {
        &self.block
    }
}

impl BlockMut<'_> {
    /// Whether [`put_bytes`](Self::put_bytes) can store `length` bytes at byte `at` of a block.
    #[inline]
    pub const fn fits(at: usize, length: usize) -> bool {
        at <= BYTES - UNIT && length.wrapping_sub(UNIT) <= BYTES - UNIT - at
    }

    /// Stores half a word (`at` is masked, below 16) in memory order, by one access.
    #[inline]
    pub fn put_half(&mut self, at: usize, half: u32) {
        let to = self.block.start.cast::<u32>().wrapping_add(at & 15);
        // SAFETY: inside the block and aligned; nothing else accesses the word meanwhile (see the
        // module's safety section).
        let place = unsafe { AtomicU32::from_ptr(to) };
        place.store(half, Ordering::Relaxed);
    }

    /// Stores `bytes` at byte `at` of the block, and pads their last unit with zeroes. Does nothing
    /// if there are fewer than 16, or if they would pass the block's end ([`fits`](Self::fits)).
    ///
    /// Stores 16 bytes at a time, of which the last 16 may overlap those before: no length needs a
    /// loop, or stores of single bytes.
    #[inline]
    pub fn put_bytes(&mut self, at: usize, bytes: &[u8]) {
        let length = bytes.len();
        if !Self::fits(at, length) {
            return;
        }
        self.put((at + length - 1) / UNIT, [0; 2]);
        let to = self.block.start.cast::<u8>().wrapping_add(at);
        let copy = |from: usize| {
            let source = bytes.as_ptr().wrapping_add(from).cast::<Wide>();
            // SAFETY: the callers below pass 16 bytes of `bytes`; no alignment is required, and any
            // bytes are a valid value.
            let run = unsafe { source.read_unaligned() };
            // SAFETY: that many bytes from `at` on are inside the block; nothing else accesses them
            // meanwhile.
            unsafe { wide::store_bytes(to.wrapping_add(from), run) };
        };
        copy(0);
        if length > 2 * UNIT {
            copy(UNIT);
            if length > 3 * UNIT {
                copy(2 * UNIT);
            }
        }
        copy(length - UNIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::Pages;

    fn ring(at: usize, blocks: u32) -> Option<BlockRing> {
        let (_, part) = Part::from(Pages::new(4096).unwrap()).split(at)?;
        BlockRing::new(part, blocks)
    }

    fn bytes(ring: &UnitRing) -> Vec<u8> {
        let words = (0..=ring.mask()).flat_map(|unit| ring.get(unit));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn blocks_wrap_and_their_parts_stay_inside() {
        let mut ring = ring(64, 2).unwrap();
        let sixteen: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        for number in 0..4 {
            ring.block(number).put(5, [number.into(), 7]);
            ring.block_mut(number).put_bytes(48, &sixteen);
        }
        assert_eq!((ring.get(1), ring.get(5)), ([2, 7], [3, 7]));
        assert_eq!(ring.get(3), ring.get(7));
        let block = ring.block(u32::MAX);
        assert_eq!((block.word(2), block.word(8 + 3)), (3, 7));
        assert_eq!(block.word(8 + 6).to_ne_bytes(), sixteen[..8]);
        assert_eq!(block.flag(7).to_ne_bytes(), sixteen[8..]);
        assert_eq!(bytes(&ring)[48..64], sixteen);
    }

    #[test]
    fn bytes_of_any_length_stay_inside_and_are_filled_up() {
        let source: Vec<u8> = (1..=80).collect();
        let cases = (0..=80).flat_map(|at| (0..=80).map(move |length| (at, length)));
        for (at, length) in cases.step_by(if cfg!(miri) { 31 } else { 1 }) {
            let mut ring = ring(0, 4).unwrap();
            for unit in 0..16 {
                ring.put(unit, [u64::MAX; 2]);
            }
            let mut expected = [0xff; 256];
            ring.block_mut(1).put_bytes(at, &source[..length]);
            let fits = BlockMut::fits(at, length);
            assert_eq!(fits, length >= 16 && at + length <= 64);
            if fits {
                let (start, end) = (64 + at, 64 + at + length);
                expected[start..end].copy_from_slice(&source[..length]);
                expected[end..end.next_multiple_of(16)].fill(0);
            }
            assert_eq!(bytes(&ring), expected, "{length} bytes at {at}");
            ring.block_mut(1).put_half(16 + 15, 0x55aa_55aa);
            expected[124..128].copy_from_slice(&0x55aa_55aa_u32.to_ne_bytes());
            assert_eq!(bytes(&ring), expected);
        }
    }

    #[test]
    fn rings_that_do_not_fit_are_refused() {
        for (at, blocks) in [(0, 0), (0, 3), (0, 128), (64, 64), (0, 1 << 30)] {
            assert!(ring(at, blocks).is_none());
        }
        assert!(ring(0, 64).is_some());
    }
}
