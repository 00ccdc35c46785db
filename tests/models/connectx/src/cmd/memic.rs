//! Commands for device memory.

use super::Command;
use crate::layout::{Field, Wide, field, word};
use crate::status::{Outcome, Rule, require};

const ALIGNMENT: Field = field(0x0c, 7, 0);
const START: Wide = Wide(0x10);
const RANGE_SIZE: Field = word(0x18);
const SIZE: Field = word(0x1c);
const RELEASED: Field = word(0x18);
const GRANTED: Wide = Wide(0x08);
/// Alignments start at 64 bytes and go up to a page.
const SMALLEST: u64 = 64;
pub(crate) const LOG_MAX_ALIGNMENT: u32 = 6;

/// ALLOC_MEMIC.
pub(super) fn allocate(command: &mut Command<'_>) -> Outcome {
    let (log_align, length) = (command.get(ALIGNMENT), u64::from(command.get(SIZE)));
    require(log_align <= LOG_MAX_ALIGNMENT, Rule::BadSize)?;
    require(length.is_multiple_of(SMALLEST), Rule::BadSize)?;
    let start = command.get64(START);
    let range = start..start.saturating_add(u64::from(command.get(RANGE_SIZE)));
    let taken = command
        .device
        .memory_taken
        .take(range, length, SMALLEST << log_align);
    let taken = taken.ok_or(Rule::TableFull.refuse())?;
    GRANTED.set(command.output, taken);
    Ok(())
}

/// DEALLOC_MEMIC.
pub(super) fn release(command: &mut Command<'_>) -> Outcome {
    let (start, length) = (command.get64(START), u64::from(command.get(RELEASED)));
    require(
        command.device.memory_taken.release(start, length),
        Rule::NoSuchObject,
    )
}
