//! Guest memory as the device sees it through DMA.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A DMA access to an address with no memory behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no guest memory at {address:#x} for {length} bytes")]
pub struct BusError {
    /// First address of the access.
    pub address: u64,
    /// Length of the access in bytes.
    pub length: usize,
}

/// Memory that a function reads and writes by guest-physical (bus) address.
///
/// Accesses of at most eight naturally aligned bytes are single-copy atomic with respect to the
/// guest's CPUs.
pub trait GuestMemory: Send + Sync + Debug {
    /// Reads `data.len()` bytes.
    ///
    /// # Errors
    /// [`BusError`] if any byte is not backed by memory; `data` is then unspecified.
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BusError>;

    /// Writes `data`.
    ///
    /// # Errors
    /// [`BusError`] if any byte is not backed by memory; some bytes may have been written.
    fn write(&self, address: u64, data: &[u8]) -> Result<(), BusError>;

    /// Stores one byte such that all earlier writes are visible to any reader that sees it.
    ///
    /// # Errors
    /// [`BusError`] if the byte is not backed by memory.
    fn publish(&self, address: u64, byte: u8) -> Result<(), BusError>;

    /// Atomically replaces the native-endian 64-bit word at an aligned `address` by the result of
    /// `change`, and returns the old word. `change` may be called more than once.
    ///
    /// # Errors
    /// [`BusError`] if the word is not backed by memory or not aligned to 8 bytes.
    fn update(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError>;
}

/// Plain memory from address 0 on, for tests and fuzzing without a virtual machine.
#[derive(Debug)]
pub struct Ram(Mutex<Vec<u8>>);

impl Ram {
    /// Zeroed memory of `size` bytes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self(Mutex::new(vec![0; size]))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range(address: u64, length: usize, size: usize) -> Result<std::ops::Range<usize>, BusError> {
    usize::try_from(address)
        .ok()
        .and_then(|start| Some(start..start.checked_add(length)?))
        .filter(|range| range.end <= size)
        .ok_or(BusError { address, length })
}

impl GuestMemory for Ram {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BusError> {
        let bytes = self.bytes();
        data.copy_from_slice(&bytes[range(address, data.len(), bytes.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let mut bytes = self.bytes();
        let range = range(address, data.len(), bytes.len())?;
        bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn publish(&self, address: u64, byte: u8) -> Result<(), BusError> {
        self.write(address, &[byte])
    }

    fn update(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, BusError> {
        if !address.is_multiple_of(8) {
            return Err(BusError { address, length: 8 });
        }
        let mut bytes = self.bytes();
        let range = range(address, 8, bytes.len())?;
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[range.clone()]);
        let old = u64::from_ne_bytes(word);
        bytes[range].copy_from_slice(&change(old).to_ne_bytes());
        Ok(old)
    }
}

/// Where a function raises its MSI-X vectors.
pub trait Interrupts: Send + Sync + Debug {
    /// Raises `vector`; a vector without a listener is lost, as in hardware.
    fn raise(&self, vector: u32);
}

/// Interrupts without a listener, counted per vector.
#[derive(Debug, Default)]
pub struct Counted(Mutex<std::collections::BTreeMap<u32, u64>>);

impl Counted {
    /// How often `vector` was raised.
    #[must_use]
    pub fn raised(&self, vector: u32) -> u64 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&vector)
            .copied()
            .unwrap_or(0)
    }
}

impl Interrupts for Counted {
    fn raise(&self, vector: u32) {
        *self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(vector)
            .or_insert(0) += 1;
    }
}

/// A range of guest-physical bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) address: u64,
    pub(crate) length: u64,
}

/// Appends a span, joining it to the last one where they touch.
pub(crate) fn push_span(spans: &mut Vec<Span>, address: u64, length: u64) {
    if length == 0 {
        return;
    }
    if let Some(last) = spans.last_mut()
        && last.address.checked_add(last.length) == Some(address)
    {
        last.length += length;
        return;
    }
    spans.push(Span { address, length });
}

/// The total length of `spans`.
pub(crate) fn total(spans: &[Span]) -> u64 {
    spans
        .iter()
        .fold(0, |sum, span| sum.saturating_add(span.length))
}

/// The `length` bytes of `spans` from `offset` on.
pub(crate) fn slice(spans: &[Span], mut offset: u64, mut length: u64) -> Vec<Span> {
    let mut out = Vec::new();
    for span in spans {
        if length == 0 {
            break;
        }
        if offset >= span.length {
            offset -= span.length;
            continue;
        }
        let take = (span.length - offset).min(length);
        push_span(&mut out, span.address + offset, take);
        length -= take;
        offset = 0;
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn ram_refuses_what_lies_outside() {
        let ram = Ram::new(16);
        ram.write(8, &[1; 8]).unwrap();
        assert_eq!(
            ram.write(9, &[1; 8]),
            Err(BusError {
                address: 9,
                length: 8
            })
        );
        assert_eq!(
            ram.read(u64::MAX, &mut [0; 2]),
            Err(BusError {
                address: u64::MAX,
                length: 2
            })
        );
        assert!(ram.update(4, &mut |x| x).is_err());
    }

    #[test]
    fn spans_join_and_slice() {
        let mut spans = Vec::new();
        push_span(&mut spans, 0x1000, 0x1000);
        push_span(&mut spans, 0x2000, 0x10);
        push_span(&mut spans, 0x8000, 0x10);
        assert_eq!(spans.len(), 2);
        assert_eq!(total(&spans), 0x1020);
        let cut = slice(&spans, 0x1008, 0x10);
        assert_eq!(
            cut,
            [
                Span {
                    address: 0x2008,
                    length: 8
                },
                Span {
                    address: 0x8000,
                    length: 8
                }
            ]
        );
    }
}
