//! Maps a queue that the kernel announced, and validates its layout once.

use uverbs_core::hw::{RingLayout, SharedRing};
use uverbs_core::sys::{Mapping, Protection};
use uverbs_core::{Error, Op, Result, UverbsFile};
use uverbs_uapi::rdma_user_rxe::{mminfo, rxe_queue_buf};

/// Maps the queue that `info` describes, whose slots must have at least `min_slot` bytes. Two
/// system calls.
pub(crate) fn map(file: &UverbsFile, op: Op, info: mminfo, min_slot: usize) -> Result<SharedRing> {
    let (offset, len) = range(op, info)?;
    let mapping = file.map(offset, len, Protection::ReadWrite)?;
    ring(op, info, mapping, min_slot)
}

/// Maps two queues, each with its minimum slot size. Usually three system calls.
pub(crate) fn map_both(
    file: &UverbsFile,
    op: Op,
    first: (mminfo, usize),
    second: (mminfo, usize),
) -> Result<(SharedRing, SharedRing)> {
    let ranges = (range(op, first.0)?, range(op, second.0)?);
    let mappings = file.map_both(ranges.0, ranges.1, Protection::ReadWrite)?;
    Ok((
        ring(op, first.0, mappings.0, first.1)?,
        ring(op, second.0, mappings.1, second.1)?,
    ))
}

fn range(op: Op, info: mminfo) -> Result<(u64, usize)> {
    let len = usize::try_from(info.size).map_err(|_| Error::bad_reply(op, "queue size"))?;
    Ok((info.offset, len))
}

/// The slot size and the number of slots are in the shared header; they are read here and never
/// again, because the other side could change them.
fn ring(op: Op, info: mminfo, mapping: Mapping, min_slot: usize) -> Result<SharedRing> {
    let word = |offset| {
        mapping.load_u32(offset).ok_or_else(|| {
            Error::bad_reply(op, "a queue without a header").fact("bytes", info.size)
        })
    };
    let log2_slot = word(std::mem::offset_of!(rxe_queue_buf, log2_elem_size))?;
    let mask = word(std::mem::offset_of!(rxe_queue_buf, index_mask))?;
    let bad_shape = || {
        Error::bad_reply(op, "a queue with an impossible layout")
            .fact("log2_slot_size", log2_slot)
            .fact("index_mask", mask)
            .fact("bytes", info.size)
    };
    let slot_size = 1_usize
        .checked_shl(log2_slot)
        .filter(|size| *size >= min_slot)
        .ok_or_else(bad_shape)?;
    let layout = RingLayout {
        producer: std::mem::offset_of!(rxe_queue_buf, producer_index),
        consumer: std::mem::offset_of!(rxe_queue_buf, consumer_index),
        data: size_of::<rxe_queue_buf>(),
        slot_size,
        slots: mask.checked_add(1).ok_or_else(bad_shape)?,
    };
    SharedRing::new(mapping, layout).ok_or_else(bad_shape)
}
