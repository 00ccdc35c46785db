//! Bytes that are copied into a send ring.

use uverbs_core::hw::{Pack, UnitRing, partial};

use crate::wqe;

/// Packs bytes of parts of any length into the units of a ring.
#[derive(Debug)]
pub(crate) struct Packer<'r> {
    ring: &'r UnitRing,
    /// The unit to store next, and the index of its word.
    unit: u32,
    half: u32,
    pack: Pack,
}

impl<'r> Packer<'r> {
    /// Starts at unit `at` without any bytes.
    #[inline]
    pub(crate) fn new(ring: &'r UnitRing, at: u32) -> Self {
        Self {
            ring,
            unit: at,
            half: 0,
            pack: Pack::default(),
        }
    }

    /// Starts at unit `at` with the header of `length` bytes of inline data.
    #[inline]
    pub(crate) fn with_head(ring: &'r UnitRing, at: u32, length: u32) -> Self {
        Self {
            pack: Pack::of(wqe::inline_head(length).to_le()),
            ..Self::new(ring, at)
        }
    }

    /// Adds bytes.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (ring, mut unit, mut half) = (self.ring, self.unit, self.half);
        self.pack.push(bytes, |word| {
            ring.set_word(unit, half, word);
            unit = unit.wrapping_add(half);
            half ^= 1;
        });
        (self.unit, self.half) = (unit, half);
    }

    /// Stores the remaining bytes, padded with zeros, and returns the unit after them.
    #[inline]
    pub(crate) fn finish(mut self) -> u32 {
        if let Some(word) = self.pack.finish() {
            self.store(word);
        }
        if self.half != 0 {
            self.store(0);
        }
        self.unit
    }

    #[inline]
    fn store(&mut self, word: u64) {
        self.ring.set_word(self.unit, self.half, word);
        self.unit = self.unit.wrapping_add(self.half);
        self.half ^= 1;
    }
}

/// Bytes of a unit besides the header of inline data.
const BESIDE_HEAD: usize = 12;

/// Writes inline data from one buffer, starting with `start`, from unit `at` on, padded with zeros.
/// Returns the unit after it.
///
/// The header has four bytes, so from the thirteenth byte on, everything falls into whole units: no
/// word has to be assembled.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a request is shorter than 2³¹ bytes"
)]
#[inline]
pub(crate) fn put_slice(
    ring: &UnitRing,
    mut at: u32,
    start: &[u8; BESIDE_HEAD],
    rest: &[u8],
) -> u32 {
    let head = wqe::inline_head((BESIDE_HEAD + rest.len()) as u32).to_le();
    let [a, b, c, d, second @ ..] = *start;
    let first = u64::from(head) | u64::from(u32::from_le_bytes([a, b, c, d])) << 32;
    ring.put(at, [first.to_le(), u64::from_ne_bytes(second)]);
    at = at.wrapping_add(1);
    let (whole, last) = rest.as_chunks();
    for unit in whole {
        ring.put_bytes(at, unit);
        at = at.wrapping_add(1);
    }
    if !last.is_empty() {
        let unit = match (last.split_first_chunk(), last.last_chunk::<8>()) {
            // Some of the last eight bytes are already in the first word.
            (Some((low, high)), Some(end)) => {
                let end = u64::from_le_bytes(*end);
                let high = if high.is_empty() {
                    0
                } else {
                    end >> (64 - 8 * high.len())
                };
                [u64::from_le_bytes(*low), high]
            }
            _ => [partial(last), 0],
        };
        ring.put(at, unit.map(u64::to_le));
        at = at.wrapping_add(1);
    }
    at
}

#[cfg(test)]
mod tests {
    use uverbs_core::hw::{Pages, Part};

    use super::*;

    #[test]
    fn a_single_sge_is_written_like_several() {
        let bytes: Vec<u8> = (1..=200).collect();
        for length in BESIDE_HEAD..bytes.len() {
            let rings = [0, 1].map(|_| {
                let part = Part::from(Pages::new(4096).unwrap());
                UnitRing::new(part, 16).unwrap()
            });
            let slice = &bytes[..length];
            let (start, rest) = slice.split_first_chunk().unwrap();
            let end = put_slice(&rings[0], 13, start, rest);
            let mut packer = Packer::with_head(&rings[1], 13, length.try_into().unwrap());
            packer.push(slice);
            assert_eq!(end, packer.finish(), "{length} bytes");
            for unit in 0..16 {
                assert_eq!(rings[0].get(unit), rings[1].get(unit), "{length} bytes");
            }
        }
    }
}
