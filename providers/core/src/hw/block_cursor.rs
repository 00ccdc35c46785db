//! A walk around a ring of blocks.
//!
//! # Safety
//!
//! `at` and `first` point to blocks of `ring`, which the cursor owns a share of. Steps go from one
//! to the next at a distance that divides the length of the ring, so that they meet `end` before
//! they would leave it, and go on with `first`.
#![allow(unsafe_code, reason = "points into memory shared with a device")]

use std::sync::Arc;

use super::block_ring::{BYTES, UNITS};
use super::{Block, BlockRing};

/// A walk around a ring, by blocks at equal distances. The block that it is at is found without
/// looking into the ring.
///
/// It shares the ring: as long as it exists, nobody has exclusive access to a block.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use uverbs_core::hw::{BlockCursor, BlockRing, Pages, Part};
///
/// let ring = BlockRing::new(Part::from(Pages::new(4096)?), 4).ok_or("a ring")?;
/// let mut cursor = BlockCursor::new(&Arc::new(ring), 3, 0);
/// cursor.block().put(0, [7, 0]);
/// assert!(cursor.step(), "from block 3 to block 0");
/// assert!(!cursor.step(), "from block 0 to block 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockCursor {
    at: *mut [u64; 2],
    /// Bytes from one block to the next.
    distance: usize,
    /// log₂ of the same.
    shift: u32,
    /// Behind the last block.
    end: *mut [u64; 2],
    first: *mut [u64; 2],
    /// Keeps the blocks.
    _ring: Arc<BlockRing>,
}

// SAFETY: the pointers are into a ring that the cursor shares, and which may be shared with other
// threads.
unsafe impl Send for BlockCursor {}
// SAFETY: through `&self` it hands out blocks, as the ring does.
unsafe impl Sync for BlockCursor {}

impl BlockCursor {
    /// A cursor at the block `number`, which is masked; every `1 << shift`-th block follows, at
    /// least one of a round.
    pub fn new(ring: &Arc<BlockRing>, number: u32, shift: u32) -> Self {
        let blocks = ring.blocks();
        let shift = shift.min(blocks.ilog2());
        let distance = 1 << shift;
        let start = ring.start();
        let block = |number: u32| start.wrapping_add(number as usize * UNITS);
        let first = block(ring.index(number) & (distance - 1));
        Self {
            at: block(ring.index(number)),
            distance: distance as usize * BYTES,
            shift: BYTES.ilog2() + shift,
            end: first.wrapping_add(blocks as usize * UNITS),
            first,
            _ring: Arc::clone(ring),
        }
    }

