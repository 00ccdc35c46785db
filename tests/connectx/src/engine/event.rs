//! Event queues.

use crate::device::Device;
use crate::layout::{Field, field, word};

/// Size of an event queue entry.
pub(crate) const ENTRY: u64 = 64;
const OWNER: u64 = 0x3f;
const TYPE: Field = field(0x00, 23, 16);
const SUBTYPE: Field = field(0x00, 7, 0);
const DATA: usize = 0x20;
const OBJECT_TYPE: Field = field(DATA + 0x14, 7, 0);
const OBJECT: Field = word(DATA + 0x18);
const COUNTER_MASK: u32 = 0xff_ffff;

/// Event types.
mod kind {
    pub(super) const COMPLETION: u8 = 0x00;
    pub(super) const COMMUNICATION_ESTABLISHED: u8 = 0x02;
    pub(super) const CQ_ERROR: u8 = 0x04;
    pub(super) const PORT_CHANGE: u8 = 0x09;
    pub(super) const COMMAND: u8 = 0x0a;
    pub(super) const INVALID_REQUEST: u8 = 0x10;
    pub(super) const ACCESS_ERROR: u8 = 0x11;
    pub(super) const LAST_WQE: u8 = 0x13;
    pub(super) const SRQ_LIMIT: u8 = 0x14;
    pub(super) const DCT_DRAINED: u8 = 0x1c;
}

/// Events that concern a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    Established,
    InvalidRequest,
    AccessError,
    LastWqe,
}

fn post(device: &mut Device, eqn: u32, mut entry: [u8; ENTRY as usize]) {
    let Some(queue) = device.eqs.get_mut(eqn) else {
        return;
    };
    let size = 1u32 << queue.log_size;
    if queue.producer.wrapping_sub(queue.consumer) & COUNTER_MASK >= size {
        device.report("event queue overrun", &format!("EQ {eqn}"));
        return;
    }
    let index = queue.producer;
    let offset = u64::from(index & (size - 1)) * ENTRY;
    let owner = (index >> queue.log_size & 1) as u8;
    queue.producer = index.wrapping_add(1);
    entry[OWNER as usize] = owner ^ 1;
    let written = queue
        .buffer
        .write(&*device.memory, offset, &entry[..OWNER as usize])
        .is_ok()
        && queue
            .buffer
            .address(offset + OWNER)
            .is_some_and(|at| device.memory.publish(at, owner).is_ok());
    let fire = std::mem::take(&mut queue.armed);
    let vector = queue.vector;
    entry[OWNER as usize] = owner;
    device.trace.entry("eqe", device.index, eqn, index, &entry);
    if !written {
        device.report("event queue", "outside guest memory");
    }
    if fire {
        device.interrupts.raise(vector);
    }
}

/// Posts to every queue that asked for events of the type.
fn broadcast(device: &mut Device, kind: u8, entry: [u8; ENTRY as usize]) {
    let wanting: Vec<u32> = device
        .eqs
        .iter()
        .filter(|(_, queue)| queue.mask[usize::from(kind >> 6)] >> (kind & 63) & 1 != 0)
        .map(|(number, _)| number)
        .collect();
    for eqn in wanting {
        post(device, eqn, entry);
    }
}

fn entry(kind: u8, subtype: u8) -> [u8; ENTRY as usize] {
    let mut entry = [0; ENTRY as usize];
    TYPE.set(&mut entry, u32::from(kind));
    SUBTYPE.set(&mut entry, u32::from(subtype));
    entry
}

/// Whether any queue asked for command completions.
pub(crate) fn hears_commands(device: &Device) -> bool {
    device
        .eqs
        .iter()
        .any(|(_, queue)| queue.mask[0] >> kind::COMMAND & 1 != 0)
}

/// Tells which command slots have finished; nobody hears it before the command event queue exists.
pub(crate) fn command_done(device: &mut Device, slots: u32) {
    let mut event = entry(kind::COMMAND, 0);
    word(DATA).set(&mut event, slots);
    broadcast(device, kind::COMMAND, event);
}

/// Tells that an armed completion queue has something.
pub(crate) fn completion(device: &mut Device, eqn: u32, cqn: u32) {
    let mut event = entry(kind::COMPLETION, 0);
    OBJECT.set(&mut event, cqn);
    post(device, eqn, event);
}

/// An event of a queue pair.
pub(crate) fn qp(device: &mut Device, event: QpEvent, qpn: u32) {
    let kind = match event {
        QpEvent::Established => kind::COMMUNICATION_ESTABLISHED,
        QpEvent::InvalidRequest => kind::INVALID_REQUEST,
        QpEvent::AccessError => kind::ACCESS_ERROR,
        QpEvent::LastWqe => kind::LAST_WQE,
    };
    let mut event = entry(kind, 0);
    OBJECT.set(&mut event, qpn);
    broadcast(device, kind, event);
}

/// A shared receive queue fell below its limit.
pub(crate) fn srq_limit(device: &mut Device, srqn: u32) {
    let mut event = entry(kind::SRQ_LIMIT, 0);
    OBJECT.set(&mut event, srqn);
    broadcast(device, kind::SRQ_LIMIT, event);
}

/// A completion queue overran.
pub(crate) fn cq_error(device: &mut Device, cqn: u32) {
    let mut event = entry(kind::CQ_ERROR, 0);
    word(DATA).set(&mut event, cqn);
    field(DATA + 0x08, 7, 0).set(&mut event, 1);
    broadcast(device, kind::CQ_ERROR, event);
}

/// The port changed state: up or down.
pub(crate) fn port(device: &mut Device, up: bool) {
    let mut event = entry(kind::PORT_CHANGE, if up { 4 } else { 1 });
    field(DATA + 0x08, 31, 28).set(&mut event, 1);
    broadcast(device, kind::PORT_CHANGE, event);
}

/// A DC target has nothing in flight any more.
pub(crate) fn dct_drained(device: &mut Device, dctn: u32) {
    let mut event = entry(kind::DCT_DRAINED, 0);
    OBJECT_TYPE.set(&mut event, 6);
    OBJECT.set(&mut event, dctn);
    broadcast(device, kind::DCT_DRAINED, event);
}

/// The doorbell of an event queue: a new consumer counter, and perhaps arming.
pub(crate) fn doorbell(device: &mut Device, value: u32, arm: bool) {
    let (eqn, consumer) = (value >> 24, value & COUNTER_MASK);
    let Some(queue) = device.eqs.get_mut(eqn) else {
        device.report("EQ doorbell", &format!("no EQ {eqn}"));
        return;
    };
    let pending = queue.producer.wrapping_sub(consumer) & COUNTER_MASK;
    if pending > 1 << queue.log_size {
        device.report(
            "EQ doorbell",
            &format!("EQ {eqn}: consumer {consumer:#x} is ahead of the producer"),
        );
        return;
    }
    queue.consumer = consumer;
    if !arm {
        return;
    }
    if pending == 0 {
        queue.armed = true;
    } else {
        let vector = queue.vector;
        device.interrupts.raise(vector);
    }
}
