//! A ring of 16-byte units in memory that a device reads or writes.
//!
//! Queues of adapters are built of 16-byte pieces, and a piece never crosses the end of a ring. So the ring counts
//! in pieces: a position is masked, every position is in range, and what is written wraps by itself.
//!
//! # Safety
//!
//! [`UnitRing`] holds these invariants from construction on:
//!
//! 1. `start` points into `pages`, which live as long as the ring, and is aligned to 16.
//! 2. The number of units is a power of two, `mask` is one less, and all units lie inside `pages`.
//!
//! Units are read and written by volatile words: the device may write at any moment, so no reference is formed.
#![allow(unsafe_code, reason = "accesses memory shared with a device")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "units are aligned to 16 when a ring is made"
)]

use std::fmt;
use std::sync::Arc;

use super::Pages;
use super::wide::Wide;

/// Bytes of a unit.
pub const UNIT: usize = 16;

/// A ring of 16-byte units.
pub struct UnitRing {
    start: *mut [u64; 2],
    mask: u32,
    pages: Arc<Pages>,
}

// SAFETY: the pointer is into `pages`, which is `Send` and `Sync`; the ring has no thread affinity.
unsafe impl Send for UnitRing {}
// SAFETY: every access is a volatile word, as `Pages` makes them.
unsafe impl Sync for UnitRing {}

impl UnitRing {
    /// The ring of `units` (a power of two) at `offset` bytes of `pages`; `None` where that does not fit.
    pub fn new(pages: Arc<Pages>, offset: usize, units: u32) -> Option<Self> {
        let bytes = usize::try_from(units).ok()?.checked_mul(UNIT)?;
        let end = offset.checked_add(bytes)?;
        let fits = units.is_power_of_two() && offset.is_multiple_of(UNIT) && end <= pages.len();
        let aligned = pages.as_ptr().addr().is_multiple_of(UNIT);
        (fits && aligned).then(|| Self {
            start: pages.as_ptr().wrapping_add(offset).cast(),
            mask: units - 1,
            pages,
        })
    }

    /// The highest position; one less than the number of units.
    #[inline]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The memory underneath.
    pub fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    /// The address of the first unit, as the device is told it.
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// Stores a unit, as it lies in memory. The position is masked.
    #[inline]
    pub fn put(&self, position: u32, unit: [u64; 2]) {
        let to = self.unit(position).cast::<u64>();
        // SAFETY: inside the ring and aligned by the invariants.
        unsafe { to.write_volatile(unit[0]) };
        // SAFETY: as above; the second half of the unit.
        unsafe { to.wrapping_add(1).write_volatile(unit[1]) };
    }

    /// Loads a unit, the second word first. The position is masked.
    ///
    /// Two accesses: the words may be of different times when the device writes meanwhile.
    #[inline]
    pub fn get(&self, position: u32) -> [u64; 2] {
        let from = self.unit(position).cast::<u64>();
        // SAFETY: inside the ring and aligned by the invariants.
        let second = unsafe { from.wrapping_add(1).read_volatile() };
        // SAFETY: as above; the first half of the unit.
        let first = unsafe { from.read_volatile() };
        [first, second]
    }

    /// Stores a unit of these bytes. The position is masked.
    #[inline]
    pub fn put_bytes(&self, position: u32, bytes: &[u8; UNIT]) {
        // SAFETY: 16 bytes that are borrowed; any alignment will do.
        let unit = unsafe { bytes.as_ptr().cast::<Wide>().read_unaligned() };
        let to = self.unit(position).cast::<Wide>();
        // SAFETY: inside the ring; units are aligned to 16 by the invariants.
        unsafe { to.write_volatile(unit) };
    }

    /// Loads one of a unit's two words (`half` is masked to 0 or 1), in one access.
    #[inline]
    pub fn word(&self, position: u32, half: u32) -> u64 {
        let from = self.unit(position).cast::<u64>();
        // SAFETY: inside the unit and aligned by the invariants.
        unsafe { from.wrapping_add((half & 1) as usize).read_volatile() }
    }

    /// Stores one of a unit's two words (`half` is masked to 0 or 1), in one access.
    #[inline]
    pub fn set_word(&self, position: u32, half: u32, word: u64) {
        let to = self.unit(position).cast::<u64>();
        // SAFETY: inside the unit and aligned by the invariants.
        unsafe { to.wrapping_add((half & 1) as usize).write_volatile(word) };
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

    #[test]
    fn positions_wrap() {
        let pages = Arc::new(Pages::new(4096).unwrap());
        let ring = UnitRing::new(Arc::clone(&pages), 1024, 64).unwrap();
        ring.put(64 + 3, [1, 2]);
        assert_eq!(ring.get(3), [1, 2]);
        assert_eq!(ring.word(3, 1), 2);
        assert_eq!(ring.word(u32::MAX, 3), 0);
        ring.set_word(63, 1, 9);
        assert_eq!(ring.get(u32::MAX), [0, 9]);
        ring.put_bytes(64 + 4, &[5; 16]);
        assert_eq!(ring.get(4), [u64::from_ne_bytes([5; 8]); 2]);
        let mut bytes = [0; 16];
        assert!(pages.copy_to(1024 + 48, &mut bytes));
        assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
    }

    #[test]
    fn rings_that_do_not_fit_are_refused() {
        let pages = Arc::new(Pages::new(4096).unwrap());
        for (offset, units) in [
            (0, 512),
            (8, 4),
            (4096, 1),
            (0, 3),
            (0, 0),
            (usize::MAX - 15, 1),
        ] {
            assert!(UnitRing::new(Arc::clone(&pages), offset, units).is_none());
        }
        assert!(UnitRing::new(pages, 0, 256).is_some());
    }
}
