//! Raw send queues: Ethernet frames as written by software.

use crate::device::Device;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::ethernet;
use crate::engine::fabric::Fabric;
use crate::engine::message::Payload;
use crate::engine::receive::segment;
use crate::engine::send::Step;
use crate::engine::wqe::{Control, UNIT};
use crate::layout::queue::{ring, wq};
use crate::layout::transport::tis;
use crate::layout::{be16, be32};
use crate::memory_key::{Access, Right};
use crate::objects::RingState;
use crate::profile::limit;

/// Send an Ethernet frame.
const SEND: u8 = 0x0a;
const NOP: u8 = 0x00;
/// Send one long TCP segment as many frames.
const SEGMENT: u8 = 0x0e;
/// Where the Ethernet segment gives the length of the inline headers, and where the headers begin.
const INLINE_LENGTH: usize = UNIT + 12;
const INLINE_HEADERS: usize = UNIT + 14;
/// Top bit of a data segment that contains its data itself.
const INLINE_DATA: u32 = 1 << 31;
const INSERT_VLAN: u16 = 0x8000;
/// Bytes of each frame that some devices require inline: two addresses, a type and a VLAN tag.
const MIN_INLINE: usize = 18;
const CHECKSUM_FLAGS: usize = UNIT + 4;
const SEGMENT_SIZE: usize = UNIT + 6;
/// The largest frame, and the largest TCP segment to be split.
const MAX_FRAME: usize = 9216 + 18;
const MAX_SEGMENT: usize = 64 << 10;

impl Fabric {
    /// Carries out the next work request of a raw send queue.
    pub(super) fn step_raw(&mut self, function: usize, sqn: u32) -> Step {
        let now = self.now;
        let Some(device) = self.devices.get_mut(function) else {
            return Step::Idle;
        };
        let Some(queue) = device.sqs.get(sqn) else {
            return Step::Idle;
        };
        if !device.bus_master() || queue.state == RingState::Reset {
            return Step::Idle;
        }
        if queue.state == RingState::Error {
            return flush(device, sqn);
        }
        if queue.blocked_until > now {
            return Step::Wait(queue.blocked_until);
        }
        let Some((control, bytes)) = next(device, sqn) else {
            return Step::Idle;
        };
        let (control, bytes) = device.pushed_or(sqn, control, bytes);
        let sent = match control.opcode {
            NOP => Ok(Vec::new()),
            SEND => frame(device, sqn, &bytes, MAX_FRAME).map(|frame| vec![frame]),
            SEGMENT => frame(device, sqn, &bytes, MAX_SEGMENT).and_then(|frame| {
                ethernet::segments(&frame, usize::from(be16(&bytes, SEGMENT_SIZE)))
                    .ok_or(Syndrome::LocalLength)
            }),
            _ => Err(Syndrome::LocalQpOperation),
        };
        let length = sent.as_ref().map_or(0, |frames| {
            frames.iter().map(|frame| frame.len() as u64).sum()
        });
        if let Some(until) = self.shaper_gate_raw(function, sqn, length) {
            return Step::Wait(until);
        }
        for frame in sent.iter().flatten() {
            self.broadcast(function, sqn, frame);
        }
        let Some(device) = self.devices.get_mut(function) else {
            return Step::Idle;
        };
        device.trace.wqe(function, sqn, control.index, &bytes);
        let Some(queue) = device.sqs.get_mut(sqn) else {
            return Step::Idle;
        };
        let index = queue.consumer;
        queue.consumer = index.wrapping_add(control.blocks());
        *device.served.entry(sqn).or_insert(0) += length;
        let (cqn, user_index) = (queue.cqn(), ring::USER_INDEX.get(&queue.context));
        let opcode = if sent.is_ok() {
            Opcode::Request
        } else {
            Opcode::RequestError
        };
        let mut done = Completion::new(opcode, sqn, user_index, index);
        done.send_opcode = control.opcode;
        done.byte_count = length as u32;
        if let Err(syndrome) = sent {
            queue.state = RingState::Error;
            completion::push(device, cqn, done.failed(syndrome));
        } else if control.signaled {
            completion::push(device, cqn, done);
        }
        Step::Progress
    }

    /// Delivers a frame to every port of the switch, including the sender's; their flow tables
    /// select what is for them.
    fn broadcast(&mut self, function: usize, sqn: u32, frame: &[u8]) {
        if frame.is_empty()
            || !self
                .devices
                .get(function)
                .is_some_and(|device| device.link_up)
        {
            return;
        }
        let domain = self.devices.get(function).and_then(|device| {
            let queue = device.sqs.get(sqn)?;
            let tis = device.tises.get(ring::TIS.get(&queue.context))?;
            Some(tis::TD.get(tis))
        });
        for (index, device) in self.devices.iter_mut().enumerate() {
            if device.link_up && device.bus_master() {
                let sender = domain.filter(|_| index == function);
                ethernet::receive(device, frame, sender);
            }
        }
    }
}

