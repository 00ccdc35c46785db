//! Bit fields in big-endian words.

/// A field inside one 32-bit big-endian word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    byte: usize,
    shift: u32,
    mask: u32,
}

/// A 64-bit big-endian word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wide(pub usize);

/// Bits `high` to `low` of the word that starts at `byte`; bit 31 is the word's first.
pub const fn field(byte: usize, high: u32, low: u32) -> Field {
    let width = high - low + 1;
    Field {
        byte,
        shift: low,
        mask: if width >= 32 {
            u32::MAX
        } else {
            (1 << width) - 1
        },
    }
}

/// One bit of the word that starts at `byte`.
pub const fn bit(byte: usize, at: u32) -> Field {
    field(byte, at, at)
}

/// The whole word that starts at `byte`.
pub const fn word(byte: usize) -> Field {
    field(byte, 31, 0)
}

impl Field {
    /// The same field of a structure that starts at `base`.
    #[must_use]
    pub const fn at(self, base: usize) -> Self {
        Self {
            byte: self.byte + base,
            ..self
        }
    }

    /// Its value; 0 if `bytes` end before it, as for a device with fewer fields.
    pub fn get(self, bytes: &[u8]) -> u32 {
        let word = bytes.get(self.byte..).and_then(<[u8]>::first_chunk::<4>);
        word.map_or(0, |word| {
            (u32::from_be_bytes(*word) >> self.shift) & self.mask
        })
    }

    /// Sets it; bits of `value` beyond its width are dropped. Returns false if `bytes` end before
    /// it.
    pub fn set(self, bytes: &mut [u8], value: u32) -> bool {
        let Some(word) = bytes
            .get_mut(self.byte..)
            .and_then(<[u8]>::first_chunk_mut::<4>)
        else {
            return false;
        };
        let others = u32::from_be_bytes(*word) & !(self.mask << self.shift);
        *word = (others | (value & self.mask) << self.shift).to_be_bytes();
        true
    }
}

impl Wide {
    /// Its value; 0 if `bytes` end before it.
    pub fn get(self, bytes: &[u8]) -> u64 {
        let word = bytes.get(self.0..).and_then(<[u8]>::first_chunk::<8>);
        word.map_or(0, |word| u64::from_be_bytes(*word))
    }

    /// Sets it. Returns false if `bytes` end before it.
    pub fn set(self, bytes: &mut [u8], value: u64) -> bool {
        let word = bytes
            .get_mut(self.0..)
            .and_then(<[u8]>::first_chunk_mut::<8>);
        word.map(|word| *word = value.to_be_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_touches_no_other_bit() {
        let mut bytes = [0xff; 8];
        assert!(field(4, 23, 8).set(&mut bytes, 0));
        assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff]);
        assert!(bit(4, 9).set(&mut bytes, 3));
        assert_eq!(bytes[6], 0x02, "only the lowest bit of the value");
        assert_eq!(field(4, 15, 0).get(&bytes), 0x02ff);
    }

    #[test]
    fn a_wide_field_is_eight_bytes() {
        let mut bytes = [0xff; 12];
        assert!(Wide(2).set(&mut bytes, 0x0102_0304_0506_0708));
        assert_eq!(bytes, [0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff]);
        assert_eq!(Wide(2).get(&bytes), 0x0102_0304_0506_0708);
        assert!(!Wide(5).set(&mut bytes, 0));
    }

    #[test]
    fn what_lies_outside_reads_as_nothing() {
        let mut bytes = [0xff; 6];
        assert_eq!(word(4).get(&bytes), 0);
        assert!(!word(4).set(&mut bytes, 0));
        assert_eq!(Wide(usize::MAX).get(&bytes), 0);
        assert_eq!(bytes, [0xff; 6]);
    }
}
