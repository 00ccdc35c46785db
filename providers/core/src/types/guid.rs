//! 64-bit identifiers of nodes and ports.

use std::{fmt, str::FromStr};

/// EUI-64 of a node, port or system image: eight bytes in network order.
///
/// Prints as libibverbs tools do, `0011:2233:4455:6677`. Default: all zero, "not set".
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Guid([u8; 8]);

impl Guid {
    /// From network-order bytes, as the kernel's `__be64` fields hold them.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The bytes in network order.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0
    }

    /// From the number whose hexadecimal digits are those of the printed GUID.
    pub const fn from_u64(value: u64) -> Self {
        Self(value.to_be_bytes())
    }

    /// The number whose hexadecimal digits are those of the printed GUID.
    pub const fn to_u64(self) -> u64 {
        u64::from_be_bytes(self.0)
    }

    /// Whether no GUID is set.
    pub const fn is_zero(self) -> bool {
        self.to_u64() == 0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.to_u64();
        write!(
            f,
            "{:04x}:{:04x}:{:04x}:{:04x}",
            v >> 48,
            (v >> 32) & 0xffff,
            (v >> 16) & 0xffff,
            v & 0xffff
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

/// The text is not a GUID.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a GUID (expected 0011:2233:4455:6677 or 0x0011223344556677)")]
pub struct ParseGuidError;

impl FromStr for Guid {
    type Err = ParseGuidError;

    /// Parses `0011:2233:4455:6677`, the form of sysfs, or `0x0011223344556677`.
    fn from_str(text: &str) -> Result<Self, ParseGuidError> {
        let hex = |digits: &str, max: usize| {
            let fits = !digits.is_empty()
                && digits.len() <= max
                && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if fits {
                u64::from_str_radix(digits, 16).map_err(|_| ParseGuidError)
            } else {
                Err(ParseGuidError)
            }
        };
        if let Some(digits) = text.strip_prefix("0x") {
            return hex(digits, 16).map(Self::from_u64);
        }
        let mut groups = text.split(':');
        let mut value = 0;
        for _ in 0..4 {
            value = value << 16 | hex(groups.next().ok_or(ParseGuidError)?, 4)?;
        }
        if groups.next().is_some() {
            Err(ParseGuidError)
        } else {
            Ok(Self::from_u64(value))
        }
    }
}
