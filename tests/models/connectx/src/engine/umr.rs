//! User memory registration (UMR) work requests: they change a key's attributes or its translation.

use crate::budget::{LARGE, MAX_ENTRIES};
use crate::cmd::indirect;
use crate::device::Device;
use crate::encryption::Encryption;
use crate::layout::queue::mkey;
use crate::layout::{Field, be16, be32, be64, part};
use crate::memory_key::{Access, Mode, READABLE, Right, WRITABLE, mode};
use crate::objects::{Indirect, MemoryKey, Stream, Translation};
use crate::signature::{BSF, Bsf};

const CONTROL: usize = 16;
const FLAGS: usize = CONTROL;
const OCTOWORDS: usize = CONTROL + 4;
const OFFSET: usize = CONTROL + 6;
const MASK: usize = CONTROL + 8;
const CONTEXT: usize = CONTROL + 48;
const TRANSLATION: usize = CONTEXT + mkey::LEN;
const OFFSET_HIGH: usize = CONTROL + 16;
const FLAG_INLINE: u8 = 1 << 7;
/// The offset is that in the translation; otherwise the field is about signatures.
const FLAG_OFFSET: u8 = 1 << 4;
/// Values of the check field: under which condition the request fails.
const FAIL_IF_NOT_FREE: u8 = 1;
const FAIL_IF_FREE: u8 = 2;
/// Translations are loaded in blocks of this many octowords.
const BLOCK: usize = 4;
/// Number of translation entries above which a request is refused.
const MAX_OCTOWORDS: usize = 1 << 16;

/// Mask bits and the fields they select.
const FIELDS: &[(u32, Field)] = &[
    (1, mkey::LOG_PAGE_OLD),
    (7, mkey::PD),
    (8, mkey::REMOTE_INVALIDATE),
    (13, mkey::KEY),
    (14, mkey::QPN),
    (17, mkey::LOCAL_READ),
    (18, mkey::LOCAL_WRITE),
    (19, mkey::REMOTE_READ),
    (20, mkey::REMOTE_WRITE),
    (21, mkey::ATOMIC),
    (25, mkey::RELAXED_WRITE),
    (29, mkey::FREE),
    (42, mkey::LOG_PAGE_BIT5),
    (47, mkey::RELAXED_READ),
];
const MASK_LENGTH: u32 = 0;
const MASK_START: u32 = 6;
const MASK_SIGNATURE_ERRORS: u32 = 9;
const MASK_SIGNED: u32 = 12;
/// The change waits for what was posted before it: here it does so anyway.
const MASK_SMALL_FENCE: u32 = 23;

/// All bits of a mask that have a meaning here.
fn known() -> u64 {
    let others = [
        MASK_LENGTH,
        MASK_START,
        MASK_SIGNATURE_ERRORS,
        MASK_SIGNED,
        MASK_SMALL_FENCE,
    ];
    let fields = FIELDS.iter().map(|(bit, _)| *bit);
    fields.chain(others).fold(0, |mask, bit| mask | 1 << bit)
}

/// Applies a request; the key is named by the immediate field of the control segment.
pub(super) fn apply(
    device: &mut Device,
    bytes: &[u8],
    pd: u32,
    qpn: u32,
) -> Result<(), &'static str> {
    let key = be32(bytes, 12);
    let flags = bytes.get(FLAGS).copied().unwrap_or(0);
    let octowords = usize::from(be16(bytes, OCTOWORDS));
    let offset = if flags & FLAG_OFFSET == 0 {
        0
    } else {
        (be32(bytes, OFFSET_HIGH) as usize) << 16 | usize::from(be16(bytes, OFFSET))
    };
    let mask = be64(bytes, MASK);
    if mask & !known() != 0 {
        return Err("fields that are not known");
    }
    let context = part(bytes, CONTEXT, mkey::LEN);
    let target = device.mkeys.get(key >> 8).ok_or("no such key")?;
    let signs = signatures(device, target, bytes, flags, octowords, mask)?;
    let free = mkey::FREE.is_set(&target.context);
    match flags >> 5 & 3 {
        FAIL_IF_FREE if free => return Err("the key is free"),
        FAIL_IF_NOT_FREE if !free => return Err("the key is in use"),
        _ => {}
    }
    let entries = if octowords == 0 {
        Vec::new()
    } else {
        if octowords > MAX_OCTOWORDS
            || octowords * 16 > LARGE && device.list_entries() > MAX_ENTRIES
        {
            return Err("too many translation entries");
        }
        translation_bytes(device, bytes, flags, octowords * 16, pd, qpn)?
    };
    // A device without on-demand paging uses the addresses alone.
    let rights = if device.config.paging {
        0
    } else {
        READABLE | WRITABLE
    };
    let in_part = flags & FLAG_OFFSET != 0;
    let target = device.mkeys.get_mut(key >> 8).ok_or("no such key")?;
    let before = (target.context.clone(), target.bsf);
    signs.apply(&context, target);
    for (bit, field) in FIELDS {
        if mask >> bit & 1 != 0 {
            field.copy(&context, &mut target.context);
        }
    }
    if mask >> MASK_LENGTH & 1 != 0 {
        mkey::LENGTH.set(&mut target.context, mkey::LENGTH.get(&context));
        mkey::LENGTH64.copy(&context, &mut target.context);
    }
    if mask >> MASK_START & 1 != 0 {
        mkey::START.set(&mut target.context, mkey::START.get(&context));
    }
    if entries.is_empty() {
        return Ok(());
    }
    let loaded = match mode(&target.context) {
        Some(Mode::Pages) => load_pages(target, &entries, offset, rights),
        Some(Mode::Keys | Mode::FixedKeys) => load_keys(target, &entries, offset, in_part),
        Some(Mode::Physical | Mode::Device | Mode::Steering) => {
            Err("the key has no translation list")
        }
        None => Err("access mode"),
    };
    loaded.inspect_err(|_| (target.context, target.bsf) = before)
}

