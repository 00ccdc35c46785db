//! Signatures: what a memory key says about the blocks of data behind it, and what is done with
//! them on their way between memory and wire.
//!
//! A key's byte stream format (BSF, 64 bytes) describes two sides. Each may have a signature behind
//! every block of data: a T10-DIF, or a CRC. What passes through the key is checked against the
//! signatures of the side that it comes from, and gets those of the side that it goes to. Layouts
//! as in rdma-core's `providers/mlx5/wqe.h`. What no public document says is decided here: a CRC
//! is stored with its highest byte first, as the bits of the masks are; addresses in the key and
//! lengths of messages count bytes of the wire; a block that ends too early has no signature and
//! is not checked.

mod carry;
mod code;

pub(crate) use carry::{Fault, Transfer};
use code::{Code, Guard};

use crate::layout::{Field, be16, be32, bit, field, word};

/// Bytes of a BSF.
pub(crate) const BSF: usize = 64;

const SIZE: Field = field(0x00, 31, 30);
const SAME_STRUCTURE: Field = bit(0x00, 28);
const KIND: Field = field(0x00, 27, 24);
const CHECK: Field = field(0x00, 23, 16);
/// The block size of the wire or, if both sides have the same structure, which bytes are copied.
const WIRE: Field = field(0x00, 15, 8);
const MEMORY: Field = field(0x00, 7, 0);
/// Of the wire and of memory.
const FORMATS: [Field; 2] = [field(0x08, 31, 24), field(0x0c, 31, 24)];
const PSVS: [Field; 2] = [field(0x08, 23, 0), field(0x0c, 23, 0)];
const EXTENSION: std::ops::Range<usize> = 0x10..0x20;
const INLINE: [usize; 2] = [0x20, 0x30];
const RAW_SIZE: Field = word(0x04);
/// A BSF with inline sections.
const WITH_INLINE: u32 = 2;

/// Format selectors: what is computed, and flags beside it.
mod format {
    pub(super) const T10_DIF: u32 = 0x00;
    pub(super) const CRC32: u32 = 0x20;
    pub(super) const CRC32C: u32 = 0x40;
    pub(super) const CRC64: u32 = 0x50;
    pub(super) const REPEAT: u32 = 2;
    /// The computation begins with 0, not with all ones.
    pub(super) const SEED_0: u32 = 1;
}

/// An inline section: the parameters of a T10-DIF.
mod inline {
    pub(super) const VALID: u16 = 1 << 15;
    pub(super) const REPEAT: u8 = 1 << 7;
    pub(super) const SEED: u8 = 1 << 3;
    pub(super) const CRC: u8 = 1;
    pub(super) const CHECKSUM: u8 = 2;
    pub(super) const INCREMENT: u8 = 1 << 6;
    pub(super) const ESCAPE_APP: u8 = 1;
    pub(super) const ESCAPE_BOTH: u8 = 2;
}

/// One side of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Bytes of data in a block.
    block: usize,
    code: Code,
    /// The protected sequence of values (PSV) that holds what the side begins with.
    pub(crate) psv: u32,
}

impl Side {
    /// Bytes of a block with its signature.
    fn stride(&self) -> usize {
        self.block + self.code.length()
    }

    /// What its PSV must hold before the first block.
    pub(crate) fn begins_with(&self) -> u64 {
        self.code.begins_with()
    }
}

/// What a key does to what passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bsf {
    pub(crate) wire: Option<Side>,
    pub(crate) memory: Option<Side>,
    /// Which bytes of a signature are checked; the highest bit is the first byte.
    check: u8,
    /// Which bytes are taken from the signature that came.
    copy: u8,
}

/// Bytes of data in a block, by selector.
pub(crate) fn block(selector: u32) -> Option<usize> {
    Some(match selector {
        1 => 512,
        2 => 520,
        3 => 4096,
        4 => 4160,
        6 => 4048,
        _ => return None,
    })
}

