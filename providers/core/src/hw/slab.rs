//! Blocks of memory that a device may access, divided into slots of one size.
//!
//! The cost of taking and giving back slots does not depend on how many there are, and only a new
//! block takes system calls.
//!
//! # Safety
//!
//! [`Slots`] are a range of a block that lives as long as they do. They are taken and given back
//! with the list of blocks locked, so that no others overlap them.
#![allow(unsafe_code, reason = "clears memory that slots were used for before")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Pages;
use crate::error::Errno;
use crate::sys::ForkToken;

/// The most slots of a block.
pub(super) const MAX_SLOTS: usize = 64;

/// An allocator of slots.
#[derive(Debug)]
pub(super) struct Slab {
    slot: usize,
    slots: usize,
    /// Where blocks come from; without, they are mapped.
    below: Option<Arc<Slab>>,
    room: Arc<Room>,
}

/// The blocks that have room, each of them once; one that was freed meanwhile is removed when its
/// turn comes. A block is added only while none that has room for the same is at the end of the
/// list.
#[derive(Debug)]
struct Room {
    /// The process that has the blocks; children do not inherit them.
    process: ForkToken,
    blocks: Mutex<Vec<Weak<Block>>>,
}

/// A block of slots. It is freed with its last slots.
#[derive(Debug)]
struct Block {
    memory: Pages,
    room: Arc<Room>,
    /// One bit per slot in use, and per slot that the block does not have. Changed with the list of
    /// blocks locked, as `touched` is.
    used: AtomicU64,
    /// One bit per slot that was in use before.
    touched: AtomicU64,
}

/// Consecutive slots, zeroed when they are taken. Dropping them gives them back.
#[derive(Debug)]
pub(super) struct Slots {
    block: Arc<Block>,
    start: NonNull<u8>,
    /// Their bits.
    bits: u64,
}

// SAFETY: a range of `block`, which is `Send` and `Sync`; it has no thread affinity.
unsafe impl Send for Slots {}
// SAFETY: as above; what is shared gives an address, and no access.
unsafe impl Sync for Slots {}

impl Slab {
    /// An allocator of blocks of `slots` slots of `slot` bytes each, at most [`MAX_SLOTS`].
    pub(super) fn new(slot: usize, slots: usize, below: Option<Arc<Self>>) -> Self {
        Self {
            slot,
            slots: slots.clamp(1, MAX_SLOTS),
            below,
            room: Arc::new(Room {
                process: ForkToken::current(),
                blocks: Mutex::default(),
            }),
        }
    }

    /// Takes `count` consecutive slots.
    ///
    /// # Errors
    /// ENOMEM, also for none and for more than a block has. EPERM in a child of the process that
    /// made the allocator.
    pub(super) fn take(&self, count: usize) -> Result<Slots, Errno> {
        if !(1..=self.slots).contains(&count) {
            return Err(Errno::NOMEM);
        }
        if !self.room.process.is_current() {
            return Err(Errno::PERM);
        }
        let mut blocks = self.room.lock();
        while let Some(last) = blocks.pop() {
            let Some(block) = last.upgrade() else {
                continue;
            };
            let slots = self.cut(&block, count);
            if !block.is_full() {
                blocks.push(last);
            }
            match slots {
                Some(slots) => return Ok(slots),
                None => break,
            }
        }
        let block = Arc::new(self.block()?);
        let slots = self.cut(&block, count).ok_or(Errno::NOMEM)?;
        if !block.is_full() {
            blocks.push(Arc::downgrade(&block));
        }
        Ok(slots)
    }

    /// Takes `len` bytes, rounded up to whole slots, as pages.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) fn pages(&self, len: usize) -> Result<Pages, Errno> {
        let slots = self.take(len.div_ceil(self.slot))?;
        Ok(Pages::of_slots(slots, len))
    }

    fn block(&self) -> Result<Block, Errno> {
        let len = self.slot * self.slots;
        Ok(Block {
            memory: match &self.below {
                Some(below) => below.pages(len)?,
                None => Pages::for_device(len)?,
            },
            room: Arc::clone(&self.room),
            used: AtomicU64::new(!low(self.slots)),
            touched: AtomicU64::new(0),
        })
    }

    /// Takes slots of `block`, if it has as many in a row. The list of blocks is locked.
    fn cut(&self, block: &Arc<Block>, count: usize) -> Option<Slots> {
        let used = block.used.load(Ordering::Relaxed);
        let runs = (1..count).fold(!used, |runs, by| runs & (!used >> by));
        let first = runs.trailing_zeros() as usize;
        if first >= MAX_SLOTS {
            return None;
        }
        let bits = low(count) << first;
        let start = NonNull::new(block.memory.as_ptr().wrapping_add(first * self.slot))?;
        let touched = block.touched.load(Ordering::Relaxed);
        if touched & bits != 0 {
            let len = count * self.slot;
            // SAFETY: inside the block, as its bits are, and these were free: nobody has the slots.
            unsafe { start.as_ptr().write_bytes(0, len) };
        }
        block.touched.store(touched | bits, Ordering::Relaxed);
        block.used.store(used | bits, Ordering::Relaxed);
        Some(Slots {
            block: Arc::clone(block),
            start,
            bits,
        })
    }

    /// How many blocks have room, and are not freed yet.
    #[cfg(test)]
    pub(super) fn with_room(&self) -> usize {
        let blocks = self.room.lock();
        blocks
            .iter()
            .filter(|block| block.strong_count() > 0)
            .count()
    }
}