    /// The block that it is at.
    #[inline]
    pub fn block(&self) -> Block<'_> {
        // SAFETY: `at` is a block of the ring (see the module's safety section), which this keeps,
        // and which is borrowed as long as the block.
        unsafe { Block::new(self.at) }
    }

    /// Goes to the next block; returns whether that began another round.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.at = self.at.wrapping_byte_add(self.distance);
        self.turn()
    }

    /// Goes on with `slots`, each with a block, until `each` returns false, the slots run out, or
    /// the round ends. Returns for how many `each` returned true, and whether another round begins.
    #[expect(
        clippy::inline_always,
        reason = "keeps the state of `each` in registers"
    )]
    #[inline(always)]
    pub fn zip_while<T>(
        &mut self,
        slots: &mut [T],
        mut each: impl FnMut(Block<'_>, &mut T) -> bool,
    ) -> (usize, bool) {
        let begin = self.at;
        // No further than to the end of the round.
        let most = self.end.addr().wrapping_sub(begin.addr()) >> (self.shift & 63);
        let count = slots.len().min(most);
        let mut at = begin;
        for slot in slots.get_mut(..count).unwrap_or_default() {
            // SAFETY: of the ring, which this keeps: there are `most` from the first one to the end
            // of the round.
            let block = unsafe { Block::new(at) };
            if !each(block, slot) {
                break;
            }
            at = at.wrapping_byte_add(self.distance);
        }
        self.at = at;
        // Derived from the distance covered, so that the loop needs no other counter.
        let passed = at.addr().wrapping_sub(begin.addr()) >> (self.shift & 63);
        (passed, self.turn())
    }

    /// From the end of a round to the beginning of the next one.
    #[inline]
    fn turn(&mut self) -> bool {
        let is_round = self.at == self.end;
        if is_round {
            self.at = self.first;
        }
        is_round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::{Pages, Part};

    /// The numbers of the blocks that a cursor visits, and where rounds begin.
    fn visited(blocks: u32, number: u32, shift: u32, steps: usize) -> Vec<(u64, bool)> {
        let part = Part::from(Pages::new(4096).unwrap());
        let ring = Arc::new(BlockRing::new(part, blocks).unwrap());
        for number in 0..blocks {
            ring.block(number).put(1, [number.into(), 0]);
        }
        let mut cursor = BlockCursor::new(&ring, number, shift);
        let mut is_round = false;
        let visit = |_| {
            let seen = (cursor.block().word(2), is_round);
            is_round = cursor.step();
            seen
        };
        (0..steps).map(visit).collect()
    }

    #[test]
    fn a_round_visits_every_block_at_the_distance_and_no_other() {
        let plain = |numbers: &[u64], first: u64| -> Vec<_> {
            let mut seen: Vec<_> = numbers.iter().map(|at| (*at, *at == first)).collect();
            seen[0].1 = false;
            seen
        };
        assert_eq!(visited(4, 2, 0, 6), plain(&[2, 3, 0, 1, 2, 3], 0));
        assert_eq!(visited(4, 4 + 1, 0, 4), plain(&[1, 2, 3, 0], 0));
        assert_eq!(visited(8, 3, 1, 5), plain(&[3, 5, 7, 1, 3], 1));
        assert_eq!(visited(8, 6, 1, 3), plain(&[6, 0, 2], 0));
        assert_eq!(visited(1, 9, 0, 2), [(0, false), (0, true)]);
        assert_eq!(visited(4, 2, 31, 2), [(2, false), (2, true)]);
        assert_eq!(visited(64, u32::MAX, 0, 2), plain(&[63, 0], 0));
    }

    #[test]
    fn blocks_come_with_slots_up_to_either_end() {
        let part = Part::from(Pages::new(4096).unwrap());
        let ring = Arc::new(BlockRing::new(part, 8).unwrap());
        for number in 0..8 {
            ring.block(number).put(0, [number.into(), 0]);
        }
        let zip_while = |number, shift, slots, until| {
            let mut slots = vec![9; slots];
            let mut cursor = BlockCursor::new(&ring, number, shift);
            let (count, is_round) = cursor.zip_while(&mut slots, |block, slot| {
                *slot = block.word(0);
                *slot != until
            });
            (slots, count, is_round, cursor.block().word(0))
        };
        assert_eq!(
            zip_while(8 + 5, 0, 5, 99),
            (vec![5, 6, 7, 9, 9], 3, true, 0)
        );
        assert_eq!(zip_while(5, 0, 2, 99), (vec![5, 6], 2, false, 7));
        assert_eq!(zip_while(5, 0, 3, 6), (vec![5, 6, 9], 1, false, 6));
        assert_eq!(zip_while(3, 1, 5, 99), (vec![3, 5, 7, 9, 9], 3, true, 1));
        assert_eq!(zip_while(2, 1, 5, 99), (vec![2, 4, 6, 9, 9], 3, true, 0));
        assert_eq!(zip_while(7, 31, 2, 99), (vec![7, 9], 1, true, 7));
        assert_eq!(zip_while(0, 0, 0, 99), (vec![], 0, false, 0));
    }

    #[test]
    fn the_cursor_keeps_the_ring_alive() {
        let part = Part::from(Pages::new(4096).unwrap());
        let ring = Arc::new(BlockRing::new(part, 2).unwrap());
        ring.block(1).put(0, [5, 0]);
        let mut cursor = BlockCursor::new(&ring, 0, 0);
        drop(ring);
        cursor.step();
        assert_eq!(cursor.block().word(0), 5);
    }
}