impl Bsf {
    /// Decodes one.
    ///
    /// # Errors
    /// What is not carried out here: other formats, sides with blocks of different sizes, and
    /// signatures of whole transfers.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if SIZE.get(bytes) != WITH_INLINE || KIND.get(bytes) != 0 {
            return Err("kind of a byte stream format");
        }
        let extension = bytes.get(EXTENSION).ok_or("no byte stream format")?;
        if extension.iter().any(|byte| *byte != 0) {
            return Err("signature of a transfer");
        }
        if RAW_SIZE.get(bytes) != u32::MAX {
            return Err("size of a byte stream");
        }
        let memory = side(bytes, 1, MEMORY.get(bytes))?;
        let same = SAME_STRUCTURE.is_set(bytes);
        let of_wire = if same { MEMORY } else { WIRE };
        let wire = side(bytes, 0, of_wire.get(bytes))?;
        let copy = match (&wire, &memory) {
            (Some(wire), Some(memory)) if wire.block != memory.block => {
                return Err("sides with blocks of different sizes");
            }
            (Some(wire), Some(memory)) if same => {
                if wire.code.length() != memory.code.length() {
                    return Err("sides that are not the same");
                }
                WIRE.get(bytes) as u8
            }
            _ if same => return Err("one side cannot be the same"),
            _ => 0,
        };
        if wire.is_none() && memory.is_none() {
            return Err("no signature on either side");
        }
        Ok(Self {
            wire,
            memory,
            check: CHECK.get(bytes) as u8,
            copy,
        })
    }
}

/// The side `which`, with blocks of this selector.
fn side(bytes: &[u8], which: usize, selector: u32) -> Result<Option<Side>, &'static str> {
    let (format, psv) = (FORMATS[which].get(bytes), PSVS[which].get(bytes));
    let parameters = bytes.get(INLINE[which]..INLINE[which] + 16);
    let parameters = parameters.ok_or("no inline section")?;
    let has_inline = be16(parameters, 0) & inline::VALID != 0;
    let code = match format & !(format::REPEAT | format::SEED_0) {
        format::T10_DIF if format != 0 => return Err("flags of a T10-DIF"),
        format::T10_DIF if !has_inline && psv == 0 => return Ok(None),
        format::T10_DIF if !has_inline => return Err("no parameters of a T10-DIF"),
        format::T10_DIF => t10_dif(parameters)?,
        _ if has_inline => return Err("parameters of a T10-DIF"),
        _ if format & format::REPEAT == 0 => return Err("signature of the first block only"),
        crc => {
            let ones = format & format::SEED_0 == 0;
            match crc {
                format::CRC32 => Code::Crc32 { ones },
                format::CRC32C => Code::Crc32c { ones },
                format::CRC64 => Code::Crc64 { ones },
                _ => return Err("format of a signature"),
            }
        }
    };
    let block = block(selector).ok_or("block size")?;
    Ok(Some(Side { block, code, psv }))
}

fn t10_dif(parameters: &[u8]) -> Result<Code, &'static str> {
    let byte = |at: usize| parameters.get(at).copied().unwrap_or(0);
    let guard = match byte(8) {
        inline::CRC => Guard::Crc,
        inline::CHECKSUM => Guard::Checksum,
        _ => return Err("guard of a T10-DIF"),
    };
    if byte(9) & !inline::SEED != inline::REPEAT {
        return Err("repetition of a T10-DIF");
    }
    let rules = byte(13);
    Ok(Code::T10Dif {
        guard,
        ones: byte(9) & inline::SEED != 0,
        application: be16(parameters, 2),
        application_mask: be16(parameters, 14),
        reference: be32(parameters, 4),
        increments: rules & inline::INCREMENT != 0,
        escapes_application: rules & inline::ESCAPE_APP != 0,
        escapes_both: rules & inline::ESCAPE_BOTH != 0,
    })
}

#[cfg(test)]
mod tests;
