//! Receive work requests: from a queue pair's own ring or a shared one.

use crate::device::Device;
use crate::engine::event;
use crate::layout::{be16, be32, be64, qp};
use crate::memory::{Span, total};
use crate::memory_key::{Access, KeyError, Right};
use crate::objects::{QueuePair, SharedQueue};
use crate::trace::Receive;

/// The key that ends a scatter list before all its entries are used.
const END_OF_LIST: u32 = 0x100;

/// Where receives are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    Own(u32),
    Raw(u32),
    Shared(u32),
}

/// One scatter/gather entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) length: u64,
    pub(crate) key: u32,
    pub(crate) address: u64,
}

/// Reads a data segment; a byte count of 0 means 2 GiB.
pub(crate) fn segment(bytes: &[u8], at: usize) -> Segment {
    let count = be32(bytes, at) & 0x7fff_ffff;
    let length = if count == 0 {
        1 << 31
    } else {
        u64::from(count)
    };
    Segment {
        length,
        key: be32(bytes, at + 4),
        address: be64(bytes, at + 8),
    }
}

/// A receive work request taken from its queue.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) index: u16,
    pub(crate) segments: Vec<Segment>,
}

/// Why a message does not fit its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    TooLong,
    Protection,
    /// A page is absent: the kernel may be asked for it.
    Absent,
}

/// The segment before the data of an entry of a shared queue. It names the next entry; in a cyclic
/// queue, which UCX uses, it is there, too, and names nothing.
const NEXT: usize = 16;

fn scatter_list(bytes: &[u8]) -> Vec<Segment> {
    (0..bytes.len() / 16)
        .map(|i| segment(bytes, i * 16))
        .take_while(|segment| segment.key != END_OF_LIST)
        .collect()
}

/// Number of receives in a shared queue.
pub(crate) fn available(device: &Device, queue: &SharedQueue) -> Option<u16> {
    let producer = device.read_be32(queue.doorbell)? as u16;
    Some(producer.wrapping_sub(queue.consumed))
}

/// The receives in a queue pair's own receive queue, in its order.
pub(crate) fn waiting_own(device: &Device, pair: &QueuePair) -> Vec<Posted> {
    let Some(record) = device.read_be32(pair.doorbell) else {
        return Vec::new();
    };
    let posted = (record as u16).wrapping_sub(pair.recv.consumer);
    // Never more than the ring holds, whatever the record says.
    let count = u32::from(posted).min(pair.recv.entries);
    let read = |step: u32| {
        let index = pair.recv.consumer.wrapping_add(step as u16);
        let slot = u64::from(u32::from(index) & (pair.recv.entries - 1));
        let mut entry = vec![0; pair.recv.stride as usize];
        let offset = slot * u64::from(pair.recv.stride);
        let read = pair.buffer.read(&*device.memory, offset, &mut entry);
        read.ok().map(|()| Posted {
            index,
            segments: scatter_list(&entry),
        })
    };
    (0..count).map_while(read).collect()
}

/// The receives in a shared queue, in its order.
pub(crate) fn waiting(device: &Device, queue: &SharedQueue) -> Vec<Posted> {
    let mask = (1u32 << queue.log_size) - 1;
    let count = u32::from(available(device, queue).unwrap_or(0)).min(mask + 1);
    let mut posted = Vec::new();
    let mut at = if queue.cyclic {
        u32::from(queue.consumed)
    } else {
        queue.head
    };
    for _ in 0..count {
        let mut entry = vec![0; queue.stride as usize];
        let offset = u64::from(at & mask) * u64::from(queue.stride);
        if queue
            .buffer
            .read(&*device.memory, offset, &mut entry)
            .is_err()
        {
            break;
        }
        posted.push(Posted {
            index: (at & mask) as u16,
            segments: scatter_list(entry.get(NEXT..).unwrap_or(&[])),
        });
        at = if queue.cyclic {
            at + 1
        } else {
            u32::from(be16(&entry, 2))
        };
    }
    posted
}

/// Takes the next receive of a pool, if there is one.
pub(crate) fn take(device: &mut Device, pool: Pool) -> Option<Posted> {
    match pool {
        Pool::Own(qpn) => take_own(device, qpn),
        Pool::Raw(rqn) => take_raw(device, rqn),
        Pool::Shared(srqn) => take_shared(device, srqn),
    }
}

