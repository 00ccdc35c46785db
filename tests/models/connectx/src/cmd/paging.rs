//! The command that resolves a page fault.

use super::Command;
use crate::engine::paging;
use crate::layout::{Field, bit, field};
use crate::status::{Outcome, Rule, require};

const FAILED: Field = bit(0x08, 31);
const QUEUE: Field = field(0x08, 23, 0);
const TOKEN: Field = field(0x0c, 23, 0);

/// PAGE_FAULT_RESUME: whatever waited continues, or fails.
pub(super) fn resume(command: &mut Command<'_>) -> Outcome {
    require(command.device.config.paging, Rule::UnknownOpcode)?;
    let (token, queue) = (command.get(TOKEN), command.get(QUEUE));
    let failed = command.get(FAILED) != 0;
    paging::resume(command.device, token, queue, failed);
    Ok(())
}
