//! Stand-ins for memory that devices write: whole words.
//!
//! Of an entry, the words that polling depends on, and that other threads read at the same time,
//! are modelled: its owner, the number of completions it represents, and the last word. The rest is
//! read only by the poller.

use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Plain;

use super::atomic::{AtomicU64, Ordering};
use uverbs_core::hw::Part;

/// Ordering by the fences of the language. On x86-64 the real ones are stronger or cost nothing.
pub(crate) mod barrier {
    use crate::sync::atomic::{Ordering, fence};

    pub(crate) fn from_device() {
        fence(Ordering::Acquire);
    }

    pub(crate) fn to_device() {
        fence(Ordering::Release);
    }
}

/// The words of an entry that are modelled: bytes 32 to 39, 40 to 47, and the last eight.
const MODELLED: [usize; 3] = [4, 5, 7];

#[derive(Debug)]
struct Words {
    modelled: [AtomicU64; 3],
    others: [Plain; 8],
}

impl Words {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        match MODELLED.iter().position(|word| *word == at) {
            Some(at) => self.modelled[at].load(order),
            None => self.others[at & 7].load(order),
        }
    }

    fn store(&self, at: usize, value: u64) {
        match MODELLED.iter().position(|word| *word == at) {
            Some(at) => self.modelled[at].store(value, Ordering::Relaxed),
            None => self.others[at & 7].store(value, Ordering::Relaxed),
        }
    }
}

/// A ring of 64-byte blocks.
#[derive(Debug)]
pub(crate) struct BlockRing {
    blocks: Vec<Words>,
}

/// A walk around a ring.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    ring: Arc<BlockRing>,
    number: u32,
    distance: u32,
}

impl BlockCursor {
    pub(crate) fn new(ring: &Arc<BlockRing>, number: u32, shift: u32) -> Self {
        Self {
            ring: Arc::clone(ring),
            number: number & ring.mask(),
            distance: 1 << shift,
        }
    }

    pub(crate) fn block(&self) -> Block<'_> {
        self.ring.block(self.number)
    }

    pub(crate) fn step(&mut self) -> bool {
        let next = self.number + self.distance;
        self.number = next & self.ring.mask();
        self.number != next
    }

    pub(crate) fn zip_while<T>(
        &mut self,
        slots: &mut [T],
        mut each: impl FnMut(Block<'_>, &mut T) -> bool,
    ) -> (usize, bool) {
        for (passed, slot) in slots.iter_mut().enumerate() {
            if !each(self.block(), slot) {
                return (passed, false);
            }
            if self.step() {
                return (passed + 1, true);
            }
        }
        (slots.len(), false)
    }
}

/// A block of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'r>(&'r Words);

impl BlockRing {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn new(_: Part, blocks: u32) -> Option<Self> {
        let words = |_| Words {
            modelled: Default::default(),
            others: Default::default(),
        };
        Some(Self {
            blocks: (0..blocks).map(words).collect(),
        })
    }

    fn mask(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    pub(crate) fn block(&self, number: u32) -> Block<'_> {
        Block(&self.blocks[number as usize & (self.blocks.len() - 1)])
    }

    pub(crate) fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    pub(crate) fn put(&self, unit: u32, value: [u64; 2]) {
        self.set_word(unit, 0, value[0]);
        self.set_word(unit, 1, value[1]);
    }

    pub(crate) fn get(&self, unit: u32) -> [u64; 2] {
        let block = self.block(unit / 4);
        let first = unit as usize % 4 * 2;
        let second = block.word(first + 1);
        [block.word(first), second]
    }

    pub(crate) fn set_word(&self, unit: u32, half: u32, value: u64) {
        let at = (unit % 4 * 2 + (half & 1)) as usize;
        self.block(unit / 4).0.store(at, value);
    }
}

impl Block<'_> {
    pub(crate) fn word(self, at: usize) -> u64 {
        self.0.load(at & 7, Ordering::Relaxed)
    }

    pub(crate) fn flag(self, at: usize) -> u64 {
        self.0.load(at & 7, Ordering::Acquire)
    }
}
