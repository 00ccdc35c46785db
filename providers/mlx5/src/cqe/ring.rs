//! The ring of a completion queue: entries of 64 or 128 bytes that the device writes in order.
//!
//! An entry is valid if its owner bit shows that it was written in this pass around the ring.
//! Positions are 64-bit free-running counters, so the expected owner bit is a bit of the position.
//! A resize takes an entry of its own, which is not a completion: from then on the device's count
//! is one higher, positions are not.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions wrap around the ring, and the owner is one bit of them"
)]

use std::sync::Arc;

use uverbs_core::error::Errno;
use uverbs_core::hw::{PagePool, Part, QueueBuffer, QueueMemory};

use super::{Results, Tail, format, opcode};
use crate::sync::{Block, BlockCursor, BlockRing};

/// Bytes of the part of an entry that has a meaning.
const BLOCK: u32 = 64;
/// Units of 16 bytes in that part.
const ENTRY_UNITS: u32 = 4;

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The number of entries before it (free-running counter).
    pub(crate) position: u64,
    /// The block of the ring that contains its 64 bytes (free-running counter).
    block: u32,
}

/// An entry that has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'r> {
    /// Its 64 bytes.
    pub(crate) block: Block<'r>,
    /// Its last word, with 0 in place of the owner bit that it has in this pass around the ring.
    pub(crate) tail: Tail,
    /// The same as the device wrote it.
    raw: u64,
}

impl<'r> Look<'r> {
    #[inline]
    fn new(block: Block<'r>, pass: Pass) -> Self {
        let raw = block.flag(7) ^ pass.0;
        Self {
            block,
            tail: Tail(u64::from_be(raw)),
            raw,
        }
    }

    /// Whether the device has written it.
    #[inline]
    pub(crate) fn is_there(self) -> bool {
        // In a ring that another one continues in, only the opcode tells.
        !self.is_of_other_pass() && self.tail.opcode() != opcode::INVALID
    }

    /// Whether the device has certainly not written it in this pass around the ring.
    #[inline]
    pub(crate) fn is_of_other_pass(self) -> bool {
        self.raw & 1_u64.to_be() != 0
    }

    /// Whether an entry of this pass is the completion of a successful request, in ordinary format.
    #[inline]
    pub(crate) fn is_sent(self) -> bool {
        const { assert!(opcode::REQUEST == 0 && format::PLAIN == 0) };
        // All but whether it was solicited.
        self.tail.0 & 0xfc == 0
    }

    /// The same for a received message.
    #[inline]
    pub(crate) fn is_received(self) -> bool {
        self.tail.0 & 0xfc == u64::from(opcode::RECEIVE) << 4
    }

    /// Whether the device has written it, and it has this opcode and the ordinary format.
    #[inline]
    pub(crate) fn is(self, kind: u32) -> bool {
        const BITS: u64 = 0xfd;
        self.tail.0 & BITS == u64::from(kind << 4 | format::PLAIN << 2)
    }
}

/// A pass around the ring: the last word of an entry that has its owner bit, and no other.
#[derive(Clone, Copy, Debug)]
struct Pass(u64);

impl Pass {
    #[inline]
    fn new(owner: u32) -> Self {
        Self(u64::from(owner).to_be())
    }

    /// The pass after it.
    #[inline]
    fn next(self) -> Self {
        Self(self.0 ^ 1_u64.to_be())
    }
}

/// A position in a ring, where entries are read one after another.
#[derive(Debug)]
pub(crate) struct Reader {
    blocks: BlockCursor,
    pass: Pass,
    /// The number of entries before it (free-running counter).
    position: u64,
    /// How far the device's count is ahead of it.
    ahead: u64,
}

