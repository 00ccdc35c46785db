//! The memory of a queue pair.

use std::sync::Arc;

use uverbs_core::hw::{
    BlockRing, KeepMapped, PagePool, Part, QueueBuffer, QueueMemory, Record, UnitRing,
};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::plan::Plan;
use crate::wqe::{BLOCK_UNITS, UNIT};

/// The memory of a queue pair: its rings and its doorbell record.
pub(super) struct Memory {
    /// Its address: receive ring, then send ring.
    pub(super) main: u64,
    /// The address of the send ring of a raw packet queue pair, which is a queue of its own.
    pub(super) apart: u64,
    pub(super) send: Option<BlockRing>,
    pub(super) recv: Option<UnitRing>,
    /// What the device may use until the queue pair is destroyed.
    pub(super) kept: [Option<KeepMapped>; 2],
    pub(super) record: Arc<Record>,
}

impl Memory {
    pub(super) fn new(
        op: Op,
        memory: Option<&Arc<dyn QueueMemory>>,
        pool: &PagePool,
        record: Record,
        plan: &Plan,
    ) -> Result<Self> {
        let (send, recv) = (plan.send.bytes(), plan.recv.bytes());
        let mut kept = [None, None];
        let mut allocate = |bytes: u32| -> Result<Option<Part>> {
            if bytes == 0 {
                return Ok(None);
            }
            let pages = pool
                .for_queue(memory, bytes as usize, QueueBuffer::QueuePair)
                .map_err(|errno| Error::os(op, errno))?;
            let part = Part::from(pages);
            kept[usize::from(kept[0].is_some())] = Some(part.keep_mapped());
            Ok(Some(part))
        };
        let address = |part: Option<&Part>| part.map_or(0, Part::address);
        let (main, apart, rings) = if plan.apart {
            let (recv, send) = (allocate(recv)?, allocate(send)?);
            (address(recv.as_ref()), address(send.as_ref()), (recv, send))
        } else {
            let total = recv
                .checked_add(send)
                .ok_or_else(|| Error::new(op, ErrorKind::LimitExceeded))?;
            let both = allocate(total)?;
            let main = address(both.as_ref());
            let parts = both.and_then(|both| both.split(recv as usize));
            (main, 0, parts.unzip())
        };
        let blocks = send / (UNIT * BLOCK_UNITS);
        Ok(Self {
            main,
            apart,
            send: rings.1.and_then(|part| BlockRing::new(part, blocks)),
            recv: rings.0.and_then(|part| UnitRing::new(part, recv / UNIT)),
            kept,
            record: Arc::new(record),
        })
    }
}
