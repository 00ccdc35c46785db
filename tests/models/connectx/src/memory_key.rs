//! Translation of a key, an address and a length to guest memory.

use crate::device::Device;
use crate::device_memory::NOWHERE;
use crate::layout::queue::mkey;
use crate::memory::{Span, push_span};
use crate::misbehaviour::Misbehaviour;
use crate::objects::{Indirect, MemoryKey, Translation};

/// The key of the region without memory, valid in every domain; no created key gets this number.
pub(crate) const NOWHERE_KEY: u32 = 0xffff_fe00;
/// The key whose pages are all absent, valid in every domain, for lists of keys to refer to.
pub(crate) const NULL_KEY: u32 = 0xffff_fd00;

/// Bits of a page list entry: the page may be read, and written. With neither it is absent.
pub(crate) const READABLE: u64 = 1;
/// See [`READABLE`].
pub(crate) const WRITABLE: u64 = 2;

/// How a memory key translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Physical,
    Pages,
    Keys,
    FixedKeys,
    /// Memory on the device.
    Device,
    /// Memory on the device for steering.
    Steering,
}

/// Decodes the access mode; crossing keys are not modelled.
pub(crate) fn mode(mkc: &[u8]) -> Option<Mode> {
    match mkey::MODE_HIGH.get(mkc) << 2 | mkey::MODE_LOW.get(mkc) {
        0 => Some(Mode::Physical),
        1 => Some(Mode::Pages),
        2 => Some(Mode::Keys),
        3 => Some(Mode::FixedKeys),
        4 => Some(Mode::Steering),
        5 => Some(Mode::Device),
        _ => None,
    }
}

/// The rights that an access needs of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    RemoteAtomic,
}

impl Right {
    fn granted(self, mkc: &[u8]) -> bool {
        match self {
            Self::LocalRead => mkey::LOCAL_READ,
            Self::LocalWrite => mkey::LOCAL_WRITE,
            Self::RemoteRead => mkey::REMOTE_READ,
            Self::RemoteWrite => mkey::REMOTE_WRITE,
            Self::RemoteAtomic => mkey::ATOMIC,
        }
        .is_set(mkc)
    }

    /// What is required of the keys behind an indirect one: they are used on behalf of its owner.
    fn behind(self) -> Self {
        match self {
            Self::LocalRead | Self::RemoteRead => Self::LocalRead,
            Self::LocalWrite | Self::RemoteWrite | Self::RemoteAtomic => Self::LocalWrite,
        }
    }

    /// The bit that a page's entry must have set.
    fn page_bit(self) -> u64 {
        match self.behind() {
            Self::LocalRead => READABLE,
            _ => WRITABLE,
        }
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    NoSuchKey,
    Domain,
    Rights,
    Bounds,
    Translation,
    /// A page is absent: the kernel may be asked for it.
    Absent,
    /// It has signatures, where none can be, or they are not set up.
    Signatures,
}

/// How many levels of indirect keys may refer to indirect keys.
pub(crate) const MAX_DEPTH: u32 = 4;
/// The largest message is 1 GiB, which small pages split into at most this many spans.
const MAX_SPANS: usize = 1 << 19;

/// One access to be translated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) key: u32,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) pd: u32,
    pub(crate) qpn: u32,
    pub(crate) right: Right,
}

impl Access {
    /// The part of the access that goes through an entry of a key list.
    fn through(self, entry: &Indirect, skip: u64, length: u64) -> Result<Self, KeyError> {
        Ok(Self {
            key: entry.key,
            address: entry.address.checked_add(skip).ok_or(KeyError::Bounds)?,
            length,
            right: self.right.behind(),
            ..self
        })
    }
}

impl Device {
    /// Reports an access that a key refused.
    pub(crate) fn report_key(&mut self, access: &Access, reason: KeyError) {
        let Access {
            key,
            address,
            length,
            pd,
            qpn,
            right,
        } = access;
        let kind = match reason {
            KeyError::Domain => "memory key of another protection domain",
            _ => "memory key",
        };
        self.report(
            kind,
            &format!(
                "{right:?} of queue {qpn:#x} in domain {pd:#x}: key {key:#x}, {length:#x} bytes at {address:#x}: {reason:?}"
            ),
        );
    }

    /// Appends the memory that `access` refers to to `spans`.
    pub(crate) fn translate(&self, access: Access, spans: &mut Vec<Span>) -> Result<(), KeyError> {
        let key = self.mkeys.get(access.key >> 8);
        if key.is_some_and(|key| mkey::SIGNED.is_set(&key.context)) {
            return Err(KeyError::Signatures);
        }
        self.translate_at(access, spans, 0)
    }

    /// The same for the memory side of a key with signatures.
    pub(crate) fn translate_memory_side(
        &self,
        access: Access,
        spans: &mut Vec<Span>,
    ) -> Result<(), KeyError> {
        self.translate_at(access, spans, 0)
    }

