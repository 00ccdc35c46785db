//! A ring of blocks, and what this process records of each.
//!
//! # Safety
//!
//! `mask` is the number of blocks less one, or that of values if they are fewer; both are powers of
//! two. A masked number is that of a block and of a value.
#![allow(unsafe_code, reason = "a number that was masked need not be checked")]

use super::{Block, BlockMut, BlockRing};
use crate::Slots;

/// A ring of blocks with a value beside each, which are found together: the number is masked once.
#[derive(Debug)]
pub struct BlockTable<T> {
    ring: BlockRing,
    values: Slots<T>,
    mask: u32,
}

impl<T> BlockTable<T> {
    /// As many blocks as there are values, or as many values as there are blocks: of the longer one
    /// only the start is used.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "if they do not fit, blocks are fewer"
    )]
    pub fn new(ring: BlockRing, values: Slots<T>) -> Self {
        let mask = (values.len() - 1).min(ring.blocks() as usize - 1) as u32;
        Self { ring, values, mask }
    }

    /// A block and its value; the number is masked.
    #[inline]
    pub fn at(&self, number: u32) -> (Block<'_>, &T) {
        let index = number & self.mask;
        // SAFETY: below the number of values, by the invariant.
        let value = unsafe { self.values.at_index(index as usize) };
        // SAFETY: below the number of blocks, by the invariant.
        (unsafe { self.ring.at_index(index) }, value)
    }

    /// The same with exclusive access to the block.
    #[inline]
    pub fn at_mut(&mut self, number: u32) -> (BlockMut<'_>, &T) {
        let index = number & self.mask;
        // SAFETY: below the number of values, by the invariant.
        let value = unsafe { self.values.at_index(index as usize) };
        // SAFETY: below the number of blocks, by the invariant.
        (unsafe { self.ring.at_index_mut(index) }, value)
    }

    /// The ring.
    #[inline]
    pub fn ring(&self) -> &BlockRing {
        &self.ring
    }

    /// A value; the number is masked.
    #[inline]
    pub fn value(&self, number: u32) -> &T {
        self.values.at(number as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::hw::{Pages, Part};

    fn table(blocks: u32, values: u32) -> BlockTable<AtomicU32> {
        let part = Part::from(Pages::new(4096).unwrap());
        BlockTable::new(BlockRing::new(part, blocks).unwrap(), Slots::new(values))
    }

    #[test]
    fn a_number_is_that_of_a_block_and_of_a_value() {
        let mut table = table(4, 4);
        for number in 0..8 {
            let (block, value) = table.at(number);
            block.put(0, [number.into(), 0]);
            value.store(number, Ordering::Relaxed);
        }
        for number in 0..4 {
            let (block, value) = table.at_mut(number + 8);
            assert_eq!(block.word(0), u64::from(number + 4));
            assert_eq!(value.load(Ordering::Relaxed), number + 4);
            assert_eq!(table.value(number).load(Ordering::Relaxed), number + 4);
        }
        assert_eq!(table.ring().get(4 * 3), [7, 0]);
    }

    #[test]
    fn of_the_longer_one_only_the_start_is_used() {
        for (blocks, values) in [(4, 2), (2, 4), (1, 64), (64, 1)] {
            let table = table(blocks, values);
            for number in 0..130 {
                let (block, value) = table.at(number);
                block.put(3, [number.into(), 0]);
                value.store(number, Ordering::Relaxed);
                let (block, value) = table.at(number % blocks.min(values));
                assert_eq!(block.word(6), number.into());
                assert_eq!(value.load(Ordering::Relaxed), number);
            }
        }
    }
}
