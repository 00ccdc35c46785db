//! Send requests.

use uverbs_core::rings::Fields;

use super::key_change;
use super::reader::Reader;
use super::segments::{self, Route};
use crate::wqe::{control, opcode};

/// No operation; it only completes.
const NOP: u32 = 0x00;
/// The bits of an opcode. The higher bits are its modifier.
const OPCODE: u32 = 0xff;

/// The name of an operation (`MLX5_OPCODE_*`).
pub(super) const fn name(operation: u32) -> Option<&'static str> {
    Some(match operation {
        NOP => "NOP",
        opcode::SEND_INVALIDATE => "SEND_INVAL",
        opcode::WRITE => "RDMA_WRITE",
        opcode::WRITE_IMM => "RDMA_WRITE_IMM",
        opcode::SEND => "SEND",
        opcode::SEND_IMM => "SEND_IMM",
        opcode::TSO => "TSO",
        opcode::READ => "RDMA_READ",
        opcode::COMPARE_SWAP => "ATOMIC_CS",
        opcode::FETCH_ADD => "ATOMIC_FA",
        MASKED_COMPARE_SWAP => "ATOMIC_MASKED_CS",
        MASKED_FETCH_ADD => "ATOMIC_MASKED_FA",
        opcode::UMR => "UMR",
        _ => return None,
    })
}

const MASKED_COMPARE_SWAP: u32 = opcode::MASKED_COMPARE_SWAP & OPCODE;
const MASKED_FETCH_ADD: u32 = opcode::MASKED_FETCH_ADD & OPCODE;

/// The number of units of the request that begins with this word, the doorbell's. At least one.
pub(super) const fn units(head: u64) -> u32 {
    let units = (head & 0x3f) as u32;
    if units == 0 { 1 } else { units }
}

/// The first half of a control segment.
struct Head {
    /// The operation, without its modifier.
    operation: u32,
    modifier: u8,
}

/// Decodes a request.
pub(super) fn fields(bytes: &[u8], route: Route) -> Fields {
    let operation = bytes.get(3).map(|byte| u32::from(*byte));
    let mut fields = Fields::of(operation.and_then(name));
    let mut reader = Reader::new(bytes);
    let understood = request(&mut fields, &mut reader, route);
    if understood.is_none() {
        fields.rest(reader.rest());
    }
    fields
}

/// `None` if it ends too soon, or if what is left has no meaning.
fn request(fields: &mut Fields, reader: &mut Reader<'_>, route: Route) -> Option<()> {
    let head = head(fields, reader)?;
    if head.operation == opcode::UMR {
        return key_change::fields(fields, reader);
    }
    name(head.operation)?;
    if head.operation != NOP {
        segments::route(fields, reader, route)?;
    }
    operands(fields, reader, &head)?;
    segments::sges(fields, reader)
}

/// The control segment.
fn head(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<Head> {
    let modifier = reader.byte()?;
    let index = reader.half()?;
    let operation = u32::from(reader.byte()?);
    if name(operation).is_none() {
        fields.hex("opcode", operation);
    }
    fields.hex_if_any("modifier", modifier);
    fields.number("index", index);
    let number = reader.word()?;
    fields.hex("qpn", number >> 8);
    fields.number("units", number & 0xff);
    let options = reader.word()?;
    fields.hex_if_any("signature", options >> 24);
    fields.hex_if_any("stream", options >> 8 & 0xffff);
    fields.flags("flags", options & 0xff, &FLAGS);
    let value = reader.word()?;
    match operation {
        opcode::SEND_IMM | opcode::WRITE_IMM => fields.hex("immediate", value),
        opcode::SEND_INVALIDATE => fields.key("invalidate", value),
        opcode::UMR => fields.key("key", value),
        _ => fields.hex_if_any("immediate", value),
    }
    Some(Head {
        operation,
        modifier,
    })
}

/// Flags of the control segment.
const FLAGS: [(u32, &str); 4] = [
    (control::SIGNALED, "signaled"),
    (control::SOLICITED, "solicited"),
    (control::FENCE, "fence"),
    (control::SMALL_FENCE, "small_fence"),
];

/// The operands for memory of the peer.
fn operands(fields: &mut Fields, reader: &mut Reader<'_>, head: &Head) -> Option<()> {
    match head.operation {
        opcode::WRITE | opcode::WRITE_IMM | opcode::READ => segments::remote(fields, reader),
        opcode::COMPARE_SWAP => {
            segments::remote(fields, reader)?;
            fields.hex("swap", reader.long()?);
            fields.hex("compare", reader.long()?);
            Some(())
        }
        opcode::FETCH_ADD => {
            segments::remote(fields, reader)?;
            fields.hex("add", reader.long()?);
            // The second operand has no meaning.
            reader.take(8).map(drop)
        }
        MASKED_COMPARE_SWAP | MASKED_FETCH_ADD => {
            segments::remote(fields, reader)?;
            masked(fields, reader, head)
        }
        _ => Some(()),
    }
}

/// The operands of a masked operation. The modifier says how long they are: 8, and log₂ of their
/// bytes, less 2.
fn masked(fields: &mut Fields, reader: &mut Reader<'_>, head: &Head) -> Option<()> {
    const EIGHT_BYTES: u8 = 9;
    let names: &[&'static str] = match head.operation {
        MASKED_COMPARE_SWAP => &["swap", "compare", "swap_mask", "compare_mask"],
        _ => &["add", "boundary"],
    };
    if head.modifier != EIGHT_BYTES {
        return None;
    }
    for name in names {
        fields.hex(name, reader.long()?);
    }
    Some(())
}