impl Reader {
    /// The number of entries before it.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The same as the device counts.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.position.wrapping_add(self.ahead)
    }

    /// Reads the entry, whether it has been written or not.
    #[inline]
    pub(crate) fn look(&self) -> Look<'_> {
        Look::new(self.blocks.block(), self.pass)
    }

    /// Goes on to the next entry.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.position += 1;
        if self.blocks.step() {
            self.pass = self.pass.next();
        }
    }

    /// Goes on with `slots`, each with an entry, until `each` returns false. Ends with the ring.
    /// Returns how many it passed.
    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn zip_while<T>(
        &mut self,
        slots: &mut [T],
        mut each: impl FnMut(Look<'_>, &mut T) -> bool,
    ) -> usize {
        let pass = self.pass;
        let (passed, is_round) = self
            .blocks
            .zip_while(slots, |block, slot| each(Look::new(block, pass), slot));
        self.position += passed as u64;
        if is_round {
            self.pass = pass.next();
        }
        passed
    }
}

/// The ring of a completion queue.
#[derive(Debug)]
pub(crate) struct CqRing {
    pub(crate) units: Arc<BlockRing>,
    /// log₂ of the number of entries.
    log: u32,
    /// log₂ of the blocks of an entry: 0 or 1.
    shift: u32,
    /// Blocks of an entry: its 64 bytes are in the last one.
    blocks: u32,
    /// The bit of a block's number that is the owner bit.
    owner: u32,
    /// How far the device's count is ahead of positions.
    ahead: u64,
    /// What compressed completions keep, where they may occur.
    pub(crate) results: Option<Results>,
}

impl CqRing {
    /// A ring with pages of its own.
    #[cfg(test)]
    pub(crate) fn alone(log: u32, size: u32, ahead: u64) -> Result<Self, Errno> {
        Self::new(None, &PagePool::default(), log, size, ahead)
    }

    /// A ring of `1 << log` entries of `size` (64 or 128) bytes, none of them written. The device's
    /// count is `ahead` higher than positions. Its memory is from `memory`, if that is given,
    /// otherwise from `pool`.
    pub(crate) fn new(
        memory: Option<&Arc<dyn QueueMemory>>,
        pool: &PagePool,
        log: u32,
        size: u32,
        ahead: u64,
    ) -> Result<Self, Errno> {
        let blocks = size / BLOCK;
        let all = blocks.checked_shl(log).ok_or(Errno::INVAL)?;
        let bytes = all as usize * BLOCK as usize;
        let pages = pool.for_queue(memory, bytes, QueueBuffer::CompletionQueue)?;
        let shift = blocks.trailing_zeros();
        let ring = Self {
            units: Arc::new(BlockRing::new(Part::from(pages), all).ok_or(Errno::INVAL)?),
            log,
            shift,
            blocks,
            owner: log + shift,
            ahead,
            results: None,
        };
        for position in 0..1_u64 << log {
            let at = ring.first(position).wrapping_add(3);
            // With the owner bit of the pass before the first one: one bit tells that it is not
            // there.
            let tail = u64::from(opcode::INVALID) << 4 | 1;
            ring.units.set_word(at, 1, tail.to_be());
        }
        Ok(ring)
    }

    /// The same ring, in which completions may be compressed.
    pub(crate) fn compressed(self, results: Option<Results>) -> Self {
        Self { results, ..self }
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u32 {
        1 << self.log
    }

    /// Bytes of an entry.
    pub(crate) fn entry_size(&self) -> u32 {
        BLOCK << self.shift
    }

    /// The device's count for a position.
    #[inline]
    pub(crate) fn count(&self, position: u64) -> u64 {
        position.wrapping_add(self.ahead)
    }

    /// The location of the entry at `position`.
    #[inline]
    pub(crate) fn place(&self, position: u64) -> Place {
        let before = (self.count(position) as u32) << self.shift;
        Place {
            position,
            block: before.wrapping_add(self.blocks.wrapping_sub(1)),
        }
    }

    /// Reads entries from `position` on.
    pub(crate) fn reader(&self, position: u64) -> Reader {
        let place = self.place(position);
        Reader {
            blocks: BlockCursor::new(&self.units, place.block, self.shift),
            pass: Pass::new(self.owner(place)),
            position,
            ahead: self.ahead,
        }
    }

    /// Reads an entry, whether it has been written or not.
    #[inline]
    pub(crate) fn look(&self, place: Place) -> Look<'_> {
        let pass = Pass::new(self.owner(place));
        Look::new(self.units.block(place.block), pass)
    }

