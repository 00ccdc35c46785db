//! Assembles byte slices of any length into words.
#![expect(
    clippy::cast_possible_truncation,
    reason = "at most 7 bytes are left over"
)]

/// Packs bytes into 8-byte words: nothing is stored twice, and nothing byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pack {
    /// The bytes collected so far, the first byte lowest.
    word: u64,
    /// Number of bits in `word`, a multiple of 8 below 64.
    filled: u32,
}

impl Pack {
    /// Starts with four bytes, the first lowest.
    #[inline]
    pub const fn of(bytes: u32) -> Self {
        Self {
            word: bytes as u64,
            filled: 32,
        }
    }

    /// Adds bytes, and passes each complete word to `store`, in memory order.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], mut store: impl FnMut(u64)) {
        let (whole, rest) = bytes.as_chunks::<8>();
        let (mut left, filled) = (self.word, self.filled);
        if filled == 0 {
            for eight in whole {
                store(u64::from_ne_bytes(*eight));
            }
        } else {
            for eight in whole {
                let word = u64::from_le_bytes(*eight);
                store((left | word << filled).to_le());
                left = carry(word, filled);
            }
        }
        self.word = left;
        if !rest.is_empty() {
            let word = partial(rest);
            let after = filled + rest.len() as u32 * 8;
            self.word |= word << filled;
            if after >= 64 {
                store(self.word.to_le());
                self.word = carry(word, filled);
            }
            self.filled = after % 64;
        }
    }

    /// The last word, padded with zeroes, if one is incomplete.
    #[inline]
    pub const fn finish(self) -> Option<u64> {
        if self.filled == 0 {
            None
        } else {
            Some(self.word.to_le())
        }
    }
}

/// The bits shifted out of a word by a left shift of `filled` bits, below 64.
#[inline]
const fn carry(word: u64, filled: u32) -> u64 {
    word >> 1 >> (63 - filled)
}

/// Up to 7 bytes, the first lowest: two loads that may overlap, instead of a loop.
#[inline]
pub fn partial(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
        return u64::from(u32::from_le_bytes(*first)) | high;
    }
    match bytes {
        [a] => (*a).into(),
        [a, b] => u16::from_le_bytes([*a, *b]).into(),
        [a, b, c] => u32::from_le_bytes([*a, *b, *c, 0]).into(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_any_length_follow_each_other() {
        let bytes: Vec<u8> = (1..=60).collect();
        for (first, second) in (0..20).flat_map(|first| (0..20).map(move |second| (first, second)))
        {
            for head in [None, Some(0x0403_0201)] {
                let mut words = Vec::new();
                let mut pack = head.map_or_else(Pack::default, Pack::of);
                let slices = [&bytes[..first], &bytes[first..first + second], &bytes[50..]];
                for slice in slices {
                    pack.push(slice, |word| words.push(word));
                }
                words.extend(pack.finish());
                let start = head.map_or(&[][..], |_| &bytes[..4]);
                let mut expected = [&[start][..], &slices].concat().concat();
                expected.resize(expected.len().next_multiple_of(8), 0);
                let found: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
                assert_eq!(found, expected, "{first} bytes and {second}");
            }
        }
    }
}
