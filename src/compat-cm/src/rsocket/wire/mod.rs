//! What two sockets exchange: the private data of the handshake, entries of lists that the peer
//! writes into, and the number that comes with a write.

mod message;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) use self::message::{Control, Message};

/// The version of the protocol.
pub(super) const VERSION: u8 = 1;
/// Flag: numbers in lists have the order of a big-endian host.
const BIG_ENDIAN: u8 = 1 << 0;
/// Flag: the size of the list of mapped memory is there.
const HAS_MAPS: u8 = 1 << 1;
/// Entries of the list of buffers that each side has.
pub(super) const TARGETS: u32 = 2;
/// Bytes of an [`Entry`] in memory.
pub(super) const ENTRY: u32 = 16;
/// Bytes of a [`Map`] in memory.
pub(super) const MAP: u32 = 24;

/// The private data of a request and of its answer.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    version: u8,
    flags: u8,
    credits: U16,
    reserved: [u8; 3],
    maps: u8,
    targets: RawEntry,
    buffer: RawEntry,
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    address: U64,
    key: U32,
    length: U32,
}

/// Bytes of the private data.
pub(super) const HELLO: u8 = 40;

const _: () = {
    assert!(size_of::<Raw>() == HELLO as usize);
    assert!(size_of::<RawEntry>() == ENTRY as usize);
    assert!(std::mem::offset_of!(Raw, credits) == 2);
    assert!(std::mem::offset_of!(Raw, maps) == 7);
    assert!(std::mem::offset_of!(Raw, targets) == 8);
    assert!(std::mem::offset_of!(Raw, buffer) == 24);
    assert!(std::mem::offset_of!(RawEntry, key) == 8);
    assert!(std::mem::offset_of!(RawEntry, length) == 12);
};

/// Memory of one side that the other one writes into.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) address: u64,
    pub(super) key: u32,
    pub(super) length: u32,
}

/// Memory that a program has mapped, and the offset that it goes by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Map {
    pub(super) offset: u64,
    pub(super) entry: Entry,
}

/// The order of bytes in the lists of a peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Order {
    is_swapped: bool,
}

/// What one side tells the other in the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hello {
    /// Messages that it can take.
    pub(super) credits: u16,
    /// Entries of its list of mapped memory.
    pub(super) maps: u32,
    /// Its list of buffers; the length is a number of entries.
    pub(super) targets: Entry,
    /// Its first buffer.
    pub(super) buffer: Entry,
    pub(super) order: Order,
}

impl From<Entry> for RawEntry {
    fn from(entry: Entry) -> Self {
        Self {
            address: entry.address.into(),
            key: entry.key.into(),
            length: entry.length.into(),
        }
    }
}

impl From<RawEntry> for Entry {
    fn from(raw: RawEntry) -> Self {
        Self {
            address: raw.address.get(),
            key: raw.key.get(),
            length: raw.length.get(),
        }
    }
}

impl Hello {
    pub(super) fn to_bytes(self) -> [u8; HELLO as usize] {
        let order = if cfg!(target_endian = "big") {
            BIG_ENDIAN
        } else {
            0
        };
        let raw = Raw {
            version: VERSION,
            flags: HAS_MAPS | order,
            credits: self.credits.into(),
            reserved: [0; 3],
            maps: to_scale(self.maps),
            targets: self.targets.into(),
            buffer: self.buffer.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// `None`: too short, or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        if raw.version != VERSION {
            return None;
        }
        let has_maps = raw.flags & HAS_MAPS != 0;
        Some(Self {
            credits: raw.credits.get(),
            maps: if has_maps { from_scale(raw.maps) } else { 0 },
            targets: raw.targets.into(),
            buffer: raw.buffer.into(),
            order: Order {
                is_swapped: (raw.flags & BIG_ENDIAN != 0) != cfg!(target_endian = "big"),
            },
        })
    }
}

impl Order {
    fn swap<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self.is_swapped {
            bytes.reverse();
        }
        bytes
    }

    /// An entry as the peer reads it.
    pub(super) fn entry(self, entry: Entry) -> [u8; ENTRY as usize] {
        let mut bytes = [0; ENTRY as usize];
        let (address, rest) = bytes.split_at_mut(8);
        address.copy_from_slice(&self.swap(entry.address.to_ne_bytes()));
        let (key, length) = rest.split_at_mut(4);
        key.copy_from_slice(&self.swap(entry.key.to_ne_bytes()));
        length.copy_from_slice(&self.swap(entry.length.to_ne_bytes()));
        bytes
    }

    /// A map as the peer reads it.
    pub(super) fn map(self, map: Map) -> [u8; MAP as usize] {
        let mut bytes = [0; MAP as usize];
        let (offset, entry) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.swap(map.offset.to_ne_bytes()));
        entry.copy_from_slice(&self.entry(map.entry));
        bytes
    }
}

/// An entry that the peer has written, in this host's order.
pub(super) fn entry(bytes: [u8; ENTRY as usize]) -> Entry {
    let words: [[u8; 8]; 2] = zerocopy::transmute!(bytes);
    let [address, rest] = words;
    let [key, length]: [[u8; 4]; 2] = zerocopy::transmute!(rest);
    Entry {
        address: u64::from_ne_bytes(address),
        key: u32::from_ne_bytes(key),
        length: u32::from_ne_bytes(length),
    }
}

/// A map that the peer has written, in this host's order.
pub(super) fn map(bytes: [u8; MAP as usize]) -> Map {
    let words: [[u8; 8]; 3] = zerocopy::transmute!(bytes);
    let [offset, one, other] = words;
    Map {
        offset: u64::from_ne_bytes(offset),
        entry: entry(zerocopy::transmute!([one, other])),
    }
}

/// A number in one byte: exact up to 128, above with its lower 8 bits cut off.
pub(super) fn to_scale(value: u32) -> u8 {
    const HALF: u32 = 1 << 7;
    let scaled = if value <= HALF {
        value
    } else {
        HALF | (value >> 8)
    };
    (scaled & 0xff) as u8
}

pub(super) fn from_scale(scale: u8) -> u32 {
    const HALF: u32 = 1 << 7;
    let scale = u32::from(scale);
    if scale <= HALF {
        scale
    } else {
        (scale & !HALF) << 8
    }
}

#[cfg(test)]
mod tests;