    fn translate_at(
        &self,
        access: Access,
        spans: &mut Vec<Span>,
        depth: u32,
    ) -> Result<(), KeyError> {
        let Access {
            key,
            address,
            length,
            pd,
            qpn,
            right,
        } = access;
        if length == 0 {
            return Ok(());
        }
        if key == NOWHERE_KEY {
            if !matches!(right, Right::LocalRead | Right::LocalWrite) {
                return Err(KeyError::Rights);
            }
            push_span(spans, NOWHERE, length);
            return Ok(());
        }
        if key == NULL_KEY && depth > 0 {
            return Err(KeyError::Absent);
        }
        if depth > MAX_DEPTH || spans.len() > MAX_SPANS {
            return Err(KeyError::Translation);
        }
        let memory_key = self.mkeys.get(key >> 8).ok_or(KeyError::NoSuchKey)?;
        let mkc = &memory_key.context;
        if depth > 0 && mkey::SIGNED.is_set(mkc) {
            return Err(KeyError::Signatures);
        }
        if mkey::FREE.is_set(mkc) || mkey::KEY.get(mkc) != key & 0xff {
            return Err(KeyError::NoSuchKey);
        }
        let owner = mkey::QPN.get(mkc);
        if mkey::PD.get(mkc) != pd || (owner != 0xff_ffff && owner != qpn) {
            return Err(KeyError::Domain);
        }
        if !right.granted(mkc) {
            return Err(KeyError::Rights);
        }
        // Addresses of device memory keys count from the key's start, wherever in the device that
        // is.
        let start = match memory_key.translation {
            Translation::Device(_) => 0,
            _ => mkey::START.get(mkc),
        };
        if !mkey::LENGTH64.is_set(mkc) {
            let offset = address.checked_sub(start).ok_or(KeyError::Bounds)?;
            let end = offset.checked_add(length).ok_or(KeyError::Bounds)?;
            if end > mkey::LENGTH.get(mkc) {
                return Err(KeyError::Bounds);
            }
        }
        address.checked_add(length).ok_or(KeyError::Bounds)?;
        self.walk(memory_key, access, spans, depth)
    }

    fn walk(
        &self,
        memory_key: &MemoryKey,
        access: Access,
        spans: &mut Vec<Span>,
        depth: u32,
    ) -> Result<(), KeyError> {
        let mkc = &memory_key.context;
        let Access {
            address, length, ..
        } = access;
        let start = mkey::START.get(mkc);
        match &memory_key.translation {
            Translation::Physical => {
                push_span(spans, address, length);
                Ok(())
            }
            Translation::Device(at) => {
                let address = at.checked_add(address).ok_or(KeyError::Bounds)?;
                push_span(spans, address, length);
                Ok(())
            }
            Translation::Pages(pages) => {
                let shift = mkey::LOG_PAGE.get(mkc);
                if !(3..=40).contains(&shift) {
                    return Err(KeyError::Translation);
                }
                let size = 1u64 << shift;
                let base = start & !(size - 1);
                let mut at = address.checked_sub(base).ok_or(KeyError::Bounds)?;
                let mut left = length;
                while left > 0 {
                    let index = (at >> shift) as usize;
                    let neighbour = (access.right == Right::RemoteWrite
                        && self.does(Misbehaviour::PageOrder))
                    .then(|| pages.get(index ^ 1))
                    .flatten();
                    let page = neighbour
                        .or_else(|| pages.get(index))
                        .ok_or(KeyError::Translation)?;
                    if page & access.right.page_bit() == 0 {
                        return Err(KeyError::Absent);
                    }
                    let within = at & (size - 1);
                    let run = (size - within).min(left);
                    push_span(spans, (page & !7 & !(size - 1)).wrapping_add(within), run);
                    if spans.len() > MAX_SPANS {
                        return Err(KeyError::Translation);
                    }
                    at += run;
                    left -= run;
                }
                Ok(())
            }
            Translation::Umem(umem, offset) => {
                let within = address
                    .checked_sub(start)
                    .and_then(|o| o.checked_add(*offset))
                    .ok_or(KeyError::Bounds)?;
                let part = umem
                    .part(within, length)
                    .map_err(|_| KeyError::Translation)?;
                for span in part.spans(0, length).ok_or(KeyError::Translation)? {
                    push_span(spans, span.address, span.length);
                }
                Ok(())
            }
            Translation::Keys(entries) if mode(mkc) == Some(Mode::FixedKeys) => {
                self.walk_fixed(mkc, entries, access, spans, depth)
            }
            Translation::Keys(entries) => {
                let skip = address.checked_sub(start).ok_or(KeyError::Bounds)?;
                self.walk_keys(entries, skip, access, spans, depth)
            }
        }
    }

    /// Translates through keys that all cover as much memory as a page of the list.
    fn walk_fixed(
        &self,
        mkc: &[u8],
        entries: &[Indirect],
        access: Access,
        spans: &mut Vec<Span>,
        depth: u32,
    ) -> Result<(), KeyError> {
        let shift = mkey::LOG_PAGE.get(mkc).min(40);
        let start = mkey::START.get(mkc);
        let mut at = access.address.checked_sub(start).ok_or(KeyError::Bounds)?;
        let mut left = access.length;
        while left > 0 {
            let entry = entries
                .get((at >> shift) as usize)
                .ok_or(KeyError::Translation)?;
            let within = at & ((1 << shift) - 1);
            let run = ((1 << shift) - within).min(left);
            self.translate_at(access.through(entry, within, run)?, spans, depth + 1)?;
            at += run;
            left -= run;
        }
        Ok(())
    }

    /// Translates through keys with lengths of their own.
    fn walk_keys(
        &self,
        entries: &[Indirect],
        mut skip: u64,
        access: Access,
        spans: &mut Vec<Span>,
        depth: u32,
    ) -> Result<(), KeyError> {
        let mut left = access.length;
        for entry in entries {
            if left == 0 {
                break;
            }
            if skip >= entry.length {
                skip -= entry.length;
                continue;
            }
            let run = (entry.length - skip).min(left);
            self.translate_at(access.through(entry, skip, run)?, spans, depth + 1)?;
            left -= run;
            skip = 0;
        }
        if left == 0 {
            Ok(())
        } else {
            Err(KeyError::Translation)
        }
    }
}
