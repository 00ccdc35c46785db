//! What a function may still write: the memory of everything that is posted and not completed.

use crate::device::Device;
use crate::engine::atomic::is_atomic;
use crate::engine::fabric::{Fabric, FunctionId};
use crate::engine::receive::{self, Posted, Segment};
use crate::engine::wqe::{self, Control, UNIT, opcode};
use crate::memory_key::{Access, Right};
use crate::objects::{QpState, QueuePair};

const BLOCK: usize = 64;

impl Fabric {
    /// Fills with `byte` all memory that the receives, reads and atomics in a function's queues
    /// allow it to write to, as the queues stand in memory now. Returns the number of bytes.
    pub fn scribble(&self, function: FunctionId, byte: u8) -> u64 {
        let Some(device) = self.devices.get(function) else {
            return 0;
        };
        let pairs = device.qps.iter();
        let of_pairs = pairs.map(|(number, pair)| of_pair(device, number, pair, byte));
        let shared = device.shared.iter();
        let of_shared = shared.map(|(_, queue)| {
            let posted = receive::waiting(device, queue);
            let each = posted.iter();
            // These belong to no queue pair yet; keys here are bound to none in particular.
            each.map(|posted| fill(device, &posted.segments, (queue.pd, 0), byte))
                .sum()
        });
        of_pairs.chain::<Vec<u64>>(of_shared.collect()).sum()
    }

    /// Number of receives in a shared queue.
    #[must_use]
    pub fn shared_receives(&self, function: FunctionId, number: u32) -> Option<u16> {
        let device = self.devices.get(function)?;
        receive::available(device, device.shared.get(number)?)
    }
}

fn of_pair(device: &Device, number: u32, pair: &QueuePair, byte: u8) -> u64 {
    let owner = (pair.pd(), number);
    let receives = match pair.state {
        // No receives are taken in these states, and those of a stopped queue are flushed.
        QpState::Reset | QpState::Error => Vec::new(),
        _ => receive::waiting_own(device, pair),
    };
    let reads = match pair.state {
        QpState::ReadyToSend | QpState::SendDraining => reads(device, pair),
        _ => Vec::new(),
    };
    let receives = receives.iter().map(|Posted { segments, .. }| segments);
    receives
        .chain(&reads)
        .map(|segments| fill(device, segments, owner, byte))
        .sum()
}

/// Where the reads and atomics in a send queue put the data they return.
fn reads(device: &Device, pair: &QueuePair) -> Vec<Vec<Segment>> {
    let mut found = Vec::new();
    let Some(record) = pair.doorbell.checked_add(4) else {
        return found;
    };
    let producer = device.read_be32(record).unwrap_or(0) as u16;
    let mut index = pair.send.consumer;
    // Never more than the ring holds, whatever the record says.
    for _ in 0..pair.send.blocks {
        let posted = producer.wrapping_sub(index);
        if posted == 0 {
            break;
        }
        let Some(head) = fetch(device, pair, index, 1) else {
            break;
        };
        let control = Control::parse(&head);
        let blocks = control.blocks().min(posted);
        let writes = control.opcode == opcode::RDMA_READ || is_atomic(control.opcode);
        if writes
            && let Some(mut bytes) = fetch(device, pair, index, blocks)
            && let () = bytes.truncate(control.units * UNIT)
            && let Ok(request) = wqe::parse(&bytes, pair.service)
        {
            found.push(request.segments);
        }
        index = index.wrapping_add(blocks);
    }
    found
}

fn fetch(device: &Device, pair: &QueuePair, index: u16, blocks: u16) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::from(blocks) * BLOCK];
    for (step, block) in (0..).zip(bytes.chunks_mut(BLOCK)) {
        let slot = u32::from(index).wrapping_add(step) & pair.send.blocks.checked_sub(1)?;
        let offset = pair.send.offset + u64::from(slot) * BLOCK as u64;
        pair.buffer.read(&*device.memory, offset, block).ok()?;
    }
    Some(bytes)
}

/// Fills what the keys grant and skips the rest.
fn fill(device: &Device, segments: &[Segment], (pd, qpn): (u32, u32), byte: u8) -> u64 {
    let mut written = 0;
    for segment in segments {
        let access = Access {
            key: segment.key,
            address: segment.address,
            length: segment.length,
            pd,
            qpn,
            right: Right::LocalWrite,
        };
        let mut spans = Vec::new();
        if device.translate(access, &mut spans).is_err() {
            continue;
        }
        for span in spans {
            let pattern = vec![byte; span.length as usize];
            if device.memory.write(span.address, &pattern).is_ok() {
                written += span.length;
            }
        }
    }
    written
}
