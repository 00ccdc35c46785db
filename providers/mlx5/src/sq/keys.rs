//! Requests of the vendor's: changes of indirect keys, and requests that are composed elsewhere.

use uverbs_core::PostError;
use uverbs_core::types::{SendFlags, WcOpcode};

use super::SendRing;
use crate::tracker::SentKind;
use crate::wqe::layout::{BLOCK, HEAD_UNITS, KeyChange};
use crate::wqe::operations::Operations;
use crate::wqe::request::Kind;
use crate::wqe::{self, BLOCK_UNITS, MAX_UNITS, UNIT, Unit, control, opcode};

/// The number of units in the control segment of a request.
const UNITS: u64 = 0x3f;

impl SendRing {
    /// Units that a request may have without taking the room of others.
    fn units_of_request(&self) -> u32 {
        let blocks = self.blocks.ring().blocks() as usize / (self.max_requests as usize).max(1);
        let units = u32::try_from(blocks).unwrap_or(u32::MAX);
        units.saturating_mul(BLOCK_UNITS).min(MAX_UNITS)
    }

    /// Puts a change of an indirect key.
    pub(crate) fn put_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        change: &KeyChange<'_>,
    ) -> Result<(), PostError> {
        if !self.limits.operations.contains(Operations::CHANGE_KEY) {
            return Err(PostError::UnsupportedOperation);
        }
        let entries = change.layout.map_or(0, |layout| layout.units());
        let padded = entries.next_multiple_of(BLOCK.into());
        let room = (self.units_of_request() as usize).saturating_sub(1 + HEAD_UNITS);
        // As libmlx5 counts it: what data in the request may take.
        let room = room.min(((self.limits.max_inline + 4) / UNIT) as usize);
        // Whole blocks are loaded.
        let room = room - room % usize::from(BLOCK);
        if padded > room {
            let requested = u32::try_from(entries).unwrap_or(u32::MAX);
            let max = u32::try_from(room).unwrap_or(u32::MAX);
            return Err(PostError::TooManySges { requested, max });
        }
        let head = change.head()?;
        let at = self.admit()?;
        let mut writer = self.writer(at);
        writer.units(&head);
        if let Some(layout) = &change.layout {
            layout.each(|unit| writer.unit(unit));
        }
        for _ in entries..padded {
            writer.unit([0; 2]);
        }
        let at = writer.at;
        let kind = Kind {
            fence: control::SMALL_FENCE,
            ..Kind::new(opcode::UMR, change.key.raw(), WcOpcode::Driver1)
        };
        self.commit_as(wr_id, flags, kind, at, SentKind::KEY_CHANGE);
        Ok(())
    }

    /// Puts a request as it is, but for its place in the ring.
    pub(crate) fn put_raw(&mut self, wr_id: u64, request: &[Unit]) -> Result<(), PostError> {
        let [first, rest @ ..] = request else {
            return Err(PostError::InvalidRequest);
        };
        let [head, tail] = *first;
        let head = u64::from_be(head);
        let max = self.units_of_request();
        if request.len() > max as usize {
            let requested = u32::try_from(request.len()).unwrap_or(u32::MAX);
            return Err(PostError::TooManySges { requested, max });
        }
        // The doorbell names the queue by these bits.
        if head & UNITS != request.len() as u64 || head & 0xffff_ff00 != self.common.queue {
            return Err(PostError::InvalidRequest);
        }
        let at = self.admit()?;
        let mut writer = self.writer(at);
        writer.units(rest);
        let (end, behind) = (self.end, writer.at);
        let known = head & !(0xffff << 40);
        let head = wqe::control_head_of(known, end.block, self.common.queue);
        let first = end.block.wrapping_mul(BLOCK_UNITS);
        let entry = self.blocks.value(end.block);
        entry.posted(wr_id, end.requests.after(1), SentKind::RAW);
        self.blocks.ring().put(first, [head, tail]);
        self.end.flags = self.always;
        self.set_usual_end();
        let units = behind.wrapping_sub(first);
        self.go_on(units.div_ceil(BLOCK_UNITS), head);
        Ok(())
    }
}
