//! Bytes that are copied into a send ring, in units of 16.

use uverbs_driver::hw::UnitRing;

use crate::wqe::{self, Unit};

/// Packs bytes that come in pieces of any length into units.
///
/// Bytes are collected in a word of 16; nothing is written twice and nothing is copied byte by byte.
#[derive(Debug)]
pub(crate) struct Packer<'r> {
    ring: &'r UnitRing,
    at: u32,
    /// What is collected, the first byte lowest.
    word: u128,
    /// Bits in it, a multiple of 8 below 128.
    filled: u32,
}

impl<'r> Packer<'r> {
    /// Starts at unit `at` with nothing.
    #[inline]
    pub(crate) fn new(ring: &'r UnitRing, at: u32) -> Self {
        Self {
            ring,
            at,
            word: 0,
            filled: 0,
        }
    }

    /// Starts at unit `at` with the head of `length` bytes of inline data.
    #[inline]
    pub(crate) fn with_head(ring: &'r UnitRing, at: u32, length: u32) -> Self {
        Self {
            ring,
            at,
            word: wqe::inline_head(length).to_le().into(),
            filled: 32,
        }
    }

    /// Adds bytes.
    #[expect(clippy::cast_possible_truncation, reason = "at most 15 bytes are left")]
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<16>();
        for sixteen in whole {
            self.add(u128::from_le_bytes(*sixteen), 128);
        }
        if !rest.is_empty() {
            let bytes = rest.len() as u32;
            self.add(partial(rest), bytes * 8);
        }
    }

    /// Adds the lowest `bits` of `word`, whose others are 0.
    #[inline]
    fn add(&mut self, word: u128, bits: u32) {
        self.word |= word << self.filled;
        let filled = self.filled + bits;
        if filled < 128 {
            self.filled = filled;
            return;
        }
        self.flush();
        // 128 - filled lies in 1..=128; 128 means that nothing is left over.
        self.word = word.checked_shr(128 - self.filled).unwrap_or(0);
        self.filled = filled - 128;
    }

    #[inline]
    fn flush(&mut self) {
        self.ring.put(self.at, unit(self.word));
        self.at = self.at.wrapping_add(1);
    }

    /// Writes what is left, filled up with zeroes, and tells the unit behind it.
    #[inline]
    pub(crate) fn finish(mut self) -> u32 {
        if self.filled != 0 {
            self.flush();
        }
        self.at
    }
}

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
#[inline]
const fn unit(word: u128) -> Unit {
    [(word as u64).to_le(), ((word >> 64) as u64).to_le()]
}

/// Up to 15 bytes, the first lowest: two loads that may overlap instead of a loop.
#[inline]
fn partial(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let high = u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8));
        return u128::from(u64::from_le_bytes(*first)) | high;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u128::from(u32::from_le_bytes(*last)) << (8 * (len - 4));
        return u128::from(u32::from_le_bytes(*first)) | high;
    }
    match bytes {
        [a] => (*a).into(),
        [a, b] => u16::from_le_bytes([*a, *b]).into(),
        [a, b, c] => u32::from_le_bytes([*a, *b, *c, 0]).into(),
        _ => 0,
    }
}
