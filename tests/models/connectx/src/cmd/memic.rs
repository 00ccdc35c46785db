//! Commands for device memory.

use super::Command;
use crate::layout::{Field, Wide, field, word};
use crate::memory_operation::Operation;
use crate::status::{Outcome, Rule, require};

const ALIGNMENT: Field = field(0x0c, 7, 0);
const START: Wide = Wide(0x10);
const RANGE_SIZE: Field = word(0x18);
const SIZE: Field = word(0x1c);
const RELEASED: Field = word(0x18);
const GRANTED: Wide = Wide(0x08);
const OPERATION: Field = field(0x0c, 7, 0);
const OPERAND: Wide = Wide(0x10);
const OPERATION_PLACE: Wide = Wide(0x10);
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
    require(!command.device.operations.are_on(start), Rule::InUse)?;
    require(
        command.device.memory_taken.release(start, length),
        Rule::NoSuchObject,
    )
}

/// MODIFY_MEMIC: prepares an operation on an allocation, or takes it away.
pub(super) fn modify(command: &mut Command<'_>) -> Outcome {
    const PREPARE: u16 = 0;
    const END: u16 = 1;
    require(command.device.config.extended_memory, Rule::UnknownOpcode)?;
    let start = command.get64(OPERAND);
    let operation = Operation::parse(command.get(OPERATION));
    let operation = operation.ok_or(Rule::OutOfRange.refuse())?;
    let device = &mut *command.device;
    match command.modifier {
        PREPARE => {
            let held = device.memory_taken.start_of(start, 1) == Some(start);
            require(held, Rule::NoSuchObject)?;
            require(device.operations.add(start, operation), Rule::InUse)?;
            OPERATION_PLACE.set(command.output, operation.place(start));
            Ok(())
        }
        END => require(
            device.operations.remove(start, operation),
            Rule::NoSuchObject,
        ),
        _ => Err(Rule::OutOfRange.refuse()),
    }
}
