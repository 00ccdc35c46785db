//! The ring of a completion queue: entries of 64 or 128 bytes that the device writes in order.
//!
//! An entry is there when its owner bit says that it was written in this turn around the ring. Positions are counted
//! on and on in 64 bits, so the bit that is expected is a bit of the position. A resize takes an entry of its own,
//! which is no completion: the device counts one more from then on, positions do not.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions wrap around the ring, and the owner is one bit of them"
)]

use std::sync::Arc;

use uverbs_driver::error::Errno;
use uverbs_driver::hw::{Pages, UnitRing};

use crate::cqe::{Tail, format, opcode};

/// Units of 16 bytes in the part of an entry that means something.
const ENTRY_UNITS: u32 = 4;

/// An entry that was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The first unit of its 64 bytes.
    pub(crate) first: u32,
    pub(crate) tail: Tail,
    /// The lowest bit is the owner bit of this turn around the ring.
    owner: u32,
}

impl Look {
    /// Whether the device has written it.
    #[inline]
    pub(crate) fn is_there(self) -> bool {
        self.tail.owner() == self.owner & 1 && self.tail.opcode() != opcode::INVALID
    }

    /// Whether the device has written it, and it says that a request was carried out and has no special format.
    #[inline]
    pub(crate) fn is_plain_request(self) -> bool {
        // Opcode, format and owner at once; the bit between is whether it was solicited.
        const PLAIN: u32 = opcode::REQUEST << 4 | format::PLAIN << 2;
        (self.tail.0 as u32 ^ PLAIN ^ self.owner & 1) & 0xfd == 0
    }
}

/// A ring of completions.
#[derive(Debug)]
pub(crate) struct CqRing {
    pub(crate) units: UnitRing,
    /// log₂ of the entries.
    log: u32,
    /// log₂ of the units of an entry: 2 or 3.
    shift: u32,
    /// Units before the 64 bytes of an entry.
    skip: u32,
    /// How far the device's count is ahead of positions.
    ahead: u64,
}

impl CqRing {
    /// A ring of `1 << log` entries of `size` (64 or 128) bytes, none of them written. The device counts `ahead` more.
    pub(crate) fn new(log: u32, size: u32, ahead: u64) -> Result<Self, Errno> {
        let units = (size / 16).checked_shl(log).ok_or(Errno::INVAL)?;
        let pages = Arc::new(Pages::for_device(units as usize * 16)?);
        let ring = Self {
            units: UnitRing::new(pages, 0, units).ok_or(Errno::INVAL)?,
            log,
            shift: (size / 16).trailing_zeros(),
            skip: size / 16 - ENTRY_UNITS,
            ahead,
        };
        for position in 0..1_u64 << log {
            let at = ring.first(position).wrapping_add(3);
            let tail = u64::from(opcode::INVALID) << 4;
            ring.units.set_word(at, 1, tail.to_be());
        }
        Ok(ring)
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> u32 {
        1 << self.log
    }

    /// Bytes of an entry.
    pub(crate) fn entry_size(&self) -> u32 {
        16 << self.shift
    }

    /// What the device calls a position.
    #[inline]
    pub(crate) fn count(&self, position: u64) -> u64 {
        position.wrapping_add(self.ahead)
    }

    /// The first unit of an entry's 64 bytes.
    #[inline]
    pub(crate) fn first(&self, position: u64) -> u32 {
        ((self.count(position) as u32) << self.shift).wrapping_add(self.skip)
    }

    /// Looks at the entry at `position`, whether it is there or not.
    #[inline]
    pub(crate) fn look(&self, position: u64) -> Look {
        let count = self.count(position);
        let first = ((count as u32) << self.shift).wrapping_add(self.skip);
        let tail = Tail(u64::from_be(self.units.word(first.wrapping_add(3), 1)));
        Look {
            first,
            tail,
            owner: (count >> self.log) as u32,
        }
    }

    /// The last word of the entry at `position`, if the device has written the entry.
    #[inline]
    pub(crate) fn tail(&self, position: u64) -> Option<Tail> {
        let look = self.look(position);
        look.is_there().then_some(look.tail)
    }

    /// When the entry at `position`, which is there, was written. `None` for a failure.
    pub(crate) fn stamp(&self, position: u64) -> Option<u64> {
        let [stamp, tail] = self.units.get(self.first(position).wrapping_add(3));
        let failed = [opcode::REQUEST_ERROR, opcode::RECEIVE_ERROR];
        let kind = Tail(u64::from_be(tail)).opcode();
        (!failed.contains(&kind)).then(|| u64::from_be(stamp))
    }

    /// Puts `other`'s entry at `position` at the same position, as if the device had written it here.
    pub(crate) fn take(&self, other: &Self, position: u64) {
        let (target, source) = (self.first(position), other.first(position));
        for unit in 0..ENTRY_UNITS - 1 {
            self.units.put(
                target.wrapping_add(unit),
                other.units.get(source.wrapping_add(unit)),
            );
        }
        let at = target.wrapping_add(ENTRY_UNITS - 1);
        let [first, last] = other.units.get(source.wrapping_add(ENTRY_UNITS - 1));
        let owner = self.count(position) >> self.log & 1;
        let last = u64::from_be(last) & !1 | owner;
        self.units.put(at, [first, last.to_be()]);
    }
}
