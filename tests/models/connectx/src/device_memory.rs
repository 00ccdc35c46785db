//! Memory on the device itself (MEMIC): the CPU reaches it through BAR0, queues through keys of
//! their own kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::memory::{BusError, GuestMemory, Ram};
use crate::steering_memory;

/// Offset of this memory in BAR0, behind the doorbell pages.
pub(crate) const BAR_OFFSET: u64 = 16 << 20;
/// Its size; a driver keeps a map of at most 256 pages.
pub(crate) const SIZE: u64 = 256 << 10;
/// Its bus address for queues: one that no guest's memory has.
const BUS: u64 = 1 << 62;

/// An address with nothing behind it: writes are lost, and reads return zeros.
pub(crate) const NOWHERE: u64 = 1 << 61;

/// The bus address of memory for steering.
const STEERING: u64 = 1 << 60;

/// The contents of the device memory.
#[derive(Debug)]
struct Nothing;

impl GuestMemory for Nothing {
    fn read(&self, _: u64, data: &mut [u8]) -> Result<(), BusError> {
        data.fill(0);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), BusError> {
        Ok(())
    }

    fn publish(&self, _: u64, _: u8) -> Result<(), BusError> {
        Ok(())
    }

    fn update(&self, _: u64, _: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError> {
        Ok(0)
    }
}

/// The bus as a function sees it: the guest's memory and the function's own.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    guest: Arc<dyn GuestMemory>,
    own: Ram,
    steering: Ram,
}

impl DeviceMemory {
    /// With this many bytes of memory for steering.
    pub(crate) fn new(guest: Arc<dyn GuestMemory>, steering: u64) -> Self {
        Self {
            guest,
            own: Ram::new(SIZE as usize),
            steering: Ram::new(steering as usize),
        }
    }

    /// Which memory an address belongs to, and the address within it.
    fn at(&self, address: u64) -> (&dyn GuestMemory, u64) {
        match address.checked_sub(BUS) {
            Some(offset) => (&self.own, offset),
            None if address >= NOWHERE => (&Nothing, address),
            None if address >= STEERING => (&self.steering, address - STEERING),
            None => (&*self.guest, address),
        }
    }
}

impl GuestMemory for DeviceMemory {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BusError> {
        let (memory, at) = self.at(address);
        memory.read(at, data)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let (memory, at) = self.at(address);
        memory.write(at, data)
    }

    fn publish(&self, address: u64, byte: u8) -> Result<(), BusError> {
        let (memory, at) = self.at(address);
        memory.publish(at, byte)
    }

    fn update(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError> {
        let (memory, at) = self.at(address);
        memory.update(at, change)
    }
}

/// The bus address for an offset in BAR0, if that is in device memory.
pub(crate) fn bus_address(bar_offset: u64) -> Option<u64> {
    bar_offset
        .checked_sub(BAR_OFFSET)
        .filter(|offset| *offset < SIZE)
        .map(|offset| BUS + offset)
}

/// The bus address for an address of memory for steering.
pub(crate) fn steering_bus_address(address: u64) -> Option<u64> {
    steering_memory::offset(address).map(|offset| STEERING + offset)
}

/// The allocations: start in BAR0, and length.
#[derive(Debug, Default)]
pub(crate) struct Allocations(BTreeMap<u64, u64>);

impl Allocations {
    /// Allocates `length` bytes at the first aligned place within a range of BAR0; `None` if there
    /// is none.
    pub(crate) fn take(
        &mut self,
        range: std::ops::Range<u64>,
        length: u64,
        align: u64,
    ) -> Option<u64> {
        let start = range.start.max(BAR_OFFSET).next_multiple_of(align);
        let end = start.checked_add(length)?;
        let free = self
            .0
            .iter()
            .all(|(at, held)| end <= *at || at + held <= start);
        (free && length != 0 && end <= range.end.min(BAR_OFFSET + SIZE)).then(|| {
            self.0.insert(start, length);
            start
        })
    }

    /// Frees an allocation.
    pub(crate) fn release(&mut self, start: u64, length: u64) -> bool {
        let known = self.0.get(&start) == Some(&length);
        known && self.0.remove(&start).is_some()
    }

    /// Whether the whole range lies in one allocation.
    pub(crate) fn hold(&self, start: u64, length: u64) -> bool {
        self.start_of(start, length).is_some()
    }

    /// Where the allocation starts that a whole range lies in.
    pub(crate) fn start_of(&self, start: u64, length: u64) -> Option<u64> {
        let (at, held) = self.0.range(..=start).next_back()?;
        let end = start.checked_add(length)?;
        (end <= at + held).then_some(*at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocations, BAR_OFFSET, DeviceMemory, NOWHERE, SIZE, bus_address};
    use crate::memory::{GuestMemory, Ram};
    use std::sync::Arc;

    #[test]
    fn both_memories_are_on_one_bus() {
        let memory = DeviceMemory::new(Arc::new(Ram::new(64)), 4096);
        let at = bus_address(BAR_OFFSET + 8).unwrap_or_default();
        assert_eq!(memory.write(at, &[7; 8]), Ok(()));
        assert_eq!(memory.write(8, &[9; 8]), Ok(()));
        let mut data = [0; 8];
        assert_eq!(memory.read(at, &mut data), Ok(()));
        assert_eq!(data, [7; 8]);
        assert_eq!(memory.write(NOWHERE, &[7; 8]), Ok(()));
        assert_eq!(memory.read(NOWHERE + 4, &mut data), Ok(()));
        assert_eq!(data, [0; 8]);
        assert_eq!(bus_address(BAR_OFFSET + SIZE), None);
        assert!(
            memory
                .read(
                    bus_address(BAR_OFFSET + SIZE - 1).unwrap_or_default(),
                    &mut data
                )
                .is_err()
        );
    }

    #[test]
    fn allocations_do_not_overlap_and_are_known() {
        let mut held = Allocations::default();
        let all = BAR_OFFSET..BAR_OFFSET + SIZE;
        assert_eq!(held.take(all.clone(), 64, 64), Some(BAR_OFFSET));
        assert_eq!(held.take(all.clone(), 64, 64), None);
        let next = BAR_OFFSET + 4096..BAR_OFFSET + 8192;
        assert_eq!(held.take(next, 128, 64), Some(BAR_OFFSET + 4096));
        assert!(held.hold(BAR_OFFSET + 4100, 4));
        assert!(!held.hold(BAR_OFFSET + 60, 8));
        assert!(!held.release(BAR_OFFSET, 128));
        assert!(held.release(BAR_OFFSET, 64));
        assert_eq!(held.len(), 1);
    }
}
