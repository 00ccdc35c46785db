//! Requests of the vendor's: changes of indirect keys, and requests that are composed elsewhere.

use uverbs_core::PostError;
use uverbs_core::types::{SendFlags, WcOpcode};

use super::SendRing;
use crate::tracker::SentKind;
use crate::wqe::layout::{BLOCK, HEAD_UNITS, KeyChange};
use crate::wqe::operations::Operations;
use crate::wqe::request::Kind;
use crate::wqe::signature::{self, Signing};
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
        self.put_signed_key_change(wr_id, flags, change, &Signing::default())
    }

    /// The same with what it says of signatures: several requests, of which only the last one
    /// completes.
    pub(crate) fn put_signed_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        change: &KeyChange<'_>,
        signing: &Signing,
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
        let behind = signing.units();
        if padded + behind > room {
            let requested = u32::try_from(entries).unwrap_or(u32::MAX);
            let max = u32::try_from(room.saturating_sub(behind)).unwrap_or(u32::MAX);
            return Err(PostError::TooManySges { requested, max });
        }
        let mut head = change.head()?;
        signing.put(&mut head);
        let mut psvs = signing.psvs.iter().flatten().peekable();
        let at = self.admit_more(psvs.clone().count())?;
        let mut writer = self.writer(at);
        writer.units(&head);
        if let Some(layout) = &change.layout {
            layout.each(|unit| writer.unit(unit));
        }
        for _ in entries..padded {
            writer.unit([0; 2]);
        }
        for bsf in signing.formats.iter().flatten() {
            writer.units(bsf);
        }
        let at = writer.at;
        let kind = Kind {
            fence: control::SMALL_FENCE,
            ..Kind::new(opcode::UMR, change.key.raw(), WcOpcode::Driver1)
        };
        let quiet = flags.difference(SendFlags::SIGNALED);
        if psvs.peek().is_none() {
            self.commit_as(wr_id, flags, kind, at, SentKind::KEY_CHANGE);
            return Ok(());
        }
        self.commit_silently(wr_id, quiet, kind, at, SentKind::KEY_CHANGE);
        while let Some((number, value)) = psvs.next() {
            let flags = if psvs.peek().is_some() { quiet } else { flags };
            let first = self.end.block.wrapping_mul(BLOCK_UNITS).wrapping_add(1);
            let mut writer = self.writer(first);
            writer.unit(signature::psv(*number, *value));
            let at = writer.at;
            let kind = Kind {
                fence: control::SMALL_FENCE,
                ..Kind::new(opcode::SET_PSV, 0, WcOpcode::Driver1)
            };
            self.commit_as(wr_id, flags, kind, at, SentKind::KEY_CHANGE);
        }
        Ok(())
    }

    /// As [`admit`](Self::admit), with room for `more` requests behind the next one.
    fn admit_more(&mut self, more: usize) -> Result<u32, PostError> {
        let at = self.admit()?;
        let room = u64::from(self.room).saturating_sub(self.end.requests.since(self.tail));
        if room <= more as u64 {
            self.look_for_room(self.end.flags);
            let room = u64::from(self.room).saturating_sub(self.end.requests.since(self.tail));
            if room <= more as u64 {
                return Err(PostError::QueueFull);
            }
        }
        Ok(at)
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
