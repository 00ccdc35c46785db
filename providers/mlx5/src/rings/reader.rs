//! Reads consecutive big-endian numbers.

/// The bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// The number of bytes left.
    pub(super) const fn left(self) -> usize {
        self.bytes.len()
    }

    /// The bytes left.
    pub(super) const fn rest(self) -> &'b [u8] {
        self.bytes
    }

    /// The next bytes, or `None` if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(bytes)
    }

    /// The next number of `bytes` bytes, at most 8.
    pub(super) fn number(&mut self, bytes: usize) -> Option<u64> {
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        self.take(bytes).map(|bytes| bytes.iter().fold(0, fold))
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn half(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }
}
