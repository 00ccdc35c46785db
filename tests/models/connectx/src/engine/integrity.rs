//! Accesses through keys with signatures or encryption: what they read and write in memory, and the
//! completion that reports a wrong signature.
//!
//! A wrong signature does not end a message: it is reported beside its completion, once, until a
//! request has counted the report. No document says in which queue: here it is that of sends for
//! this side's requests, and that of receives for those of its peer.

use std::sync::Arc;

use crate::device::Device;
use crate::encryption::Ciphering;
use crate::engine::completion;
use crate::engine::message::{Message, Payload};
use crate::engine::receive::{Posted, Segment};
use crate::layout::queue::mkey;
use crate::memory::{GuestMemory, Ram, Span, total};
use crate::memory_key::{Access, KeyError, Right};
use crate::objects::Stream;
use crate::signature::{Bsf, Fault, Transfer};

/// The longest access that is carried out.
const MOST: u64 = 64 << 20;

/// A signature that was not right, and the key it went through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrong {
    key: u32,
    fault: Fault,
}

/// A part of a message's memory, behind a plain key or one with signatures.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Plain(Vec<Span>),
    Signed(Signed),
}

/// An access through a key with signatures or encryption.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// Of memory, where `length` counts what is there.
    access: Access,
    way: Way,
    /// Bytes of the wire.
    length: u64,
}

/// What becomes of data on its way.
#[derive(Clone, Debug)]
enum Way {
    Signatures(Transfer),
    Encryption(Ciphering),
}

impl Way {
    fn to_wire(&self, bytes: &[u8]) -> (Vec<u8>, Option<Fault>) {
        match self {
            Self::Signatures(transfer) => transfer.to_wire(bytes),
            Self::Encryption(ciphering) => (ciphering.to_wire(bytes), None),
        }
    }

    fn to_memory(&self, bytes: &[u8]) -> (Vec<u8>, Option<Fault>) {
        match self {
            Self::Signatures(transfer) => transfer.to_memory(bytes),
            Self::Encryption(ciphering) => (ciphering.to_memory(bytes), None),
        }
    }
}

impl Device {
    /// How an access goes through a key with signatures; `None`: it has none.
    pub(super) fn signed(&self, access: Access) -> Result<Option<Signed>, KeyError> {
        let key = self.mkeys.get(access.key >> 8);
        let Some(key) = key.filter(|key| mkey::SIGNED.is_set(&key.context)) else {
            return Ok(None);
        };
        let stream = key.bsf.filter(|_| access.length <= MOST);
        let start = mkey::START.get(&key.context);
        let offset = access.address.checked_sub(start).ok_or(KeyError::Bounds)?;
        let way = match stream.ok_or(KeyError::Signatures)? {
            Stream::Signatures(bsf) => Way::Signatures(self.transfer(bsf, access, offset)?),
            Stream::Encryption(encryption) => {
                let key = self.data_keys.get(encryption.data_key);
                let key = key.filter(|key| {
                    key.pd == access.pd && key.tag.is_none_or(|tag| tag == encryption.tag)
                });
                let ciphering = key.and_then(|key| encryption.at(key, offset, access.length));
                Way::Encryption(ciphering.ok_or(KeyError::Signatures)?)
            }
        };
        let (at, length) = match &way {
            Way::Signatures(transfer) => transfer.in_memory(),
            Way::Encryption(_) => (offset, access.length),
        };
        let address = start.checked_add(at).ok_or(KeyError::Bounds)?;
        Ok(Some(Signed {
            access: Access {
                address,
                length,
                ..access
            },
            way,
            length: access.length,
        }))
    }

    fn transfer(&self, bsf: Bsf, access: Access, offset: u64) -> Result<Transfer, KeyError> {
        for side in [bsf.wire, bsf.memory].into_iter().flatten() {
            let psv = self.psvs.get(side.psv);
            let begins = psv.filter(|psv| psv.pd == access.pd);
            if begins.and_then(|psv| psv.signature) != Some(side.begins_with()) {
                return Err(KeyError::Signatures);
            }
        }
        Transfer::new(bsf, offset, access.length).ok_or(KeyError::Signatures)
    }

    fn part(&self, access: Access) -> Result<Part, KeyError> {
        if let Some(signed) = self.signed(access)? {
            return Ok(Part::Signed(signed));
        }
        let mut spans = Vec::new();
        self.translate(access, &mut spans)?;
        Ok(Part::Plain(spans))
    }

    fn memory_side(&self, signed: &Signed) -> Result<Vec<Span>, KeyError> {
        let mut spans = Vec::new();
        self.translate_memory_side(signed.access, &mut spans)?;
        Ok(spans)
    }

    /// What an access reads, as it is on the wire.
    pub(super) fn read_signed(
        &self,
        signed: &Signed,
        wrong: &mut Vec<Wrong>,
    ) -> Result<Vec<u8>, KeyError> {
        let bytes = read(self, self.memory_side(signed)?)?;
        let (bytes, fault) = signed.way.to_wire(&bytes);
        wrong.extend(signed.wrong(fault));
        Ok(bytes)
    }

    /// Writes what came from the wire.
    pub(super) fn write_signed(
        &self,
        signed: &Signed,
        bytes: &[u8],
        wrong: &mut Vec<Wrong>,
    ) -> Result<(), KeyError> {
        let spans = self.memory_side(signed)?;
        let (bytes, fault) = signed.way.to_memory(bytes);
        self.put(&spans, bytes)?;
        wrong.extend(signed.wrong(fault));
        Ok(())
    }

    fn put(&self, spans: &[Span], bytes: Vec<u8>) -> Result<(), KeyError> {
        let memory = &*self.memory;
        Payload::Inline(bytes)
            .copy(memory, memory, spans)
            .map_err(|_| KeyError::Translation)
    }

