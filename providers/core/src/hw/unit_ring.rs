//! A ring of 16-byte units, in memory that a device reads or writes.
//!
//! Queues of adapters consist of 16-byte units, and a unit never crosses the end of a ring. So the
//! ring is addressed in units: a position is masked, so every position is in range, and what is
//! written wraps around.
//!
//! # Safety
//!
//! [`UnitRing`] holds these invariants from construction on:
//!
//! 1. `start` points to the first byte of a [`Part`], whose pages `kept` keeps mapped, and is
//!    aligned to 16.
//! 2. The number of units is a power of two, `mask` is one less, and all units are inside the part.
//! 3. The ring owns the part, so it is accessed only through the ring, or through the second handle
//!    if there are two ([`UnitRing::shared`]); through `&self` only as atomic 8-byte words. If
//!    another type has the only handle of a ring ([`BlockRing`](super::BlockRing)), it remains the
//!    only one: a second handle cannot be obtained from a reference.
#![allow(unsafe_code, reason = "accesses memory shared with a device")]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wide::{self, Wide};
use super::{KeepMapped, Part};

/// Bytes of a unit.
pub const UNIT: usize = 16;

/// A ring of 16-byte units.
pub struct UnitRing {
    start: *mut [u64; 2],
    mask: u32,
    kept: KeepMapped,
}

// SAFETY: the pointer is into pages that are kept mapped; the ring has no thread affinity.
unsafe impl Send for UnitRing {}
// SAFETY: `&self` makes only atomic accesses of words, by invariant 3.
unsafe impl Sync for UnitRing {}

impl UnitRing {
    /// A ring of `units` (a power of two) units at the start of `part`; `None` if the part is
    /// smaller, or not aligned to a unit.
    pub fn new(part: Part, units: u32) -> Option<Self> {
        let bytes = usize::try_from(units).ok()?.checked_mul(UNIT)?;
        let fits = units.is_power_of_two() && bytes <= part.len();
        let start = part.start();
        (fits && start.addr().is_multiple_of(UNIT)).then(|| Self {
            start: start.cast(),
            mask: units - 1,
            kept: part.into_keep_mapped(),
        })
    }

    /// Turns it into two handles of the same ring.
    pub fn shared(self) -> [Self; 2] {
        let other = Self {
            start: self.start,
            mask: self.mask,
            kept: self.kept.clone(),
        };
        [self, other]
    }

    /// The highest position; one less than the number of units.
    #[inline]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// A value that keeps its memory mapped, to hold until the kernel has confirmed that it is no
    /// longer used.
    pub fn keep_mapped(&self) -> KeepMapped {
        self.kept.clone()
    }

    /// The address of the first unit, as passed to the device.
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// Stores a unit, in memory order, as two words. The position is masked.
    #[inline]
    pub fn put(&self, position: u32, unit: [u64; 2]) {
        self.word_at(position, 0).store(unit[0], Ordering::Relaxed);
        self.word_at(position, 1).store(unit[1], Ordering::Relaxed);
    }

    /// Loads a unit, the second word first. The position is masked.
    ///
    /// These are two accesses: if others write meanwhile, the words may be from different times.
    #[inline]
    pub fn get(&self, position: u32) -> [u64; 2] {
        let second = self.word_at(position, 1).load(Ordering::Relaxed);
        let first = self.word_at(position, 0).load(Ordering::Relaxed);
        [first, second]
    }

    /// Stores a unit of these bytes, as two words. The position is masked.
    #[inline]
    pub fn put_bytes(&self, position: u32, bytes: &[u8; UNIT]) {
        // SAFETY: 16 borrowed bytes; no alignment is required, and any bytes are a valid value.
        let unit = unsafe { bytes.as_ptr().cast::<Wide>().read_unaligned() };
        let to = self.unit(position).cast::<u64>();
        // SAFETY: inside the ring and aligned by the invariants.
        unsafe { wide::store_words(to, unit) };
    }

    /// Loads one of a unit's two words (`half` is masked to 0 or 1), by one access.
    #[inline]
    pub fn word(&self, position: u32, half: u32) -> u64 {
        self.word_at(position, half).load(Ordering::Relaxed)
    }

    /// Stores one of a unit's two words (`half` is masked to 0 or 1), by one access.
    #[inline]
    pub fn set_word(&self, position: u32, half: u32, word: u64) {
        self.word_at(position, half).store(word, Ordering::Relaxed);
    }

    #[inline]
    fn word_at(&self, position: u32, half: u32) -> &AtomicU64 {
        let unit = self.unit(position).cast::<u64>();
        // SAFETY: inside the ring and aligned by the invariants.
        unsafe { AtomicU64::from_ptr(unit.wrapping_add((half & 1) as usize)) }
    }

    /// The first unit.
    #[inline]
    pub(super) fn start(&self) -> *mut [u64; 2] {
        self.start
    }

    #[inline]
    fn unit(&self, position: u32) -> *mut [u64; 2] {
        self.start.wrapping_add((position & self.mask) as usize)
    }
}

impl fmt::Debug for UnitRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnitRing({} units)", self.mask.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::Pages;

    fn ring(at: usize, units: u32) -> Option<UnitRing> {
        let (_, part) = Part::from(Pages::new(4096).unwrap()).split(at)?;
        UnitRing::new(part, units)
    }

    #[test]
    fn positions_wrap() {
        let ring = ring(1024, 64).unwrap();
        ring.put(64 + 3, [1, 2]);
        assert_eq!(ring.get(3), [1, 2]);
        assert_eq!(ring.word(3, 1), 2);
        assert_eq!(ring.word(u32::MAX, 3), 0);
        ring.set_word(63, 1, 9);
        assert_eq!(ring.get(u32::MAX), [0, 9]);
        ring.put_bytes(64 + 4, &[5; 16]);
        assert_eq!(ring.get(4), [u64::from_ne_bytes([5; 8]); 2]);
        assert_eq!(ring.address() % 4096, 1024);
    }

    #[test]
    fn two_handles_are_of_one_ring() {
        let [one, other] = ring(0, 4).unwrap().shared();
        one.put(2, [7, 8]);
        drop(one);
        assert_eq!(other.get(2), [7, 8]);
    }

    #[test]
    fn rings_that_do_not_fit_are_refused() {
        for (at, units) in [
            (0, 512),
            (8, 4),
            (4096, 1),
            (0, 3),
            (0, 0),
            (2048, 256),
            (0, 1 << 31),
        ] {
            assert!(ring(at, units).is_none());
        }
        assert!(ring(0, 256).is_some());
    }
}
