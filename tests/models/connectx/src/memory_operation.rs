//! Operations on device memory that the CPU performs by an access: each has a window of BAR0, as
//! long as the memory itself, in which a word stands for the one at the same place of the memory.
//!
//! No public document says what they do with more than one byte, and with the accesses that they
//! are not made for; here a word is as wide as the access, in the order of the CPU's bytes, and
//! those accesses do nothing.

use std::collections::BTreeSet;

use crate::device_memory::{Allocations, BAR_OFFSET, SIZE, bus_address};
use crate::memory::GuestMemory;

/// An operation, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A write adds to the word.
    Increment,
    /// A read sets the word to 1, and returns what it was.
    TestAndSet,
}

const ALL: [Operation; 2] = [Operation::Increment, Operation::TestAndSet];
/// Bits of the operations.
pub(crate) const NUMBERS: u32 = (1 << ALL.len()) - 1;
/// Widths of words: a bit for each power of 2, up to 8 bytes.
pub(crate) const WIDTHS: u32 = 0b1111;

impl Operation {
    pub(crate) fn parse(number: u32) -> Option<Self> {
        ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The place of its window that stands for a place of the memory.
    pub(crate) fn place(self, start: u64) -> u64 {
        start + SIZE * (self as u64 + 1)
    }
}

/// Which operations there are on which allocations.
#[derive(Debug, Default)]
pub(crate) struct Operations(BTreeSet<(u64, Operation)>);

impl Operations {
    /// Prepares one for an allocation; false if it is there.
    pub(crate) fn add(&mut self, start: u64, operation: Operation) -> bool {
        self.0.insert((start, operation))
    }

    /// Takes it away; false if it is not there.
    pub(crate) fn remove(&mut self, start: u64, operation: Operation) -> bool {
        self.0.remove(&(start, operation))
    }

    /// Whether an allocation has any.
    pub(crate) fn are_on(&self, start: u64) -> bool {
        self.0.iter().any(|(at, _)| *at == start)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The operation that an access of BAR0 performs, and the bus address of its word; `None` if it
    /// is not in a window, or what it stands for is not prepared.
    fn of(&self, held: &Allocations, at: u64, width: usize) -> Option<(Operation, u64)> {
        let width = width as u64;
        let inside = at.checked_sub(BAR_OFFSET + SIZE)?;
        let operation = Operation::parse(u32::try_from(inside / SIZE).ok()?)?;
        let place = BAR_OFFSET + inside % SIZE;
        let start = held.start_of(place, width)?;
        let whole = matches!(width, 1 | 2 | 4 | 8) && place.is_multiple_of(width);
        let ready = whole && self.0.contains(&(start, operation));
        ready.then_some((operation, bus_address(place)?))
    }

    /// A read of BAR0: the word as it was, and what is left of it.
    pub(crate) fn read(
        &self,
        held: &Allocations,
        memory: &dyn GuestMemory,
        at: u64,
        data: &mut [u8],
    ) {
        let found = self.of(held, at, data.len());
        let Some((Operation::TestAndSet, word)) = found else {
            return;
        };
        if memory.read(word, data).is_ok() {
            let mut set = vec![0; data.len()];
            if let Some(lowest) = set.first_mut() {
                *lowest = 1;
            }
            // It was read a moment ago.
            let _ = memory.write(word, &set);
        }
    }

    /// A write to BAR0.
    pub(crate) fn write(&self, held: &Allocations, memory: &dyn GuestMemory, at: u64, data: &[u8]) {
        let found = self.of(held, at, data.len());
        let Some((Operation::Increment, word)) = found else {
            return;
        };
        let (mut old, mut by) = ([0; 8], [0; 8]);
        let width = data.len();
        if memory.read(word, &mut old[..width]).is_ok() {
            by[..width].copy_from_slice(data);
            let sum = u64::from_le_bytes(old).wrapping_add(u64::from_le_bytes(by));
            // It was read a moment ago.
            let _ = memory.write(word, &sum.to_le_bytes()[..width]);
        }
    }
}

/// Whether an offset of BAR0 is in a window of operations.
pub(crate) fn is_window(at: u64) -> bool {
    let inside = at.checked_sub(BAR_OFFSET + SIZE);
    inside.is_some_and(|inside| inside < SIZE * ALL.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_memory::DeviceMemory;
    use crate::memory::Ram;
    use std::sync::Arc;

    #[test]
    fn words_are_counted_and_tested() {
        let memory = DeviceMemory::new(Arc::new(Ram::new(64)), 0);
        let (mut held, mut operations) = (Allocations::default(), Operations::default());
        let all = BAR_OFFSET..BAR_OFFSET + SIZE;
        let start = held.take(all, 128, 64).unwrap_or_default();
        let add = Operation::Increment.place(start + 64);
        let test = Operation::TestAndSet.place(start + 64);
        assert!(is_window(add) && is_window(test) && !is_window(start));
        operations.write(&held, &memory, add, &[5]);
        assert!(operations.add(start, Operation::Increment));
        assert!(operations.add(start, Operation::TestAndSet));
        for _ in 0..3 {
            operations.write(&held, &memory, add, &[200]);
        }
        let mut word = [0; 1];
        operations.read(&held, &memory, test, &mut word);
        assert_eq!(
            word,
            [88],
            "3 × 200 in a byte; the first write was not prepared"
        );
        operations.read(&held, &memory, test, &mut word);
        assert_eq!(word, [1]);
        operations.write(&held, &memory, add, &0x0102_0304_u32.to_le_bytes());
        let mut wide = [0; 4];
        operations.read(&held, &memory, test, &mut wide);
        assert_eq!(u32::from_le_bytes(wide), 0x0102_0305);
        // What the operations are not made for, and places that are not whole, or not held.
        operations.write(&held, &memory, test, &[7]);
        operations.write(&held, &memory, add + 1, &[7; 4]);
        operations.write(&held, &memory, add + 64, &[7]);
        word = [9];
        operations.read(&held, &memory, add, &mut word);
        assert_eq!(word, [9]);
        operations.read(&held, &memory, test, &mut wide);
        assert_eq!(wide, [1, 0, 0, 0]);
        assert!(operations.are_on(start) && operations.remove(start, Operation::Increment));
        assert!(!operations.remove(start, Operation::Increment));
        assert_eq!(operations.len(), 1);
    }
}