fn take_own(device: &mut Device, qpn: u32) -> Option<Posted> {
    let pair = device.qps.get(qpn)?;
    if pair.recv.entries == 0 {
        return None;
    }
    let record = device.read_be32(pair.doorbell)?;
    let index = pair.recv.consumer;
    if record as u16 == index {
        return None;
    }
    let mut entry = vec![0; pair.recv.stride as usize];
    let slot = u64::from(u32::from(index) & (pair.recv.entries - 1));
    pair.buffer
        .read(
            &*device.memory,
            slot * u64::from(pair.recv.stride),
            &mut entry,
        )
        .ok()?;
    device.trace.receive(
        device.index,
        &Receive {
            pool: "qp",
            queue: qpn,
            index: index.into(),
            record,
            bytes: &entry,
        },
    );
    let skip = if qp::SIGNATURE.is_set(&pair.context) {
        16
    } else {
        0
    };
    let posted = Posted {
        index,
        segments: scatter_list(entry.get(skip..)?),
    };
    device.qps.get_mut(qpn)?.recv.consumer = index.wrapping_add(1);
    Some(posted)
}

fn take_raw(device: &mut Device, rqn: u32) -> Option<Posted> {
    let queue = device.rqs.get(rqn)?;
    let record = device.read_be32(queue.doorbell)?;
    let index = queue.consumer;
    if record as u16 == index {
        return None;
    }
    let mut entry = vec![0; queue.stride as usize];
    let slot = u64::from(u32::from(index) & (queue.entries - 1));
    let offset = slot * u64::from(queue.stride);
    queue
        .buffer
        .read(&*device.memory, offset, &mut entry)
        .ok()?;
    device.trace.receive(
        device.index,
        &Receive {
            pool: "rq",
            queue: rqn,
            index: index.into(),
            record,
            bytes: &entry,
        },
    );
    let segments = scatter_list(&entry);
    device.rqs.get_mut(rqn)?.consumer = index.wrapping_add(1);
    Some(Posted { index, segments })
}

fn take_shared(device: &mut Device, srqn: u32) -> Option<Posted> {
    let queue = device.shared.get(srqn)?;
    if available(device, queue)? == 0 {
        return None;
    }
    let mask = (1u32 << queue.log_size) - 1;
    let index = if queue.cyclic {
        u32::from(queue.consumed)
    } else {
        queue.head
    } & mask;
    let mut entry = vec![0; queue.stride as usize];
    queue
        .buffer
        .read(
            &*device.memory,
            u64::from(index) * u64::from(queue.stride),
            &mut entry,
        )
        .ok()?;
    device.trace.receive(
        device.index,
        &Receive {
            pool: "srq",
            queue: srqn,
            index,
            record: device.read_be32(queue.doorbell)?,
            bytes: &entry,
        },
    );
    let next = u32::from(be16(&entry, 2));
    let segments = scatter_list(entry.get(NEXT..)?);
    let queue = device.shared.get_mut(srqn)?;
    queue.head = next & mask;
    queue.consumed = queue.consumed.wrapping_add(1);
    check_limit(device, srqn);
    Some(Posted {
        index: index as u16,
        segments,
    })
}

/// Puts the receive that was last taken from a queue pair's own queue back into its place, to be
/// taken again.
pub(crate) fn put_back(device: &mut Device, qpn: u32, posted: &Posted) {
    if let Some(pair) = device.qps.get_mut(qpn) {
        pair.recv.consumer = posted.index;
    }
}

/// Fires the limit event once if the queue holds fewer receives than its limit.
pub(crate) fn check_limit(device: &mut Device, srqn: u32) {
    let Some(queue) = device.shared.get(srqn) else {
        return;
    };
    if queue.limit == 0 || available(device, queue).is_none_or(|left| left >= queue.limit) {
        return;
    }
    if let Some(queue) = device.shared.get_mut(srqn) {
        queue.limit = 0;
    }
    event::srq_limit(device, srqn);
}

/// Number of bytes that a receive has room for.
pub(crate) fn room(posted: &Posted) -> u64 {
    posted.segments.iter().map(|segment| segment.length).sum()
}

/// The memory that `length` bytes of a message are written to.
pub(crate) fn scatter(
    device: &Device,
    posted: &Posted,
    length: u64,
    pd: u32,
    qpn: u32,
) -> Result<Vec<Span>, Misfit> {
    let mut spans = Vec::new();
    let mut left = length;
    for segment in &posted.segments {
        if left == 0 {
            break;
        }
        let take = segment.length.min(left);
        let Segment { key, address, .. } = *segment;
        let access = Access {
            key,
            address,
            length: take,
            pd,
            qpn,
            right: Right::LocalWrite,
        };
        device
            .translate(access, &mut spans)
            .map_err(|reason| match reason {
                KeyError::Absent => Misfit::Absent,
                _ => Misfit::Protection,
            })?;
        left -= take;
    }
    debug_assert!(total(&spans) + left == length);
    if left == 0 {
        Ok(spans)
    } else {
        Err(Misfit::TooLong)
    }
}
