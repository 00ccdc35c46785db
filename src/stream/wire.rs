//! What streams say to each other; `docs/guide/streams.md` is its specification.

/// The version of the protocol that this library speaks.
pub const VERSION: u8 = 1;

/// Receives that a side has posted beyond what it grants: for messages that need no credit.
pub(super) const BEYOND: u32 = 4;

/// The first bytes of the private data.
const MAGIC: [u8; 4] = *b"uvST";

/// What a side grants to the other, in the private data of the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hello {
    /// How many messages with bytes it can take that it has not read. Not 0.
    pub(super) credits: u16,
    /// How long each may be. Not 0.
    pub(super) message_size: u32,
}

/// Why private data cannot be answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mismatch {
    NotAStream,
    Version(u8),
}

impl Hello {
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let parts = [
            &MAGIC[..],
            &[VERSION, 0],
            &self.credits.to_be_bytes(),
            &self.message_size.to_be_bytes(),
        ];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Of the bytes that arrived, which may be padded.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Mismatch> {
        let Some((bytes, _)) = bytes.split_first_chunk::<16>() else {
            return Err(Mismatch::NotAStream);
        };
        let &[a, b, c, d, version, _, c0, c1, s0, s1, s2, s3, ..] = bytes;
        if [a, b, c, d] != MAGIC {
            return Err(Mismatch::NotAStream);
        }
        if version != VERSION {
            return Err(Mismatch::Version(version));
        }
        let hello = Self {
            credits: u16::from_be_bytes([c0, c1]),
            message_size: u32::from_be_bytes([s0, s1, s2, s3]),
        };
        if hello.credits == 0 || hello.message_size == 0 {
            return Err(Mismatch::NotAStream);
        }
        Ok(hello)
    }
}

/// What accompanies each message, as its immediate value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    /// This many more messages with bytes may be sent.
    pub(super) credits: u16,
    /// No bytes follow those of this message.
    pub(super) is_last: bool,
}

const LAST: u32 = 1 << 16;

impl Header {
    pub(super) fn to_imm(self) -> u32 {
        u32::from(self.credits) | if self.is_last { LAST } else { 0 }
    }

    /// `None` if bits are set that have no meaning.
    pub(super) fn parse(imm: u32) -> Option<Self> {
        let [high, low, ..] = [imm >> 16, imm & 0xffff];
        if high > 1 {
            return None;
        }
        Some(Self {
            credits: u16::try_from(low).ok()?,
            is_last: high == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_has_its_bytes_and_survives_padding() {
        let hello = Hello {
            credits: 0x0102,
            message_size: 0x0304_0506,
        };
        let bytes = hello.to_bytes();
        assert_eq!(bytes, *b"uvST\x01\0\x01\x02\x03\x04\x05\x06\0\0\0\0");
        let padded = [&bytes[..], &[0; 40]].concat();
        assert_eq!(Hello::parse(&padded), Ok(hello));
    }

    #[test]
    fn malformed_hellos_are_refused() {
        let good = Hello {
            credits: 1,
            message_size: 1,
        };
        let with = |at: usize, value: u8| {
            let mut bytes = good.to_bytes();
            bytes[at] = value;
            Hello::parse(&bytes)
        };
        assert_eq!(with(0, b'x'), Err(Mismatch::NotAStream));
        assert_eq!(with(4, 2), Err(Mismatch::Version(2)));
        assert_eq!(with(7, 0), Err(Mismatch::NotAStream));
        assert_eq!(with(11, 0), Err(Mismatch::NotAStream));
        assert_eq!(Hello::parse(&[]), Err(Mismatch::NotAStream));
        assert_eq!(
            Hello::parse(&good.to_bytes()[..15]),
            Err(Mismatch::NotAStream)
        );
    }

    #[test]
    fn every_immediate_value_is_a_header_or_refused() {
        for credits in [0, 1, 0x1234, u16::MAX] {
            for is_last in [false, true] {
                let header = Header { credits, is_last };
                assert_eq!(Header::parse(header.to_imm()), Some(header));
            }
        }
        for bit in 17..32 {
            assert_eq!(Header::parse(1 << bit), None);
        }
    }
}
