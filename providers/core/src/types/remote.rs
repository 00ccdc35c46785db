//! The peer's memory, as requests name it and as it is announced to others.

use std::fmt;
use std::num::ParseIntError;
use std::ops::Range;
use std::str::FromStr;

use super::{OutOfRange, RemoteKey};

/// An address in the peer's memory.
///
/// Its text is `address:key`, both hexadecimal. It contains the key, which `Debug` does not show.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Remote {
    /// An address in the region or window that `key` names.
    pub address: u64,
    /// The rkey, as the peer announced it.
    pub key: RemoteKey,
}

/// A range of the peer's memory: what the peer announces, and what requests take their addresses
/// from.
///
/// ```
/// use uverbs_core::types::{RemoteKey, RemoteMemory};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = RemoteMemory { address: 0x10000, length: 8192, key: RemoteKey::from_raw(7) };
/// assert_eq!(RemoteMemory::from_bytes(memory.to_bytes()), memory);
/// assert_eq!(memory.to_string(), "0x10000+0x2000:0x7");
/// assert_eq!(memory.to_string().parse(), Ok(memory));
/// assert_eq!(memory.at(4096)?.address, 0x11000);
/// assert!(memory.at(8193).is_err());
/// # Ok(())
/// # }
/// ```
///
/// Its text is `address+length:key`, all hexadecimal. It contains the key, which `Debug` does not
/// show.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RemoteMemory {
    /// Where it starts in the region or window that `key` names.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The rkey.
    pub key: RemoteKey,
}

impl Remote {
    /// Its 12 bytes: address and key, big-endian.
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..].copy_from_slice(&self.key.raw().to_be_bytes());
        bytes
    }

    /// From what [`to_bytes`](Self::to_bytes) returned on the peer. Any bytes are an address and a
    /// key; the peer's device refuses those that name no memory.
    pub fn from_bytes(bytes: [u8; 12]) -> Self {
        let (mut address, mut key) = ([0; 8], [0; 4]);
        address.copy_from_slice(&bytes[..8]);
        key.copy_from_slice(&bytes[8..]);
        Self {
            address: u64::from_be_bytes(address),
            key: RemoteKey::from_raw(u32::from_be_bytes(key)),
        }
    }
}

impl RemoteMemory {
    /// `length` bytes at `start`, for a peer that announces only an address and a key.
    pub const fn new(start: Remote, length: u64) -> Self {
        Self {
            address: start.address,
            length,
            key: start.key,
        }
    }

    /// Its first byte.
    pub const fn start(self) -> Remote {
        Remote {
            address: self.address,
            key: self.key,
        }
    }

    /// The address `offset` bytes from its start. The end is an address, too, where requests of
    /// zero bytes may go. How much a request moves from there on is checked by the peer's device,
    /// which knows the region but not this range of it.
    ///
    /// # Errors
    /// The offset and the length, if it is beyond the end.
    pub const fn at(self, offset: u64) -> Result<Remote, OutOfRange> {
        if offset > self.length {
            return Err(OutOfRange::new("offset in bytes", offset, self.length));
        }
        Ok(Remote {
            // A region may start at 0 and end at the last address, so the sum never exceeds that of
            // memory that exists; of other numbers it is as wrong as they are.
            address: self.address.wrapping_add(offset),
            key: self.key,
        })
    }

    /// A part of it.
    ///
    /// # Errors
    /// The end of the range, if it is outside; the start, if it is after the end.
    pub fn part(self, range: Range<u64>) -> Result<Self, OutOfRange> {
        if range.end > self.length {
            return Err(OutOfRange::new("end in bytes", range.end, self.length));
        }
        if range.start > range.end {
            return Err(OutOfRange::new("start in bytes", range.start, range.end));
        }
        Ok(Self::new(self.at(range.start)?, range.end - range.start))
    }

    /// Its 20 bytes: address, key and length, big-endian. The first 12 are those of its
    /// [start](Self::start).
    pub fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..12].copy_from_slice(&self.start().to_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// From what [`to_bytes`](Self::to_bytes) returned on the peer.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        let mut start = [0; 12];
        start.copy_from_slice(&bytes[..12]);
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[12..]);
        Self::new(Remote::from_bytes(start), u64::from_be_bytes(length))
    }
}

/// Its [start](RemoteMemory::start).
impl From<RemoteMemory> for Remote {
    fn from(memory: RemoteMemory) -> Self {
        memory.start()
    }
}

/// A text that is no address or range in a peer's memory.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRemoteError {
    /// It has not the form `address:key` or `address+length:key`.
    #[error("expected an address, a length and a key, like 0x10000+0x2000:0x7")]
    Form,
    /// One of its numbers is none.
    #[error("not a hexadecimal number that fits: {0}")]
    Number(#[from] ParseIntError),
}

/// The number that a text of `0x` and hexadecimal digits is.
fn hexadecimal(text: &str) -> Result<u64, ParseRemoteError> {
    let digits = text.strip_prefix("0x").ok_or(ParseRemoteError::Form)?;
    if digits.starts_with('+') {
        return Err(ParseRemoteError::Form);
    }
    Ok(u64::from_str_radix(digits, 16)?)
}

fn key(text: &str) -> Result<RemoteKey, ParseRemoteError> {
    let digits = text.strip_prefix("0x").ok_or(ParseRemoteError::Form)?;
    if digits.starts_with('+') {
        return Err(ParseRemoteError::Form);
    }
    Ok(RemoteKey::from_raw(u32::from_str_radix(digits, 16)?))
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}:{:#x}", self.address, self.key.raw())
    }
}

impl FromStr for Remote {
    type Err = ParseRemoteError;

    fn from_str(text: &str) -> Result<Self, ParseRemoteError> {
        let (address, named) = text.split_once(':').ok_or(ParseRemoteError::Form)?;
        Ok(Self {
            address: hexadecimal(address)?,
            key: key(named)?,
        })
    }
}

impl fmt::Display for RemoteMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, length) = (self.address, self.length);
        write!(f, "{address:#x}+{length:#x}:{:#x}", self.key.raw())
    }
}

impl FromStr for RemoteMemory {
    type Err = ParseRemoteError;

    fn from_str(text: &str) -> Result<Self, ParseRemoteError> {
        let (range, named) = text.split_once(':').ok_or(ParseRemoteError::Form)?;
        let (address, length) = range.split_once('+').ok_or(ParseRemoteError::Form)?;
        Ok(Self {
            address: hexadecimal(address)?,
            length: hexadecimal(length)?,
            key: key(named)?,
        })
    }
}