/// The lowest `count` bits, of 1 to 64.
fn low(count: usize) -> u64 {
    u64::MAX >> (MAX_SLOTS - count)
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Block>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) == u64::MAX
    }
}

impl Slots {
    /// The first byte.
    #[inline]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let room = &self.block.room;
        // A child does not have the block, and maybe another thread had the lock when it was
        // forked.
        if !room.process.is_current() {
            return;
        }
        let mut blocks = room.lock();
        if self.block.is_full() {
            blocks.push(Arc::downgrade(&self.block));
        }
        self.block.used.fetch_and(!self.bits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(slots: &Slots, len: usize) -> Vec<u8> {
        let at = slots.start().as_ptr();
        // SAFETY: the slots' own bytes, which nothing else accesses.
        (0..len)
            .map(|byte| unsafe { at.wrapping_add(byte).read() })
            .collect()
    }

    fn address(slots: &Slots) -> usize {
        slots.start().addr().get()
    }

    #[test]
    fn slots_in_a_row_do_not_overlap_and_come_back_zeroed() {
        let slab = Slab::new(64, 16, None);
        let one = slab.take(3).unwrap();
        let two = slab.take(1).unwrap();
        let three = slab.take(12).unwrap();
        assert_eq!(address(&two) - address(&one), 3 * 64);
        assert_eq!(address(&three) - address(&two), 64);
        assert_eq!(slab.with_room(), 0);
        // SAFETY: the slots' own bytes.
        unsafe { one.start().as_ptr().write_bytes(0xff, 3 * 64) };
        let at = address(&one);
        drop(one);
        assert_eq!(slab.with_room(), 1);
        // Not in a row with what is free elsewhere: a block of its own.
        let four = slab.take(4).unwrap();
        assert!(!(at..at + 16 * 64).contains(&address(&four)));
        drop(four);
        drop((two, three));
        let again: Vec<_> = (0..16).map(|_| slab.take(1).unwrap()).collect();
        assert!(again.iter().all(|slots| bytes(slots, 64) == [0; 64]));
    }

    #[test]
    fn none_and_too_many_are_refused_and_leave_nothing_behind() {
        let slab = Slab::new(64, 16, None);
        for count in [0, 17, 65, 256, usize::MAX] {
            assert_eq!(slab.take(count).unwrap_err(), Errno::NOMEM);
        }
        assert_eq!(slab.with_room(), 0);
        assert!(slab.take(16).is_ok());
        let whole = Slab::new(32, MAX_SLOTS, None);
        let all = whole.take(MAX_SLOTS).unwrap();
        assert_eq!(whole.with_room(), 0);
        let held = whole.take(1).unwrap();
        assert_eq!(whole.with_room(), 1);
        drop((all, held));
        assert_eq!(whole.with_room(), 0);
    }

    #[test]
    fn blocks_end_with_their_last_slots() {
        let slab = Slab::new(64, 2, None);
        let [first, second] = [1, 1].map(|count| slab.take(count).unwrap());
        let block = Arc::downgrade(&first.block);
        drop(slab);
        drop(first);
        assert_eq!(block.strong_count(), 1);
        drop(second);
        assert_eq!(block.strong_count(), 0);
    }

    #[test]
    fn blocks_come_from_below_and_slots_outlive_their_allocators() {
        let below = Arc::new(Slab::new(4096, 16, None));
        let slab = Slab::new(64, 64, Some(Arc::clone(&below)));
        let slots = slab.take(1).unwrap();
        let next = below.take(1).unwrap();
        assert_eq!(address(&next) - address(&slots), 4096);
        drop((slab, below));
        assert_eq!(bytes(&slots, 64), [0; 64]);
        drop(slots);
        assert_eq!(bytes(&next, 4096), [0; 4096]);
    }

    #[test]
    fn no_slot_is_taken_twice_by_threads() {
        let slab = Slab::new(64, 16, None);
        std::thread::scope(|scope| {
            for mark in 1..=4_u8 {
                let slab = &slab;
                scope.spawn(move || {
                    for round in 0..if cfg!(miri) { 5 } else { 500 } {
                        let len = 1 + round % 5;
                        let taken: Vec<_> = (0..4).map(|_| slab.take(len).unwrap()).collect();
                        for slots in &taken {
                            assert_eq!(bytes(slots, 64 * len), vec![0; 64 * len]);
                            // SAFETY: the slots' own bytes.
                            unsafe { slots.start().as_ptr().write_bytes(mark, 64 * len) };
                        }
                        for slots in taken {
                            assert_eq!(bytes(&slots, 64 * len), vec![mark; 64 * len]);
                        }
                    }
                });
            }
        });
    }
}