    /// Writes a message to its parts, one after another.
    pub(super) fn write_parts(
        &self,
        parts: &[Part],
        mut bytes: &[u8],
        wrong: &mut Vec<Wrong>,
    ) -> Result<(), KeyError> {
        for part in parts {
            let length = part.length().min(bytes.len() as u64) as usize;
            let (here, behind) = bytes.split_at(length);
            match part {
                Part::Plain(spans) => self.put(spans, here.to_vec())?,
                Part::Signed(signed) => self.write_signed(signed, here, wrong)?,
            }
            bytes = behind;
        }
        Ok(())
    }

    /// What the parts of a message hold, as it is on the wire.
    pub(super) fn read_parts(
        &self,
        parts: &[Part],
        wrong: &mut Vec<Wrong>,
    ) -> Result<Vec<u8>, KeyError> {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Plain(spans) => bytes.extend(read(self, spans.clone())?),
                Part::Signed(signed) => bytes.extend(self.read_signed(signed, wrong)?),
            }
        }
        Ok(bytes)
    }

    /// Reports wrong signatures to a completion queue, each as long as its key's counter says that
    /// the next one is awaited.
    pub(super) fn report_wrong(&mut self, cqn: u32, qpn: u32, wrong: &[Wrong]) {
        for Wrong { key, fault } in wrong {
            let Some(target) = self.mkeys.get_mut(key >> 8) else {
                continue;
            };
            if mkey::SIGNATURE_ERRORS.get(&target.context) == target.errors & 1 {
                continue;
            }
            target.errors = target.errors.wrapping_add(1);
            completion::push_wrong(self, cqn, qpn, *key, fault);
        }
    }
}

/// Where the answer to a read arrives, and where it goes from there.
#[derive(Clone, Debug)]
pub(crate) struct SignedAnswer {
    parts: Vec<Part>,
    arrives: Arc<Ram>,
}

impl SignedAnswer {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        let length: u64 = parts.iter().map(Part::length).sum();
        Self {
            parts,
            arrives: Arc::new(Ram::new(length as usize)),
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.parts.iter().map(Part::length).sum()
    }

    pub(super) fn arrives(&self) -> Arc<dyn GuestMemory> {
        Arc::clone(&self.arrives) as _
    }

    /// Writes what has arrived to the memory of `device`.
    pub(super) fn place(&self, device: &Device) -> Result<Vec<Wrong>, KeyError> {
        let mut bytes = vec![0; self.length() as usize];
        let mut wrong = Vec::new();
        self.arrives
            .read(0, &mut bytes)
            .map_err(|_| KeyError::Translation)?;
        device.write_parts(&self.parts, &bytes, &mut wrong)?;
        Ok(wrong)
    }
}

impl Signed {
    fn wrong(&self, fault: Option<Fault>) -> Option<Wrong> {
        let key = self.access.key;
        fault.map(|fault| Wrong { key, fault })
    }
}

impl Part {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Plain(spans) => total(spans),
            Self::Signed(signed) => signed.length,
        }
    }

    fn is_signed(&self) -> bool {
        matches!(self, Self::Signed(_))
    }
}

fn read(device: &Device, spans: Vec<Span>) -> Result<Vec<u8>, KeyError> {
    let length = total(&spans) as usize;
    Payload::Memory(spans)
        .bytes(&*device.memory, length)
        .map_err(|_| KeyError::Translation)
}

/// The parts of a request's data, if any of them has signatures.
///
/// # Errors
/// The access that is not possible, and why.
pub(super) fn parts(
    device: &Device,
    segments: &[Segment],
    pd: u32,
    qpn: u32,
    right: Right,
) -> Result<Option<Vec<Part>>, (Access, KeyError)> {
    let has_signatures = |segment: &Segment| {
        let key = device.mkeys.get(segment.key >> 8);
        key.is_some_and(|key| mkey::SIGNED.is_set(&key.context))
    };
    if !segments.iter().any(has_signatures) {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for segment in segments {
        let access = Access {
            key: segment.key,
            address: segment.address,
            length: segment.length,
            pd,
            qpn,
            right,
        };
        parts.push(device.part(access).map_err(|reason| (access, reason))?);
    }
    let length: u64 = parts.iter().map(Part::length).sum();
    match parts.iter().find(|part| part.is_signed()) {
        Some(Part::Signed(signed)) if length > MOST => Err((signed.access, KeyError::Signatures)),
        _ => Ok(Some(parts)),
    }
}

/// Writes a message to a receive some of whose keys have signatures; `None` if none has.
pub(super) fn received(
    device: &Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    posted: &Posted,
    pd: u32,
    qpn: u32,
) -> Option<Result<Vec<Wrong>, KeyError>> {
    let mut left = message.payload.length();
    let cut = posted.segments.iter().map_while(|segment| {
        let length = segment.length.min(left);
        left -= length;
        (length != 0).then_some(Segment { length, ..*segment })
    });
    let segments: Vec<Segment> = cut.collect();
    let parts = match parts(device, &segments, pd, qpn, Right::LocalWrite) {
        Ok(Some(parts)) if left == 0 => parts,
        // It is too long.
        Ok(Some(_)) => return Some(Err(KeyError::Bounds)),
        Ok(None) => return None,
        Err((_, reason)) => return Some(Err(reason)),
    };
    let length = message.payload.length() as usize;
    let mut wrong = Vec::new();
    let bytes = message.payload.bytes(&**source, length);
    let written = bytes
        .map_err(|_| KeyError::Translation)
        .and_then(|bytes| device.write_parts(&parts, &bytes, &mut wrong));
    Some(written.map(|()| wrong))
}
