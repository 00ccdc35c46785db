//! Named fields of big-endian command and context structures.
//!
//! Every structure of the device is an array of big-endian 32-bit words. A [`Field`] names a range
//! of bits by the byte offset of its word and its highest and lowest bit, as the Programmer's
//! Reference Manual does and, in total, the kernel's `include/linux/mlx5/mlx5_ifc.h`. Reads outside
//! a buffer return zero and writes outside it do nothing, because buffers come from the guest and
//! may be shorter than the structure.

pub(crate) mod caps;
pub(crate) mod command;
pub(crate) mod qp;
pub(crate) mod queue;
pub(crate) mod transport;

/// A range of at most 32 bits inside a big-endian word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    high: u32,
    low: u32,
}

/// Names the bits `high..=low` of the word at byte `offset`.
pub(crate) const fn field(offset: usize, high: u32, low: u32) -> Field {
    assert!(
        offset.is_multiple_of(4) && high < 32 && low <= high,
        "a field lies within one aligned word"
    );
    Field { offset, high, low }
}

/// Names one bit of the word at byte `offset`.
pub(crate) const fn bit(offset: usize, bit: u32) -> Field {
    field(offset, bit, bit)
}

/// Names a whole word.
pub(crate) const fn word(offset: usize) -> Field {
    field(offset, 31, 0)
}

impl Field {
    /// The same field inside a structure that starts `base` bytes further on.
    pub(crate) const fn at(self, base: usize) -> Self {
        Self {
            offset: self.offset + base,
            ..self
        }
    }

    /// The largest value the field can hold.
    pub(crate) const fn max(self) -> u32 {
        u32::MAX >> (31 - (self.high - self.low))
    }

    /// Reads the field; bytes outside `buffer` count as zero.
    pub(crate) fn get(self, buffer: &[u8]) -> u32 {
        (be32(buffer, self.offset) >> self.low) & self.max()
    }

    /// Reads a one-bit field.
    pub(crate) fn is_set(self, buffer: &[u8]) -> bool {
        self.get(buffer) != 0
    }

    /// Writes the field, truncating `value` to its width; bytes outside `buffer` are not written.
    pub(crate) fn set(self, buffer: &mut [u8], value: u32) {
        let Some(bytes) = buffer.get_mut(self.offset..self.offset + 4) else {
            return;
        };
        let old = be32(bytes, 0);
        let mask = self.max() << self.low;
        bytes.copy_from_slice(&((old & !mask) | ((value << self.low) & mask)).to_be_bytes());
    }

    /// Copies the field from one instance of its structure to another.
    pub(crate) fn copy(self, from: &[u8], to: &mut [u8]) {
        self.set(to, self.get(from));
    }
}

/// A 64-bit big-endian value at a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide(pub(crate) usize);

impl Wide {
    /// The same value inside a structure that starts `base` bytes further on.
    pub(crate) const fn at(self, base: usize) -> Self {
        Self(self.0 + base)
    }

    /// Reads the value; bytes outside `buffer` count as zero.
    pub(crate) fn get(self, buffer: &[u8]) -> u64 {
        u64::from(be32(buffer, self.0)) << 32 | u64::from(be32(buffer, self.0 + 4))
    }

    /// Writes the value if it lies wholly inside `buffer`.
    pub(crate) fn set(self, buffer: &mut [u8], value: u64) {
        if let Some(bytes) = buffer.get_mut(self.0..self.0 + 8) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Reads a big-endian word; bytes outside `buffer` count as zero.
pub(crate) fn be32(buffer: &[u8], offset: usize) -> u32 {
    buffer
        .get(offset..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Reads a big-endian 16-bit value; bytes outside `buffer` count as zero.
pub(crate) fn be16(buffer: &[u8], offset: usize) -> u16 {
    buffer
        .get(offset..)
        .and_then(|rest| rest.first_chunk::<2>())
        .map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Reads a big-endian 64-bit value; bytes outside `buffer` count as zero.
pub(crate) fn be64(buffer: &[u8], offset: usize) -> u64 {
    Wide(offset).get(buffer)
}

/// Copies `bytes` into `buffer` at `offset` as far as they fit.
pub(crate) fn put(buffer: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(rest) = buffer.get_mut(offset..) {
        let n = rest.len().min(bytes.len());
        rest[..n].copy_from_slice(&bytes[..n]);
    }
}

/// The `len` bytes of `buffer` at `offset`, zero-filled where the buffer ends early.
pub(crate) fn part(buffer: &[u8], offset: usize, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    if let Some(rest) = buffer.get(offset..) {
        let n = rest.len().min(len);
        out[..n].copy_from_slice(&rest[..n]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_back_what_was_written_and_touches_nothing_else() {
        let mut buffer = [0xa5u8; 12];
        let middle = field(4, 23, 8);
        middle.set(&mut buffer, 0xbeef);
        assert_eq!(middle.get(&buffer), 0xbeef);
        assert_eq!(
            buffer,
            [
                0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xbe, 0xef, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5
            ]
        );
    }

    #[test]
    fn too_large_a_value_is_cut_to_the_field() {
        let mut buffer = [0u8; 4];
        field(0, 11, 8).set(&mut buffer, 0x1f);
        assert_eq!(buffer, [0, 0, 0x0f, 0]);
        assert_eq!(word(0).max(), u32::MAX);
    }

    #[test]
    fn outside_the_buffer_reads_are_zero_and_writes_are_dropped() {
        let mut buffer = [0xffu8; 6];
        assert_eq!(word(4).get(&buffer), 0);
        word(4).set(&mut buffer, 0);
        Wide(0).set(&mut buffer, 0);
        assert_eq!(buffer, [0xff; 6]);
        assert_eq!(be64(&buffer, 0), 0xffff_ffff_0000_0000);
    }
}