    /// The owner bit at a location.
    #[inline]
    pub(crate) fn owner(&self, place: Place) -> u32 {
        place.block >> self.owner & 1
    }

    /// The message in the entry at `place`, followed by zeros, and its maximum number of bytes.
    /// `None` if an entry of this format contains no message.
    #[cold]
    pub(crate) fn data(&self, place: Place, format: u32) -> Option<([u8; BLOCK as usize], u32)> {
        let (block, words) = match format {
            format::DATA_32 => (place.block, 4),
            format::DATA_64 if self.blocks == 2 => (place.block.wrapping_sub(1), 8),
            _ => return None,
        };
        let block = self.units.block(block);
        let mut bytes = [0; BLOCK as usize];
        for (at, word) in bytes.as_chunks_mut().0.iter_mut().enumerate().take(words) {
            *word = block.word(at).to_ne_bytes();
        }
        Some((bytes, words as u32 * 8))
    }

    /// The entry at `position`, if the device has written it.
    #[inline]
    pub(crate) fn look_at(&self, position: u64) -> Option<Look<'_>> {
        let look = self.look(self.place(position));
        look.is_there().then_some(look)
    }

    /// The last word of the entry at `position`, if the device has written the entry.
    #[inline]
    pub(crate) fn tail(&self, position: u64) -> Option<Tail> {
        self.look_at(position).map(|look| look.tail)
    }

    /// The same for the next entry to be taken. A compressed entry is expanded.
    pub(crate) fn settle(&self, position: u64) -> Option<Tail> {
        let tail = self.tail(position)?;
        if tail.format() == format::COMPRESSED && self.expand(position) {
            return self.tail(position);
        }
        Some(tail)
    }

    /// The timestamp of the entry at `position`, which has been written. `None` for a failure.
    pub(crate) fn stamp(&self, position: u64) -> Option<u64> {
        let [stamp, tail] = self.units.get(self.first(position).wrapping_add(3));
        let failed = [opcode::REQUEST_ERROR, opcode::RECEIVE_ERROR];
        let kind = Tail(u64::from_be(tail)).opcode();
        (!failed.contains(&kind)).then(|| u64::from_be(stamp))
    }

    /// The first unit of an entry's 64 bytes.
    pub(crate) fn first(&self, position: u64) -> u32 {
        self.place(position).block.wrapping_mul(ENTRY_UNITS)
    }

    /// Copies `other`'s entry at `position` to the same position, as if the device had written it
    /// here.
    pub(crate) fn take(&self, other: &Self, position: u64) {
        let (target, source) = (self.first(position), other.first(position));
        let copy = |from: u32, to: u32| self.units.put(to, other.units.get(from));
        if self.blocks == 2 && other.blocks == 2 {
            // The half that may contain a message.
            for before in 1..=ENTRY_UNITS {
                copy(source.wrapping_sub(before), target.wrapping_sub(before));
            }
        }
        for unit in 0..ENTRY_UNITS - 1 {
            copy(source.wrapping_add(unit), target.wrapping_add(unit));
        }
        let at = target.wrapping_add(ENTRY_UNITS - 1);
        let [first, last] = other.units.get(source.wrapping_add(ENTRY_UNITS - 1));
        let owner = self.count(position) >> self.log & 1;
        let last = u64::from_be(last) & !1 | owner;
        self.units.put(at, [first, last.to_be()]);
    }
}
