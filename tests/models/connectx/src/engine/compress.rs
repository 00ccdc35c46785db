//! Compressed completions: a title with what they have in common, and arrays of what is different
//! about each.
//!
//! Completions wait while there is work to do. Those that are alike are then written to memory
//! together: the title in the slot of the first, the first array in the second slot, the next one
//! in the ninth, and so on. The other slots keep what they held.

use super::completion::{self, ENTRY, Opcode, Ready};
use super::misbehave;
use crate::device::Device;
use crate::engine::fabric::Fabric;
use crate::layout::queue::cq;
use crate::layout::{Field, field, word};
use crate::misbehaviour::Misbehaviour;
use crate::objects::CompletionQueue;
use crate::status::{Outcome, Rule, require};

/// The largest number of completions that are compressed into one.
pub(crate) const MOST: u32 = 64;

/// The bits of the last byte that say that an entry represents several completions.
const FORMAT: u8 = 3 << 2;
/// Number of completions that an array has room for.
const EACH: usize = 8;
/// Bytes of each.
const MINI: usize = 8;

/// Mini-entry format that keeps the checksum of a message; format 0 keeps its hash, which is not
/// modelled.
const SUM: u32 = 1;

const TIMESTAMP: std::ops::Range<usize> = 0x30..0x38;

/// Refuses a queue that requests a compression feature that is not supported.
pub(crate) fn check(context: &[u8]) -> Outcome {
    let format = cq::MINI_FORMAT.get(context);
    require(format <= SUM || !is_on(context), Rule::Reserved)?;
    // The layout with an iteration count in every entry.
    require(cq::COMPRESSION_LAYOUT.get(context) == 0, Rule::Reserved)
}

fn is_on(context: &[u8]) -> bool {
    cq::COMPRESSED.is_set(context)
}

/// Whether completions of a queue may wait for others.
pub(crate) fn waits(queue: &CompletionQueue, ready: &Ready) -> bool {
    is_on(&queue.context)
        && !ready.failed
        && ready.format == 0
        && (ready.opcode as u8) <= Opcode::SendInvalidate as u8
}

/// Whether a completion can be written together with those that wait.
pub(crate) fn joins(queue: &CompletionQueue, ready: &Ready) -> bool {
    let (Some(first), Some(last)) = (queue.waiting.first(), queue.waiting.last()) else {
        return true;
    };
    let request = ready.opcode == Opcode::Request;
    let follows = request
        || completion::WQE_COUNTER.get(&ready.entry)
            == (completion::WQE_COUNTER.get(&last.entry) + 1) & 0xffff;
    follows
        && queue.waiting.len() < MOST.min(1 << queue.log_size) as usize
        && common(&queue.context, first) == common(&queue.context, ready)
}

/// What compressed completions have in common.
fn common(context: &[u8], ready: &Ready) -> (Opcode, bool, [u8; ENTRY]) {
    let mut entry = ready.entry;
    completion::BYTE_COUNT.set(&mut entry, 0);
    completion::WQE_COUNTER.set(&mut entry, 0);
    entry[TIMESTAMP].fill(0);
    entry[completion::SIGNATURE] = 0;
    if ready.opcode == Opcode::Request {
        completion::SEND_OPCODE.set(&mut entry, 0);
    } else if cq::MINI_FORMAT.get(context) == SUM {
        completion::CHECKSUM.set(&mut entry, 0);
    }
    (ready.opcode, ready.solicited, entry)
}

/// Writes the completions that wait in a queue.
pub(crate) fn flush(device: &mut Device, cqn: u32) {
    let Some(queue) = device.cqs.get_mut(cqn) else {
        return;
    };
    let waiting = std::mem::take(&mut queue.waiting);
    let [first, _, ..] = waiting.as_slice() else {
        if let Some(single) = waiting.first() {
            completion::put(device, cqn, single, 1);
        }
        return;
    };
    let sums = cq::MINI_FORMAT.get(&queue.context) == SUM;
    let start = queue.producer;
    for (group, eight) in (0u32..).zip(waiting.chunks(EACH)) {
        let mut array = [0; ENTRY];
        for (slot, ready) in array.chunks_exact_mut(MINI).zip(eight) {
            slot.copy_from_slice(&mini(ready, sums));
        }
        let at = start.wrapping_add((group * EACH as u32).max(1));
        completion::write_raw(device, cqn, at, &array);
    }
    let mut title = *first;
    title.format = FORMAT;
    let fewer = u32::from(device.does_with(cqn, Misbehaviour::CompressedCount));
    completion::BYTE_COUNT.set(&mut title.entry, waiting.len() as u32 - fewer);
    completion::put(device, cqn, &title, waiting.len() as u32);
}

/// What is different about one completion.
fn mini(ready: &Ready, sums: bool) -> [u8; MINI] {
    const COUNTER: Field = field(0, 31, 16);
    const SEND_OPCODE: Field = field(0, 15, 8);
    const LENGTH: Field = word(4);
    let mut mini = [0; MINI];
    LENGTH.set(&mut mini, completion::BYTE_COUNT.get(&ready.entry));
    if ready.opcode == Opcode::Request {
        COUNTER.set(&mut mini, completion::WQE_COUNTER.get(&ready.entry));
        SEND_OPCODE.set(&mut mini, completion::SEND_OPCODE.get(&ready.entry));
    } else if sums {
        COUNTER.set(&mut mini, completion::CHECKSUM.get(&ready.entry));
    }
    mini
}

impl Fabric {
    /// Writes all completions that wait for others, because no more will come now.
    pub(super) fn end_waiting(&mut self) {
        for device in &mut self.devices {
            misbehave::release(device);
            for cqn in std::mem::take(&mut device.waiting_cqs) {
                flush(device, cqn);
            }
        }
    }
}