/// What a request says about a key's signatures.
struct Signs {
    bsf: Option<Stream>,
    mask: u64,
}

impl Signs {
    fn apply(&self, context: &[u8], target: &mut MemoryKey) {
        if let Some(bsf) = self.bsf {
            target.bsf = Some(bsf);
        }
        if self.mask >> MASK_SIGNED & 1 != 0 {
            mkey::SIGNED.copy(context, &mut target.context);
        }
        if self.mask >> MASK_SIGNATURE_ERRORS & 1 != 0 {
            mkey::SIGNATURE_ERRORS.copy(context, &mut target.context);
        }
    }
}

fn signatures(
    device: &Device,
    target: &MemoryKey,
    bytes: &[u8],
    flags: u8,
    octowords: usize,
    mask: u64,
) -> Result<Signs, &'static str> {
    let signs = mask >> MASK_SIGNED & 1 != 0;
    let counts = mask >> MASK_SIGNATURE_ERRORS & 1 != 0;
    // The field is the offset in the translation, if there is one.
    let length = match flags & FLAG_OFFSET {
        0 => usize::from(be16(bytes, OFFSET)) * 16,
        _ => 0,
    };
    let none = Signs { bsf: None, mask };
    if !signs && !counts && length == 0 {
        return Ok(none);
    }
    if !device.config.signatures && !device.config.encryption {
        return Err("signatures, which are not announced");
    }
    if mkey::BSF_OCTOWORDS.get(&target.context) == 0 {
        return Err("signatures of a key without room for them");
    }
    if length == 0 {
        let on = mkey::SIGNED.is_set(&part(bytes, CONTEXT, mkey::LEN));
        if signs && on && target.bsf.is_none() {
            return Err("signatures without a byte stream format");
        }
        return Ok(none);
    }
    if !signs || flags & FLAG_INLINE == 0 {
        return Err("a byte stream format that is not inline or not enabled");
    }
    if length != BSF {
        return Err("more than one byte stream format");
    }
    let at = TRANSLATION + octowords * 16;
    let bsf = bytes.get(at..at + BSF).ok_or("no byte stream format")?;
    let encrypts = mkey::ENCRYPTED.get(&target.context) != 0;
    let stream = match Encryption::is(bsf) {
        true if encrypts => Stream::Encryption(Encryption::parse(bsf)?),
        false if !encrypts => Stream::Signatures(Bsf::parse(bsf)?),
        _ => return Err("a byte stream format that the key is not for"),
    };
    let bsf = Some(stream);
    Ok(Signs { bsf, mask })
}

/// Carries out a request that sets a protected sequence of values (PSV).
pub(super) fn set_psv(device: &mut Device, bytes: &[u8], pd: u32) -> Result<(), &'static str> {
    const INDEX: usize = CONTROL;
    const SYNDROME: usize = CONTROL + 4;
    const SIGNATURE: usize = CONTROL + 8;
    if bytes.len() != CONTROL + 16 || be32(bytes, SYNDROME) != 0 {
        return Err("segment of a PSV");
    }
    let psv = device
        .psvs
        .get_mut(be32(bytes, INDEX))
        .ok_or("no such PSV")?;
    if psv.pd != pd {
        return Err("a PSV of another protection domain");
    }
    psv.signature = Some(be64(bytes, SIGNATURE));
    Ok(())
}