/// Completes the next work request of a stopped queue in error.
fn flush(device: &mut Device, sqn: u32) -> Step {
    let Some((control, _)) = next(device, sqn) else {
        return Step::Idle;
    };
    let Some(queue) = device.sqs.get_mut(sqn) else {
        return Step::Idle;
    };
    let index = queue.consumer;
    queue.consumer = index.wrapping_add(control.blocks());
    let (cqn, user_index) = (queue.cqn(), ring::USER_INDEX.get(&queue.context));
    let done = Completion::new(Opcode::RequestError, sqn, user_index, index);
    completion::push(device, cqn, done.failed(Syndrome::Flushed));
    Step::Progress
}

fn next(device: &Device, sqn: u32) -> Option<(Control, Vec<u8>)> {
    let queue = device.sqs.get(sqn)?;
    let producer = device.read_be32(queue.doorbell.checked_add(4)?)? as u16;
    let left = producer.wrapping_sub(queue.consumer);
    let ready = if queue.state == RingState::Ready {
        device.rung_for(sqn, queue.consumer, producer)
    } else {
        left
    };
    if ready == 0 {
        return None;
    }
    let mut bytes = vec![0; 64];
    let at = |block: u16| {
        u64::from(u32::from(queue.consumer.wrapping_add(block)) & (queue.entries - 1)) * 64
    };
    queue.buffer.read(&*device.memory, at(0), &mut bytes).ok()?;
    let mut control = Control::parse(&bytes);
    if control.blocks() > left || usize::from(control.blocks()) * 64 > limit::WQE {
        control.units = 4;
    }
    for block in 1..control.blocks() {
        let mut more = [0; 64];
        queue
            .buffer
            .read(&*device.memory, at(block), &mut more)
            .ok()?;
        bytes.extend_from_slice(&more);
    }
    bytes.truncate((control.units * UNIT).max(UNIT));
    Some((control, bytes))
}

/// The frame of a work request: headers inline in the Ethernet segment, then the data segments.
fn frame(device: &Device, sqn: u32, bytes: &[u8], max: usize) -> Result<Vec<u8>, Syndrome> {
    let queue = device.sqs.get(sqn).ok_or(Syndrome::LocalQpOperation)?;
    let inline = be16(bytes, INLINE_LENGTH);
    // With the top bit set, the field is a VLAN tag to be inserted rather than headers.
    let vlan = (inline & INSERT_VLAN != 0).then(|| be16(bytes, INLINE_HEADERS));
    let inline = if vlan.is_some() {
        0
    } else {
        usize::from(inline)
    };
    if device.config.inline_headers && inline < MIN_INLINE {
        return Err(Syndrome::LocalQpOperation);
    }
    let mut frame = bytes
        .get(INLINE_HEADERS..INLINE_HEADERS + inline)
        .ok_or(Syndrome::LocalQpOperation)?
        .to_vec();
    // Two bytes of headers fit in the segment itself.
    let mut at = 2 * UNIT + inline.saturating_sub(2).next_multiple_of(UNIT);
    // The queue's own PD for kernel rings, that of its TIS for programs' rings.
    let tis = device.tises.get(ring::TIS.get(&queue.context));
    let pd = match tis.map_or(0, |tis| tis::PD.get(tis)) {
        0 => wq::PD.at(ring::WQ).get(&queue.context),
        pd => pd,
    };
    debug_assert!(tis.is_none_or(|tis| tis.len() == tis::LEN));
    while at + UNIT <= bytes.len() {
        let count = be32(bytes, at);
        if count & INLINE_DATA != 0 {
            let length = (count & 0x3ff) as usize;
            let data = bytes
                .get(at + 4..at + 4 + length)
                .ok_or(Syndrome::LocalQpOperation)?;
            frame.extend_from_slice(data);
            at += (4 + length).next_multiple_of(UNIT);
            continue;
        }
        let segment = segment(bytes, at);
        let access = Access {
            key: segment.key,
            address: segment.address,
            length: segment.length,
            pd: if pd == 0 {
                key_domain(device, segment.key)
            } else {
                pd
            },
            qpn: sqn,
            right: Right::LocalRead,
        };
        if segment.length > max as u64 {
            return Err(Syndrome::LocalLength);
        }
        let mut spans = Vec::new();
        device
            .translate(access, &mut spans)
            .map_err(|_| Syndrome::LocalProtection)?;
        let part = Payload::Memory(spans)
            .bytes(&*device.memory, max)
            .map_err(|_| Syndrome::LocalProtection)?;
        frame.extend_from_slice(&part);
        if frame.len() > max {
            return Err(Syndrome::LocalLength);
        }
        at += UNIT;
    }
    if let Some(tag) = vlan
        && frame.len() >= 12
    {
        let [high, low] = tag.to_be_bytes();
        frame.splice(12..12, [0x81, 0x00, high, low]);
    }
    ethernet::offload(&mut frame, bytes.get(CHECKSUM_FLAGS).copied().unwrap_or(0));
    Ok(frame)
}

/// A ring that names no protection domain uses the key's.
fn key_domain(device: &Device, key: u32) -> u32 {
    device
        .mkeys
        .get(key >> 8)
        .map_or(0, |key| crate::layout::queue::mkey::PD.get(&key.context))
}
