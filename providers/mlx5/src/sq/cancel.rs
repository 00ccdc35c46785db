//! Requests that are turned into no operation.

use super::SendRing;
use crate::wqe::{BLOCK_UNITS, control_index, control_opcode, control_units, opcode, with_opcode};

impl SendRing {
    /// Turns the submitted requests with this `wr_id` into no operation, from block `next` on
    /// (counted modulo 2¹⁶), which the device has not begun. Returns how many; `None`, and changes
    /// nothing, if no submitted request begins there.
    pub(crate) fn cancel(&mut self, next: u32, wr_id: u64) -> Option<u32> {
        let end = self.end.block.wrapping_sub(self.pending.blocks());
        let left = end.wrapping_sub(next) & 0xffff;
        if left > self.blocks.ring().blocks() {
            return None;
        }
        self.each_submitted(end.wrapping_sub(left), end, |_, _| ())?;
        let mut count = 0;
        self.each_submitted(end.wrapping_sub(left), end, |ring, block| {
            let (place, entry) = ring.blocks.at(block);
            let head = place.word(0);
            if entry.wr_id() == wr_id && control_opcode(head) != opcode::NOP {
                place.put(0, [with_opcode(head, opcode::NOP), place.word(1)]);
                count += 1;
            }
        })?;
        Some(count)
    }

    /// Calls `each` with the first block of each request from `block` on. `None` if they do not end
    /// at `end`.
    fn each_submitted(
        &self,
        mut block: u32,
        end: u32,
        mut each: impl FnMut(&Self, u32),
    ) -> Option<()> {
        while block != end {
            let head = self.blocks.at(block).0.word(0);
            let blocks = control_units(head).div_ceil(BLOCK_UNITS).max(1);
            let begins = control_index(head) == block & 0xffff;
            if !begins || blocks > end.wrapping_sub(block) {
                return None;
            }
            each(self, block);
            block = block.wrapping_add(blocks);
        }
        Some(())
    }
}
