//! Event queues.

use crate::device::Device;
use crate::engine::paging::Need;
use crate::layout::queue::eq;
use crate::layout::{Field, Wide, field, word};
use crate::misbehaviour::Misbehaviour;
use crate::objects::EventQueue;

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
    pub(super) const PATH_MIGRATED: u8 = 0x01;
    pub(super) const COMMUNICATION_ESTABLISHED: u8 = 0x02;
    pub(super) const SQ_DRAINED: u8 = 0x03;
    pub(super) const CQ_ERROR: u8 = 0x04;
    pub(super) const WQ_CATASTROPHIC: u8 = 0x05;
    pub(super) const PATH_MIGRATION_FAILED: u8 = 0x07;
    pub(super) const PORT_CHANGE: u8 = 0x09;
    pub(super) const COMMAND: u8 = 0x0a;
    pub(super) const PAGE_FAULT: u8 = 0x0c;
    pub(super) const INVALID_REQUEST: u8 = 0x10;
    pub(super) const ACCESS_ERROR: u8 = 0x11;
    pub(super) const SRQ_CATASTROPHIC: u8 = 0x12;
    pub(super) const LAST_WQE: u8 = 0x13;
    pub(super) const SRQ_LIMIT: u8 = 0x14;
    pub(super) const DCT_DRAINED: u8 = 0x1c;
}

/// Events that an operator can request, by name: type, subtype, and whether they concern the port.
const ON_REQUEST: [(&str, u8, u8, bool); 16] = [
    ("path-migrated", kind::PATH_MIGRATED, 0, false),
    ("established", kind::COMMUNICATION_ESTABLISHED, 0, false),
    ("sq-drained", kind::SQ_DRAINED, 0, false),
    ("qp-fatal", kind::WQ_CATASTROPHIC, 0, false),
    ("path-failed", kind::PATH_MIGRATION_FAILED, 0, false),
    ("request-error", kind::INVALID_REQUEST, 0, false),
    ("access-error", kind::ACCESS_ERROR, 0, false),
    ("srq-error", kind::SRQ_CATASTROPHIC, 0, false),
    ("last-wqe", kind::LAST_WQE, 0, false),
    ("srq-limit", kind::SRQ_LIMIT, 0, false),
    ("cq-error", kind::CQ_ERROR, 0, false),
    ("lid-change", kind::PORT_CHANGE, 6, true),
    ("pkey-change", kind::PORT_CHANGE, 7, true),
    ("gid-change", kind::PORT_CHANGE, 8, true),
    ("client-reregister", kind::PORT_CHANGE, 9, true),
    ("port-initialized", kind::PORT_CHANGE, 5, true),
];

/// Posts an event without a cause, for the object with this number or for the port. `false` if
/// there is no such event.
pub(crate) fn request(device: &mut Device, name: &str, number: u32) -> bool {
    let Some((_, kind, subtype, of_port)) = ON_REQUEST.iter().find(|event| event.0 == name) else {
        return false;
    };
    if *of_port {
        port_change(device, *subtype);
    } else if *kind == kind::CQ_ERROR {
        cq_error(device, number);
    } else {
        let mut event = entry(*kind, *subtype);
        OBJECT.set(&mut event, number);
        broadcast(device, *kind, event);
    }
    true
}

/// The names of the events that can be requested.
pub(crate) fn on_request() -> impl Iterator<Item = &'static str> {
    ON_REQUEST.iter().map(|event| event.0)
}

/// Events that concern a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    Established,
    InvalidRequest,
    AccessError,
    LastWqe,
    SendDrained,
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

/// Posts to every queue that subscribed to events of the type.
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

/// Whether any queue subscribed to command completions.
pub(crate) fn hears_commands(device: &Device) -> bool {
    hears(device, kind::COMMAND)
}

/// Whether any queue subscribed to page faults.
pub(crate) fn hears_page_faults(device: &Device) -> bool {
    hears(device, kind::PAGE_FAULT)
}

fn hears(device: &Device, kind: u8) -> bool {
    device
        .eqs
        .iter()
        .any(|(_, queue)| queue.mask[0] >> kind & 1 != 0)
}

