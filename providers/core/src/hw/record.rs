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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Pages;
use crate::error::Errno;
use crate::sys::ForkToken;

/// The allocator of records: the pages of one opened device.
///
/// The cost of allocating and freeing a record does not depend on how many there are.
#[derive(Debug)]
pub struct Records {
    slot: usize,
    room: Arc<Room>,
}

/// The pages that have room, each of them once; a page that was freed meanwhile is removed when its
/// turn comes. Pages are added when there are none, so there are never more than there were pages.
#[derive(Debug)]
struct Room {
    /// The process that has the pages; children do not inherit them.
    process: ForkToken,
    pages: Mutex<Vec<Weak<Page>>>,
}

/// A page of records. It is freed with its last record.
#[derive(Debug)]
struct Page {
    memory: Pages,
    room: Arc<Room>,
    /// One bit per slot in use, and per slot that the page does not have. Changed with the list of
    /// pages locked.
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
            room: Arc::new(Room {
                process: ForkToken::current(),
                pages: Mutex::default(),
            }),
        }
    }

    /// Allocates a zeroed record. No system call while a page has room.
    ///
    /// # Errors
    /// ENOMEM. EPERM in a child of the process that opened the device.
    pub fn take(&self) -> Result<Record, Errno> {
        if !self.room.process.is_current() {
            return Err(Errno::PERM);
        }
        let mut pages = self.room.lock();
        while let Some(page) = pages.pop() {
            if let Some(page) = page.upgrade()
                && let Some(slot) = page.cut()
            {
                return Ok(self.record(page, slot, &mut pages));
            }
        }
        let page = Arc::new(Page {
            memory: Pages::for_device(PAGE)?,
            room: Arc::clone(&self.room),
            used: Page::unused(PAGE / self.slot),
        });
        let slot = page.cut().ok_or(Errno::NOMEM)?;
        Ok(self.record(page, slot, &mut pages))
    }

    /// The zeroed record in `slot`. The page stays in the list while it has room.
    fn record(&self, page: Arc<Page>, slot: usize, pages: &mut Vec<Weak<Page>>) -> Record {
        let at = page.memory.as_ptr().wrapping_add(slot * self.slot);
        let record = Record {
            page,
            slot,
            words: at.cast::<u32>(),
        };
        record.store(0, 0);
        record.store(1, 0);
        if !record.page.is_full() {
            pages.push(Arc::downgrade(&record.page));
        }
        record
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Page>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page {
    /// The bits of a page with `slots` slots, none of them in use.
    fn unused(slots: usize) -> [AtomicU64; MAX_SLOTS / 64] {
        std::array::from_fn(|word| {
            let here = slots.saturating_sub(64 * word).min(64);
            AtomicU64::new(if here < 64 { u64::MAX << here } else { 0 })
        })
    }

    /// Takes a slot, if there is one.
    fn cut(&self) -> Option<usize> {
        self.used.iter().enumerate().find_map(|(at, word)| {
            let used = word.load(Ordering::Relaxed);
            let bit = used.trailing_ones();
            (bit < 64).then(|| {
                word.store(used | 1 << bit, Ordering::Relaxed);
                64 * at + bit as usize
            })
        })
    }

    fn is_full(&self) -> bool {
        let mut words = self.used.iter();
        words.all(|word| word.load(Ordering::Relaxed) == u64::MAX)
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
        let room = &self.page.room;
        // A child does not have the page, and maybe another thread had the lock when it was forked.
        if !room.process.is_current() {
            return;
        }
        let mut pages = room.lock();
        if self.page.is_full() {
            pages.push(Arc::downgrade(&self.page));
        }
        let bit = 1 << (self.slot % 64);
        self.page.used[self.slot / 64].fetch_and(!bit, Ordering::Relaxed);
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
    fn pages_are_filled_again_and_the_list_of_them_does_not_grow() {
        for line in [32, 64, 4096] {
            let records = Records::new(line);
            let fits = PAGE / line;
            for _ in 0..3 {
                let mut taken: Vec<Record> =
                    (0..3 * fits).map(|_| records.take().unwrap()).collect();
                assert!(records.room.lock().is_empty(), "three full pages");
                let mut addresses: Vec<u64> = taken.iter().map(Record::address).collect();
                // One of each page.
                taken.remove(2 * fits);
                taken.remove(fits);
                taken.remove(0);
                assert_eq!(records.room.lock().len(), 3);
                taken.extend((0..3).map(|_| records.take().unwrap()));
                assert!(records.room.lock().is_empty());
                let mut again: Vec<u64> = taken.iter().map(Record::address).collect();
                addresses.sort_unstable();
                again.sort_unstable();
                if fits > 1 {
                    assert_eq!(again, addresses);
                }
            }
            assert!(records.room.lock().len() <= 3);
        }
    }

    #[test]
    fn no_slot_is_taken_twice_by_threads() {
        let records = Records::new(64);
        std::thread::scope(|scope| {
            for thread in 1..=4_u32 {
                let records = &records;
                scope.spawn(move || {
                    for round in 0..if cfg!(miri) { 3 } else { 200 } {
                        let taken: Vec<Record> = (0..40).map(|_| records.take().unwrap()).collect();
                        let mark = thread << 16 | round;
                        for record in &taken {
                            assert_eq!((record.load(0), record.load(1)), (0, 0));
                            record.store(0, mark);
                        }
                        assert!(taken.iter().all(|record| record.load(0) == mark));
                    }
                });
            }
        });
        assert!(
            records
                .room
                .lock()
                .iter()
                .all(|page| page.strong_count() == 0)
        );
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
