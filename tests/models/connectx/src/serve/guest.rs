//! Guest RAM that QEMU passes as file descriptors.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::memory::{BusError, GuestMemory};

/// Called for one run of bytes: the region, the offset in it, and the part of the request it
/// covers.
type Access<'a> = dyn FnMut(&MmapRegion, usize, std::ops::Range<usize>) -> Option<()> + 'a;

/// Mapped ranges of guest RAM by bus address.
#[derive(Debug, Default)]
pub(crate) struct MappedMemory(RwLock<BTreeMap<u64, MmapRegion>>);

impl MappedMemory {
    /// Maps `size` bytes of `file` from `offset` on at a bus address.
    pub(crate) fn map(
        &self,
        address: u64,
        size: u64,
        file: File,
        offset: u64,
    ) -> std::io::Result<()> {
        let size = usize::try_from(size).map_err(std::io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::new(file, offset), size)
            .map_err(std::io::Error::other)?;
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(address, region);
        Ok(())
    }

    /// Unmaps every range inside the given one.
    pub(crate) fn unmap(&self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|start, region| {
                *start < address || start.saturating_add(region.size() as u64) > end
            });
    }

    /// Unmaps everything.
    pub(crate) fn clear(&self) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Calls `access` for each run of mapped bytes with the range of the request it covers.
    fn each(&self, address: u64, length: usize, access: &mut Access<'_>) -> Result<(), BusError> {
        let lost = BusError { address, length };
        let regions = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < length {
            let at = address.checked_add(done as u64).ok_or(lost)?;
            let (start, region) = regions.range(..=at).next_back().ok_or(lost)?;
            let within = usize::try_from(at - start).map_err(|_| lost)?;
            let run = region
                .size()
                .checked_sub(within)
                .filter(|left| *left > 0)
                .ok_or(lost)?
                .min(length - done);
            access(region, within, done..done + run).ok_or(lost)?;
            done += run;
        }
        Ok(())
    }
}

impl GuestMemory for MappedMemory {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BusError> {
        self.each(address, data.len(), &mut |region, at, part| {
            region
                .as_volatile_slice()
                .read_slice(&mut data[part], at)
                .ok()
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), BusError> {
        self.each(address, data.len(), &mut |region, at, part| {
            region.as_volatile_slice().write_slice(&data[part], at).ok()
        })
    }

    fn publish(&self, address: u64, byte: u8) -> Result<(), BusError> {
        self.each(address, 1, &mut |region, at, _| {
            region
                .as_volatile_slice()
                .store(byte, at, Ordering::Release)
                .ok()
        })
    }

    fn update(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError> {
        if !address.is_multiple_of(8) {
            return Err(BusError { address, length: 8 });
        }
        let mut old = 0;
        self.each(address, 8, &mut |region, at, _| {
            let slice = region.as_volatile_slice();
            let word = slice.get_atomic_ref::<AtomicU64>(at).ok()?;
            // The closure always returns a value, so the update cannot fail.
            old = word
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |value| {
                    Some(change(value))
                })
                .ok()?;
            Some(())
        })?;
        Ok(old)
    }
}
