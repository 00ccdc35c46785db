//! Doorbell records: two words in memory from which a device reads a queue's indexes.
//!
//! A record has its own cache line. Records are allocated from pages that children do not inherit.
//!
//! # Safety
//!
//! [`Record`] holds a pointer to its two 4-byte words: inside `page`, which lives as long as the
//! record, and aligned to 8. No other record has its slot, and words are read and written by 4-byte
//! atomic accesses.
#![allow(unsafe_code, reason = "stores to memory that a device reads")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "records begin at multiples of 32 in a page-aligned mapping"
)]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Pages;
use crate::error::Errno;
use crate::sys::ForkToken;

/// The allocator of records: the pages of one opened device.
#[derive(Debug)]
pub struct Records {
    slot: usize,
    /// The process that has the pages; children do not inherit them.
    process: ForkToken,
    pages: Mutex<Vec<Weak<Page>>>,
}

/// A page of records. It is freed with its last record.
#[derive(Debug)]
struct Page {
    memory: Pages,
    /// One bit per slot in use.
    used: [AtomicU64; MAX_SLOTS / 64],
}

/// The most records of a page: 4096 bytes in lines of 32.
const MAX_SLOTS: usize = 128;
const PAGE: usize = 4096;

impl Records {
    /// An allocator for records of `line` bytes each, the cache line size of the machine; a power
    /// of two from 32 to 4096. Other values become 128.
    pub fn new(line: usize) -> Self {
        let fits = line.is_power_of_two() && (PAGE / MAX_SLOTS..=PAGE).contains(&line);
        Self {
            slot: if fits { line } else { 128 },
            process: ForkToken::current(),
            pages: Mutex::new(Vec::new()),
        }
    }

    /// Allocates a zeroed record. No system call while a page has room.
    ///
    /// # Errors
    /// ENOMEM. EPERM in a child of the process that opened the device.
    pub fn take(&self) -> Result<Record, Errno> {
        if !self.process.is_current() {
            return Err(Errno::PERM);
        }
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.iter() {
            if let Some(page) = page.upgrade()
                && let Some(record) = self.cut(&page)
            {
                return Ok(record);
            }
        }
        let page = Arc::new(Page {
            memory: Pages::for_device(PAGE)?,
            used: [const { AtomicU64::new(0) }; MAX_SLOTS / 64],
        });
        pages.retain(|page| page.strong_count() > 0);
        pages.push(Arc::downgrade(&page));
        self.cut(&page).ok_or(Errno::NOMEM)
    }

    fn cut(&self, page: &Arc<Page>) -> Option<Record> {
        let slot = (0..PAGE / self.slot).find(|slot| {
            let bit = 1 << (slot % 64);
            page.used[slot / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0
        })?;
        let record = Record {
            page: Arc::clone(page),
            slot,
            words: page
                .memory
                .as_ptr()
                .wrapping_add(slot * self.slot)
                .cast::<u32>(),
        };
        record.store(0, 0);
        record.store(1, 0);
        Some(record)
    }
}

/// Two big-endian words that a device reads. Dropping it frees the slot.
pub struct Record {
    page: Arc<Page>,
    slot: usize,
    words: *mut u32,
}

// SAFETY: the pointer is into `page`, which is `Send` and `Sync`; a record has no thread affinity.
unsafe impl Send for Record {}
// SAFETY: every access is atomic.
unsafe impl Sync for Record {}

impl Record {
    /// Its address, as passed to the kernel.
    pub fn address(&self) -> u64 {
        self.words.expose_provenance() as u64
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
        // SAFETY: one of the record's two words (see the module's safety section).
        unsafe { AtomicU32::from_ptr(self.words.wrapping_add(word & 1)) }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let bit = 1 << (self.slot % 64);
        self.page.used[self.slot / 64].fetch_and(!bit, Ordering::AcqRel);
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({}, {})", self.load(0), self.load(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_lines_of_their_own_and_come_back() {
        let records = Records::new(64);
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
    fn an_odd_line_becomes_128_bytes() {
        for line in [0, 3, 16, 8192] {
            let records = Records::new(line);
            let [one, two] = [records.take().unwrap(), records.take().unwrap()];
            assert_eq!(two.address() - one.address(), 128);
        }
    }
}