/// The size a key was created with, in octowords; the last block may extend beyond it.
fn room(target: &MemoryKey) -> usize {
    (mkey::OCTOWORDS.get(&target.context) as usize)
        .min(2 * MAX_OCTOWORDS)
        .next_multiple_of(BLOCK)
}

/// Replaces pages from `offset` (in octowords) on.
fn load_pages(
    target: &mut MemoryKey,
    entries: &[u8],
    offset: usize,
    rights: u64,
) -> Result<(), &'static str> {
    let room = room(target);
    let Translation::Pages(pages) = &mut target.translation else {
        return Err("not a page list");
    };
    let count = entries.len() / 8;
    let end = offset
        .checked_mul(2)
        .and_then(|first| first.checked_add(count))
        .filter(|end| *end <= 2 * room)
        .ok_or("more pages than the key has room for")?;
    let first = end - count;
    if pages.len() < end {
        pages.resize(end, 0);
    }
    for (i, page) in pages[first..end].iter_mut().enumerate() {
        *page = be64(entries, i * 8) | rights;
    }
    Ok(())
}

/// Replaces keys from `offset` on: only those given for a partial load, otherwise all that follow.
fn load_keys(
    target: &mut MemoryKey,
    entries: &[u8],
    offset: usize,
    in_part: bool,
) -> Result<(), &'static str> {
    let room = room(target);
    let fresh = match repeated(entries)? {
        Some(list) => list,
        None => (0..entries.len() / 16)
            .map(|i| indirect(entries, i * 16))
            .collect(),
    };
    let Translation::Keys(keys) = &mut target.translation else {
        return Err("not a key list");
    };
    if offset > keys.len() {
        return Err("a gap in the key list");
    }
    if !in_part {
        keys.truncate(offset);
    } else if offset + fresh.len() > room.max(keys.len()) {
        return Err("more keys than the key has room for");
    }
    let replaced = (keys.len() - offset).min(fresh.len());
    keys.splice(offset..offset + replaced, fresh);
    Ok(())
}

/// A repeat block: the entries behind its header are used in turn, each advanced by its stride
/// every time.
fn repeated(entries: &[u8]) -> Result<Option<Vec<Indirect>>, &'static str> {
    const OPERATION: u32 = 0x400;
    if be32(entries, 4) != OPERATION {
        return Ok(None);
    }
    let repeats = u64::from(be32(entries, 8));
    let count = usize::from(be16(entries, 14));
    if entries.len() < 16 + count * 16 || repeats * count as u64 > MAX_OCTOWORDS as u64 {
        return Err("repeat block");
    }
    let mut list = Vec::new();
    for repeat in 0..repeats {
        for at in (16..16 + count * 16).step_by(16) {
            list.push(Indirect {
                length: u64::from(be16(entries, at + 2)),
                key: be32(entries, at + 4),
                address: be64(entries, at + 8).wrapping_add(repeat * u64::from(be16(entries, at))),
            });
        }
    }
    Ok(Some(list))
}

fn translation_bytes(
    device: &Device,
    bytes: &[u8],
    flags: u8,
    length: usize,
    pd: u32,
    qpn: u32,
) -> Result<Vec<u8>, &'static str> {
    if flags & FLAG_INLINE != 0 {
        return bytes
            .get(TRANSLATION..TRANSLATION + length)
            .map(<[u8]>::to_vec)
            .ok_or("inline translation");
    }
    let segment = super::receive::segment(bytes, TRANSLATION);
    let access = Access {
        key: segment.key,
        address: segment.address,
        length: length as u64,
        pd: domain(device, segment.key, pd),
        qpn,
        right: Right::LocalRead,
    };
    let mut spans = Vec::new();
    device
        .translate(access, &mut spans)
        .map_err(|_| "translation list out of reach")?;
    super::message::Payload::Memory(spans)
        .bytes(&*device.memory, length)
        .map_err(|_| "translation list not in memory")
}

/// The kernel's registration queue names no protection domain; the key's is used then.
fn domain(device: &Device, key: u32, pd: u32) -> u32 {
    match device.mkeys.get(key >> 8) {
        Some(key) if pd == 0 => mkey::PD.get(&key.context),
        _ => pd,
    }
}