/// Reports that a required page is absent.
pub(crate) fn page_fault(device: &mut Device, need: &Need, token: u32) {
    let subtype = u8::from(matches!(need, Need::Remote { .. }));
    let mut event = entry(kind::PAGE_FAULT, subtype);
    let kind_and = |low: u32| u32::from(need.kind()) << 24 | low;
    match *need {
        Need::Request { queue, index, .. }
        | Need::Receive { queue, index }
        | Need::SharedReceive { queue, index } => {
            field(DATA + 0x04, 15, 0).set(&mut event, u32::from(index));
            word(DATA + 0x0c).set(&mut event, token);
            word(DATA + 0x18).set(&mut event, kind_and(queue));
        }
        Need::Remote {
            key,
            address,
            length,
            packet,
            ..
        } => {
            word(DATA + 0x04).set(&mut event, key);
            field(DATA + 0x08, 15, 0).set(&mut event, packet);
            word(DATA + 0x0c).set(&mut event, length);
            Wide(DATA + 0x10).set(&mut event, address);
            word(DATA + 0x18).set(&mut event, kind_and(token));
        }
    }
    broadcast(device, kind::PAGE_FAULT, event);
}

/// Reports which command slots have finished; nothing receives this before the command event queue
/// exists.
pub(crate) fn command_done(device: &mut Device, slots: u32) {
    let mut event = entry(kind::COMMAND, 0);
    word(DATA).set(&mut event, slots);
    broadcast(device, kind::COMMAND, event);
}

/// Reports that an armed completion queue has a completion.
pub(crate) fn completion(device: &mut Device, eqn: u32, cqn: u32) {
    if device.does_with(cqn, Misbehaviour::NoEvents)
        || device.does_with(cqn, Misbehaviour::LastVector) && is_last(device, eqn)
    {
        return;
    }
    let mut event = entry(kind::COMPLETION, 0);
    OBJECT.set(&mut event, cqn);
    post(device, eqn, event);
}

/// Whether no other queue has a higher vector.
fn is_last(device: &Device, eqn: u32) -> bool {
    let vector = |queue: &EventQueue| queue.vector;
    let last = device.eqs.iter().map(|(_, queue)| vector(queue)).max();
    device.eqs.get(eqn).map(vector) == last
}

/// Reports an event of a queue pair.
pub(crate) fn qp(device: &mut Device, event: QpEvent, qpn: u32) {
    let kind = match event {
        QpEvent::Established => kind::COMMUNICATION_ESTABLISHED,
        QpEvent::InvalidRequest => kind::INVALID_REQUEST,
        QpEvent::AccessError => kind::ACCESS_ERROR,
        QpEvent::LastWqe => kind::LAST_WQE,
        QpEvent::SendDrained => kind::SQ_DRAINED,
    };
    let mut event = entry(kind, 0);
    OBJECT.set(&mut event, qpn);
    broadcast(device, kind, event);
}

/// Reports that a shared receive queue fell below its limit.
pub(crate) fn srq_limit(device: &mut Device, srqn: u32) {
    let mut event = entry(kind::SRQ_LIMIT, 0);
    OBJECT.set(&mut event, srqn);
    broadcast(device, kind::SRQ_LIMIT, event);
}

/// Reports that a completion queue overran.
pub(crate) fn cq_error(device: &mut Device, cqn: u32) {
    let mut event = entry(kind::CQ_ERROR, 0);
    word(DATA).set(&mut event, cqn);
    field(DATA + 0x08, 7, 0).set(&mut event, 1);
    broadcast(device, kind::CQ_ERROR, event);
}

/// Reports that the port changed state: up or down.
pub(crate) fn port(device: &mut Device, up: bool) {
    port_change(device, if up { 4 } else { 1 });
}

fn port_change(device: &mut Device, subtype: u8) {
    let mut event = entry(kind::PORT_CHANGE, subtype);
    field(DATA + 0x08, 31, 28).set(&mut event, 1);
    broadcast(device, kind::PORT_CHANGE, event);
}

/// Reports that a DC target has nothing in flight any more.
pub(crate) fn dct_drained(device: &mut Device, dctn: u32) {
    let mut event = entry(kind::DCT_DRAINED, 0);
    OBJECT_TYPE.set(&mut event, 6);
    OBJECT.set(&mut event, dctn);
    broadcast(device, kind::DCT_DRAINED, event);
}

/// The doorbell of an event queue: a new consumer index, and possibly arming.
pub(crate) fn doorbell(device: &mut Device, page: u32, value: u32, arm: bool) {
    let (eqn, consumer) = (value >> 24, value & COUNTER_MASK);
    let Some(queue) = device.eqs.get_mut(eqn) else {
        device.report("EQ doorbell", &format!("no EQ {eqn}"));
        return;
    };
    let owner = eq::UAR.get(&queue.context);
    if owner != page {
        device.report(
            "EQ doorbell through a foreign page",
            &format!("EQ {eqn} of page {owner:#x} rung through page {page:#x}"),
        );
        return;
    }
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
