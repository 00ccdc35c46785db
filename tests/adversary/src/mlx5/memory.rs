//! This process's memory, as a device accesses it.
//!
//! # Safety
//!
//! Only ranges are accessed that the library named in a command: registered memory, queues and
//! records. A caller that names memory promises that it stays valid until the kernel confirmed that
//! the object is gone, and with that confirmation it is forgotten here. No reference is formed;
//! words are accessed by atomics as wide as the chunks they are cut to.
#![allow(unsafe_code, reason = "plays the device: reads and writes memory")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use connectx::{BusError, GuestMemory};

/// A range: its start address and its length in bytes.
pub(super) type Range = (u64, u64);

/// The ranges that the library has named.
#[derive(Debug, Default)]
pub(super) struct Process(RwLock<BTreeMap<Range, usize>>);

impl Process {
    fn ranges(&self) -> RwLockReadGuard<'_, BTreeMap<Range, usize>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the device access a range; it may be named several times.
    pub(super) fn name(&self, range: Range) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *ranges.entry(range).or_default() += 1;
    }

    /// Revokes one naming of a range.
    pub(super) fn forget(&self, range: Range) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = ranges.get_mut(&range) {
            *count -= 1;
            if *count == 0 {
                ranges.remove(&range);
            }
        }
    }

    /// Accesses bytes that all lie in one range.
    fn with(
        &self,
        address: u64,
        length: usize,
        mut access: impl FnMut(usize),
    ) -> Result<(), BusError> {
        let ranges = self.ranges();
        let end = address.checked_add(length as u64);
        // Ranges overlap only if they were named twice; records are the shortest, and near each
        // other.
        let named = ranges
            .range(..=(address, u64::MAX))
            .rev()
            .take(4)
            .any(|((start, bytes), _)| end.is_some_and(|end| end <= start + bytes));
        match usize::try_from(address) {
            Ok(address) if named => {
                access(address);
                Ok(())
            }
            _ => Err(BusError { address, length }),
        }
    }
}

fn byte(address: usize) -> &'static AtomicU8 {
    let place = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the caller has the list of named ranges locked, and the byte is in one of them.
    unsafe { AtomicU8::from_ptr(place) }
}

fn word(address: usize) -> &'static AtomicU64 {
    let place = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: as above, for eight bytes that begin at a multiple of eight.
    unsafe { AtomicU64::from_ptr(place) }
}

/// The bytes at `address`, split at multiples of eight: the offset of each chunk from the start,
/// and its length.
fn ranges(address: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        let start = at;
        let whole = (address + at).is_multiple_of(8) && length - at >= 8;
        at += if whole { 8 } else { 1 };
        Some((start, at - start))
    })
}

impl GuestMemory for Process {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BusError> {
        self.with(address, data.len(), |address| {
            for (at, len) in ranges(address, data.len()) {
                let from = address + at;
                match len {
                    8 => data[at..at + 8]
                        .copy_from_slice(&word(from).load(Ordering::Acquire).to_ne_bytes()),
                    _ => data[at] = byte(from).load(Ordering::Acquire),
                }
            }
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), BusError> {
        self.with(address, data.len(), |address| {
            for (at, len) in ranges(address, data.len()) {
                let to = address + at;
                match data[at..at + len].first_chunk() {
                    Some(bytes) => word(to).store(u64::from_ne_bytes(*bytes), Ordering::Release),
                    None => byte(to).store(data[at], Ordering::Release),
                }
            }
        })
    }

    fn publish(&self, address: u64, value: u8) -> Result<(), BusError> {
        self.with(address, 1, |address| {
            byte(address).store(value, Ordering::Release);
        })
    }

    fn update(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError> {
        if !address.is_multiple_of(8) {
            return Err(BusError { address, length: 8 });
        }
        let mut old = 0;
        self.with(address, 8, |address| {
            let update = |old| Some(change(old));
            old = match word(address).fetch_update(Ordering::SeqCst, Ordering::SeqCst, update) {
                Ok(old) | Err(old) => old,
            };
        })?;
        Ok(old)
    }
}
