//! A fuzzer's input, consumed from the front by several readers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that the test and the kernel it runs on consume in turn. Bytes beyond the end are zero.
#[derive(Debug)]
pub struct Tape(Mutex<Position>);

#[derive(Debug)]
struct Position {
    bytes: Vec<u8>,
    at: usize,
}

impl Tape {
    /// Starts reading `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Mutex::new(Position {
            bytes: bytes.to_vec(),
            at: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Position> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if all bytes were read.
    pub fn is_empty(&self) -> bool {
        let position = self.lock();
        position.at >= position.bytes.len()
    }

    /// Up to `len` bytes.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut position = self.lock();
        let end = position.at.saturating_add(len).min(position.bytes.len());
        let taken = position.bytes[position.at..end].to_vec();
        position.at = end;
        taken
    }

    /// Fills `bytes` from the tape, and the rest with zeros.
    pub fn fill(&self, bytes: &mut [u8]) {
        let taken = self.take(bytes.len());
        bytes.fill(0);
        bytes
            .iter_mut()
            .zip(taken)
            .for_each(|(to, from)| *to = from);
    }

    /// The next eight bytes.
    pub fn long(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// The next four bytes.
    pub fn word(&self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// The next two bytes.
    pub fn half(&self) -> u16 {
        let mut bytes = [0; 2];
        self.fill(&mut bytes);
        u16::from_le_bytes(bytes)
    }

    /// The next byte.
    pub fn byte(&self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// The lowest bit of the next byte.
    pub fn flag(&self) -> bool {
        self.byte() & 1 != 0
    }

    /// A number below `count`, which is not zero.
    pub fn pick(&self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// One of `choices`, of which there is one at least.
    pub fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.pick(choices.len())]
    }

    /// The result of `make`, or nothing.
    pub fn maybe<T>(&self, make: impl FnOnce(&Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }
}
