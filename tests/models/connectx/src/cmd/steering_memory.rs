//! Memory in which a program keeps steering entries of its own: general objects.

use super::Command;
use crate::layout::command::{NUMBER32, op};
use crate::layout::{Field, Wide, field};
use crate::status::{Outcome, Rule, require};
use crate::steering_memory::{GRANULE, Part};

/// The type of such objects.
pub(super) const TYPE: u32 = 0x08;

const LOG_SIZE: Field = field(0x18, 7, 0);
const START: Wide = Wide(0x20);

/// A command about a part of it.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    require(command.device.config.extended_memory, Rule::ElementType)?;
    let id = command.get(NUMBER32);
    match opcode {
        op::CREATE_GENERAL_OBJECT => {
            let log_size = command.get(LOG_SIZE);
            require((GRANULE..32).contains(&log_size), Rule::BadSize)?;
            let part = Part {
                start: command.get64(START),
                length: 1 << log_size,
            };
            require(part.is_inside(), Rule::OutOfRange)?;
            let taken = command.device.steering_memory.iter();
            let free = !taken.map(|(_, other)| other).any(|other| part.meets(other));
            require(free, Rule::InUse)?;
            let id = command.device.steering_memory.add(command.uid, part)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        op::DESTROY_GENERAL_OBJECT => {
            command.device.steering_memory.take(id, command.uid)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        _ => Err(Rule::ElementType.refuse()),
    }
}
