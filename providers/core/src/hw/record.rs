//! Doorbell records: two words in memory from which a device reads a queue's indexes.
//!
//! A record has its own cache line. Records are allocated from pages that children do not inherit.
//!
//! # Safety
//!
//! [`Record`] has a slot of at least 32 bytes, aligned to as many, for as long as it lives. No
//! other record has it, and its two words are read and written by 4-byte atomic accesses.
#![allow(unsafe_code, reason = "stores to memory that a device reads")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "records begin at multiples of 32 in a page-aligned mapping"
)]

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PagePool;
use super::slab::{Slab, Slots};
use crate::error::Errno;

/// The allocator of records: the pages of one opened device.
///
/// The cost of allocating and freeing a record does not depend on how many there are.
#[derive(Debug)]
pub struct Records(Slab);

/// The shortest line, and what lines share.
const LEAST: usize = 32;
const PAGE: usize = 4096;

impl Records {
    /// An allocator for records of `line` bytes each, the cache line size of the machine; a power
    /// of two from 32 to 4096. Other values become 128. Their pages are from `pool`.
    pub fn new(line: usize, pool: &PagePool) -> Self {
        let fits = line.is_power_of_two() && (LEAST..=PAGE).contains(&line);
        let line = if fits { line } else { 128 };
        Self(Slab::new(line, PAGE / line, Some(pool.0.clone())))
    }

    /// Allocates a zeroed record. No system call while a page has room.
    ///
    /// # Errors
    /// ENOMEM. EPERM in a child of the process that opened the device.
    pub fn take(&self) -> Result<Record, Errno> {
        self.0.take(1).map(Record)
    }
}

/// Two big-endian words that a device reads. Dropping it frees the slot.
pub struct Record(Slots);

impl Record {
    /// Its address, as passed to the kernel.
    pub fn address(&self) -> u64 {
        self.0.start().as_ptr().expose_provenance() as u64
    }

    /// Stores a value to word 0 or 1 (`word` is masked), big-endian, by one access, ordered after
    /// earlier stores.
    #[inline]
    pub fn store(&self, word: usize, value: u32) {
        self.word(word).store(value.to_be(), Ordering::Release);
    }

    /// The value of word 0 or 1.
    pub fn load(&self, word: usize) -> u32 {
        u32::from_be(self.word(word).load(Ordering::Relaxed))
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU32 {
        let words = self.0.start().as_ptr().cast::<u32>();
        // SAFETY: one of the record's two words (see the module's safety section).
        unsafe { AtomicU32::from_ptr(words.wrapping_add(word & 1)) }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({}, {})", self.load(0), self.load(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::MAX_SLOTS;
    use super::*;

    #[test]
    fn records_have_lines_of_their_own_and_come_back() {
        let records = Records::new(64, &PagePool::default());
        let mut taken: Vec<Record> = (0..65).map(|_| records.take().unwrap()).collect();
        let mut addresses: Vec<u64> = taken.iter().map(Record::address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 65);
        assert!(addresses.iter().all(|address| address % 64 == 0));
        taken[3].store(1, 0x1234);
        assert_eq!((taken[3].load(0), taken[3].load(1)), (0, 0x1234));
        let freed = taken.remove(3).address();
        let again = records.take().unwrap();
        assert_eq!((again.address(), again.load(1)), (freed, 0));
    }

    #[test]
    fn pages_are_filled_again_and_the_list_of_them_does_not_grow() {
        for line in [32, 64, 4096] {
            let records = Records::new(line, &PagePool::default());
            let fits = (PAGE / line).min(MAX_SLOTS);
            for _ in 0..3 {
                let mut taken: Vec<Record> =
                    (0..3 * fits).map(|_| records.take().unwrap()).collect();
                assert_eq!(records.0.with_room(), 0, "three full pages");
                let mut addresses: Vec<u64> = taken.iter().map(Record::address).collect();
                // One of each page.
                taken.remove(2 * fits);
                taken.remove(fits);
                taken.remove(0);
                let full = if fits > 1 { 3 } else { 0 };
                assert_eq!(records.0.with_room(), full);
                taken.extend((0..3).map(|_| records.take().unwrap()));
                assert_eq!(records.0.with_room(), 0);
                let mut again: Vec<u64> = taken.iter().map(Record::address).collect();
                addresses.sort_unstable();
                again.sort_unstable();
                if fits > 1 {
                    assert_eq!(again, addresses);
                }
            }
            assert_eq!(records.0.with_room(), 0, "none is left");
        }
    }

    #[test]
    fn an_odd_line_becomes_128_bytes() {
        for line in [0, 3, 16, 8192] {
            let records = Records::new(line, &PagePool::default());
            let [one, two] = [records.take().unwrap(), records.take().unwrap()];
            assert_eq!(two.address() - one.address(), 128);
        }
    }
}
