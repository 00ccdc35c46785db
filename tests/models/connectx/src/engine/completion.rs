//! Completion queues.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::engine::{compress, event, misbehave, uar};
use crate::faults::Spoil;
use crate::layout::queue::cq;
use crate::layout::{Field, Wide, field, word};
use crate::misbehaviour::Misbehaviour;
use crate::objects::{Arm, CompletionQueue};
use crate::signature::Fault;
use crate::status::{Outcome, Rule, require};
use crate::trace::Doorbell;

pub(super) const ENTRY: usize = 64;
const OP_OWN: usize = 0x3f;
/// The bits of the last byte that say that the message is in the entry, or in the 64 bytes before
/// it.
const DATA_32: u8 = 1 << 2;
const DATA_64: u8 = 2 << 2;
const COUNTER_MASK: u32 = 0xff_ffff;

pub(super) const CHECKSUM: Field = field(0x14, 31, 16);
const VLAN_STRIPPED: Field = field(0x1c, 16, 16);
const VLAN: Field = field(0x1c, 15, 0);
const SOURCE_LID: Field = field(0x14, 15, 0);
const FLAGS_QPN: Field = word(0x18);
const USER_INDEX: Field = word(0x20);
const IMMEDIATE: Field = word(0x24);
pub(super) const BYTE_COUNT: Field = word(0x2c);
const TIMESTAMP: Wide = Wide(0x30);
const VENDOR_SYNDROME: Field = field(0x34, 15, 8);
const SYNDROME: Field = field(0x34, 7, 0);
const SEND_OPCODE_QPN: Field = word(0x38);
pub(super) const SEND_OPCODE: Field = field(0x38, 31, 24);
pub(super) const WQE_COUNTER: Field = field(0x3c, 31, 16);
pub(super) const SIGNATURE: usize = 0x3e;

/// Completion opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    Request = 0,
    WriteImmediate = 1,
    Send = 2,
    SendImmediate = 3,
    SendInvalidate = 4,
    Resize = 5,
    SignatureError = 0xc,
    RequestError = 0xd,
    ResponseError = 0xe,
}

/// Why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Syndrome {
    LocalLength = 0x01,
    LocalQpOperation = 0x02,
    LocalProtection = 0x04,
    Flushed = 0x05,
    MemoryWindowBind = 0x06,
    RemoteInvalidRequest = 0x12,
    RemoteAccess = 0x13,
    RemoteOperation = 0x14,
    RetryExceeded = 0x15,
    RnrRetryExceeded = 0x16,
    /// A receive of a shared queue met an absent page.
    RemoteAborted = 0x22,
}

impl Syndrome {
    /// The vendor syndrome that goes with it. Drivers check for that of page faults.
    fn vendors(self) -> u32 {
        match self {
            Self::RemoteAborted => 0x93,
            other => 0x80 | other as u32,
        }
    }
}

/// A completion as it is written, except for the owner bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(super) entry: [u8; ENTRY],
    pub(super) opcode: Opcode,
    /// The bits of the last byte that tell how to read the rest.
    pub(super) format: u8,
    /// The first half of a long entry, if a message is in it.
    pub(super) before: Option<[u8; ENTRY]>,
    pub(super) solicited: bool,
    pub(super) failed: bool,
}

/// One completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) opcode: Opcode,
    pub(crate) qpn: u32,
    pub(crate) user_index: u32,
    pub(crate) wqe_counter: u16,
    pub(crate) send_opcode: u8,
    pub(crate) byte_count: u32,
    pub(crate) immediate: u32,
    /// GRH presence, service level and source queue pair.
    pub(crate) flags_qpn: u32,
    pub(crate) source_lid: u16,
    /// Sum over the IP packet of a raw frame.
    pub(crate) checksum: u16,
    /// The VLAN tag that was taken out of a raw frame.
    pub(crate) vlan: Option<u16>,
    pub(crate) syndrome: Option<Syndrome>,
    pub(crate) solicited: bool,
}

impl Completion {
    /// A completion without any of the optional fields.
    pub(crate) fn new(opcode: Opcode, qpn: u32, user_index: u32, wqe_counter: u16) -> Self {
        Self {
            opcode,
            qpn,
            user_index,
            wqe_counter,
            send_opcode: 0,
            byte_count: 0,
            immediate: 0,
            flags_qpn: 0,
            source_lid: 0,
            checksum: 0,
            vlan: None,
            syndrome: None,
            solicited: false,
        }
    }

    /// A failed one.
    pub(crate) fn failed(self, syndrome: Syndrome) -> Self {
        Self {
            syndrome: Some(syndrome),
            solicited: true,
            ..self
        }
    }

    fn encode(&self, now: u64) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        CHECKSUM.set(&mut entry, u32::from(self.checksum));
        if let Some(tag) = self.vlan {
            VLAN_STRIPPED.set(&mut entry, 1);
            VLAN.set(&mut entry, tag.into());
        }
        SOURCE_LID.set(&mut entry, u32::from(self.source_lid));
        FLAGS_QPN.set(&mut entry, self.flags_qpn);
        USER_INDEX.set(&mut entry, self.user_index);
        IMMEDIATE.set(&mut entry, self.immediate);
        BYTE_COUNT.set(&mut entry, self.byte_count);
        TIMESTAMP.set(&mut entry, now);
        if let Some(syndrome) = self.syndrome {
            entry[0x30..0x38].fill(0);
            VENDOR_SYNDROME.set(&mut entry, syndrome.vendors());
            SYNDROME.set(&mut entry, syndrome as u32);
        }
        SEND_OPCODE_QPN.set(&mut entry, u32::from(self.send_opcode) << 24 | self.qpn);
        WQE_COUNTER.set(&mut entry, u32::from(self.wqe_counter));
        sign(&mut entry);
        entry
    }
}

fn sign(entry: &mut [u8; ENTRY]) {
    entry[SIGNATURE] = !entry[..SIGNATURE].iter().fold(0, |sum, byte| sum ^ byte);
}

/// The longest message that fits into an entry.
pub(super) const LONGEST: usize = ENTRY;

/// Number of message bytes that a short entry has room for.
pub(super) const INSIDE: usize = 32;

/// Length of an entry that is not a long one.
pub(super) const SHORT: u64 = ENTRY as u64;

/// Writes a completion, raises the event if the queue is armed for it, and handles overrun.
pub(crate) fn push(device: &mut Device, cqn: u32, completion: Completion) {
    if device.faults.misbehaves_at_all() {
        misbehave::push(device, cqn, completion);
    } else {
        enter(device, cqn, completion);
    }
}

/// As [`push`], without applying misbehaviours.
pub(super) fn enter(device: &mut Device, cqn: u32, completion: Completion) {
    let ready = ready(device, cqn, completion);
    push_ready(device, cqn, &ready);
}

fn ready(device: &Device, cqn: u32, completion: Completion) -> Ready {
    Ready {
        entry: completion.encode(misbehave::stamp(device, cqn)),
        opcode: completion.opcode,
        format: 0,
        before: None,
        solicited: completion.solicited,
        failed: completion.syndrome.is_some(),
    }
}

/// The same for a completion that contains its message: in the first half of a long entry, or at
/// the start of a short one.
pub(super) fn push_with(device: &mut Device, cqn: u32, completion: Completion, message: &[u8]) {
    let mut ready = ready(device, cqn, completion);
    let long = device
        .cqs
        .get(cqn)
        .is_some_and(|queue| queue.cqe_size > ENTRY as u64);
    if let Some(room) = ready.entry.get_mut(..INSIDE)
        && message.len() <= INSIDE
        && !long
    {
        room.fill(0);
        room[..message.len()].copy_from_slice(message);
        ready.format = DATA_32;
        sign(&mut ready.entry);
    } else {
        let mut before = [0; ENTRY];
        for (byte, of_message) in before.iter_mut().zip(message) {
            *byte = *of_message;
        }
        ready.before = Some(before);
        ready.format = DATA_64;
    }
    push_ready(device, cqn, &ready);
}

/// Writes the entry about a wrong signature of what went through a key.
pub(super) fn push_wrong(device: &mut Device, cqn: u32, qpn: u32, key: u32, fault: &Fault) {
    const EXPECTED_HIGH: Field = word(0x10);
    const ACTUAL_HIGH: Field = word(0x14);
    const EXPECTED_LOW: Field = word(0x18);
    const ACTUAL_LOW: Field = word(0x1c);
    const PROBLEM: Field = field(0x20, 31, 16);
    const SIDE: Field = field(0x20, 2, 0);
    const KEY: Field = word(0x24);
    const OFFSET: Wide = Wide(0x28);
    let mut entry = [0; ENTRY];
    EXPECTED_HIGH.set(&mut entry, (fault.came >> 32) as u32);
    EXPECTED_LOW.set(&mut entry, fault.came as u32);
    ACTUAL_HIGH.set(&mut entry, (fault.computed >> 32) as u32);
    ACTUAL_LOW.set(&mut entry, fault.computed as u32);
    PROBLEM.set(&mut entry, fault.syndrome.into());
    SIDE.set(&mut entry, fault.side.into());
    KEY.set(&mut entry, key);
    OFFSET.set(&mut entry, fault.offset);
    SEND_OPCODE_QPN.set(&mut entry, qpn);
    sign(&mut entry);
    let ready = Ready {
        entry,
        opcode: Opcode::SignatureError,
        format: 0,
        before: None,
        solicited: false,
        failed: true,
    };
    push_ready(device, cqn, &ready);
}

fn push_ready(device: &mut Device, cqn: u32, ready: &Ready) {
    let Some(queue) = device.cqs.get(cqn) else {
        return;
    };
    if queue.failed {
        return;
    }
    let consumer = device.read_be32(queue.doorbell).unwrap_or(0);
    let size = 1u32 << queue.log_size;
    let pending = queue.producer.wrapping_sub(consumer) & COUNTER_MASK;
    let overruns = pending + queue.waiting.len() as u32 >= size;
    if overruns && !cq::IGNORE_OVERRUN.is_set(&queue.context) {
        compress::flush(device, cqn);
        overrun(device, cqn);
        return;
    }
    let waits = compress::waits(queue, ready);
    if !waits || !compress::joins(queue, ready) {
        compress::flush(device, cqn);
    }
    if !waits {
        put(device, cqn, ready, 1);
        return;
    }
    if let Some(queue) = device.cqs.get_mut(cqn) {
        queue.waiting.push(*ready);
        device.waiting_cqs.insert(cqn);
    }
}

/// Writes an entry that represents `count` completions.
pub(super) fn put(device: &mut Device, cqn: u32, ready: &Ready, count: u32) {
    write(device, cqn, ready);
    let Some(queue) = device.cqs.get_mut(cqn) else {
        return;
    };
    let solicited = ready.solicited || ready.failed;
    queue.producer = queue.producer.wrapping_add(count);
    if solicited {
        queue.solicited = queue.producer;
    }
    let fire = match queue.arm {
        Some(Arm::Any) => true,
        Some(Arm::Solicited) => solicited,
        None => false,
    };
    if fire {
        let eqn = queue.eqn;
        let stays = device.does_with(cqn, Misbehaviour::ArmStays);
        if let Some(queue) = device.cqs.get_mut(cqn).filter(|_| !stays) {
            queue.arm = None;
        }
        event::completion(device, eqn, cqn);
    }
}

/// The offset of the 64 bytes that every entry has: the second half of a long entry.
fn offset(device: &Device, queue: &CompletionQueue, index: u32) -> u64 {
    let slot = u64::from(index & ((1 << queue.log_size) - 1)) * queue.cqe_size;
    if device.does(Misbehaviour::LongEntries) {
        return slot;
    }
    slot + queue.cqe_size - ENTRY as u64
}

/// Writes bytes that are not an entry of their own into the slot of one.
pub(super) fn write_raw(device: &mut Device, cqn: u32, index: u32, bytes: &[u8; ENTRY]) {
    let Some(queue) = device.cqs.get(cqn) else {
        return;
    };
    let at = offset(device, queue, index);
    let written = queue.buffer.write(&*device.memory, at, bytes).is_ok();
    device
        .trace
        .entry("cqe array", device.index, cqn, index, bytes);
    if !written {
        device.report("completion queue", "outside guest memory");
    }
}

fn write(device: &mut Device, cqn: u32, ready: &Ready) {
    let spoil = device.faults.spoils();
    let Some(queue) = device.cqs.get(cqn) else {
        return;
    };
    let index = queue.producer;
    let offset = offset(device, queue, index);
    let late = index >> queue.log_size >= 2 && device.does_with(cqn, Misbehaviour::ThirdLap);
    let owner = (index >> queue.log_size & 1) as u8 ^ u8::from(late);
    let mut entry = ready.entry;
    entry[OP_OWN] =
        (ready.opcode as u8) << 4 | ready.format | u8::from(ready.solicited) << 1 | owner;
    if let Some(kind) = spoil {
        spoilt(&mut entry, kind);
    }
    let message = ready.before.is_none_or(|before| {
        let start = offset.saturating_sub(ENTRY as u64);
        queue.buffer.write(&*device.memory, start, &before).is_ok()
    });
    let written = message
        && queue
            .buffer
            .write(&*device.memory, offset, &entry[..OP_OWN])
            .is_ok()
        && queue
            .buffer
            .address(offset + OP_OWN as u64)
            .is_some_and(|at| device.memory.publish(at, entry[OP_OWN]).is_ok());
    device.trace.entry("cqe", device.index, cqn, index, &entry);
    if !written {
        device.report("completion queue", "outside guest memory");
    }
}

/// Corrupts one property of an entry.
fn spoilt(entry: &mut [u8; ENTRY], kind: Spoil) {
    const NO_OPCODE: u8 = 0x9;
    const NO_SYNDROME: u32 = 0x7f;
    let flip = |entry: &mut [u8; ENTRY], field: Field, bits: u32| {
        let value = field.get(entry);
        field.set(entry, value ^ bits);
    };
    match kind {
        Spoil::Opcode => entry[OP_OWN] = entry[OP_OWN] & 0xf | NO_OPCODE << 4,
        Spoil::QueueNumber => flip(entry, SEND_OPCODE_QPN, 0xff_fffe),
        Spoil::UserIndex => flip(entry, USER_INDEX, 0xff_fffe),
        Spoil::Counter => flip(entry, WQE_COUNTER, 0xffff),
        Spoil::Owner => entry[OP_OWN] ^= 1,
        Spoil::Syndrome => {
            let error = if entry[OP_OWN] >> 4 == Opcode::Request as u8 {
                Opcode::RequestError
            } else {
                Opcode::ResponseError
            };
            entry[OP_OWN] = entry[OP_OWN] & 0xf | (error as u8) << 4;
            SYNDROME.set(entry, NO_SYNDROME);
        }
        Spoil::Length => BYTE_COUNT.set(entry, u32::MAX),
        Spoil::Signature => entry[SIGNATURE] ^= 0xff,
    }
}

/// A full queue stops, and with it every queue pair that completes to it.
fn overrun(device: &mut Device, cqn: u32) {
    if let Some(queue) = device.cqs.get_mut(cqn) {
        queue.failed = true;
    }
    device.report("completion queue overrun", &format!("CQ {cqn:#x}"));
    event::cq_error(device, cqn);
    let users: Vec<u32> = device
        .qps
        .iter()
        .filter(|(_, qp)| qp.send_cq() == cqn || qp.recv_cq() == cqn)
        .map(|(number, _)| number)
        .collect();
    for qpn in users {
        device.fail_qp(qpn);
    }
}

fn trace_arm(device: &Device, cqn: u32, value: u64) {
    if let (true, Some(queue)) = (device.trace.is_on(), device.cqs.get(cqn)) {
        let word = |at| {
            queue
                .doorbell
                .checked_add(at)
                .and_then(|at| device.read_be32(at))
        };
        device.trace.doorbell(
            device.index,
            &Doorbell {
                kind: "arm",
                queue: cqn,
                place: uar::CQ_ARM,
                value,
                records: &[word(0), word(4)],
                copied: false,
            },
        );
    }
}

/// The arm doorbell: two words, the sequence number with command and consumer index, and the
/// queue's number.
pub(crate) fn doorbell(device: &mut Device, page: u32, value: u64) {
    let (first, cqn) = ((value >> 32) as u32, value as u32 & COUNTER_MASK);
    let consumer = first & COUNTER_MASK;
    trace_arm(device, cqn, value);
    let Some(queue) = device.cqs.get(cqn) else {
        device.report("CQ doorbell", &format!("no CQ {cqn:#x}"));
        return;
    };
    let owner = cq::UAR.get(&queue.context);
    if owner != page {
        device.report(
            "CQ doorbell through a foreign page",
            &format!("CQ {cqn:#x} of page {owner:#x} armed through page {page:#x}"),
        );
        return;
    }
    let any = device.does_with(cqn, Misbehaviour::SolicitedArm);
    let late = device.does_with(cqn, Misbehaviour::LateArm);
    let Some(queue) = device.cqs.get_mut(cqn) else {
        return;
    };
    let arm = if first >> 24 & 1 != 0 && !any {
        Arm::Solicited
    } else {
        Arm::Any
    };
    let reached = match arm {
        Arm::Any => queue.producer,
        Arm::Solicited => queue.solicited,
    };
    let ahead = reached.wrapping_sub(consumer) & COUNTER_MASK;
    if ahead != 0 && ahead < 1 << 23 {
        queue.arm = None;
        if late {
            return;
        }
        let eqn = queue.eqn;
        event::completion(device, eqn, cqn);
    } else {
        queue.arm = Some(arm);
    }
}

/// Moves a queue to a new buffer: the old one ends with a resize entry, and software itself finds
/// there what it has not taken yet.
pub(crate) fn resize(
    device: &mut Device,
    cqn: u32,
    context: &[u8],
    buffer: Buffer,
    cqe_size: u64,
) -> Outcome {
    compress::flush(device, cqn);
    let queue = device.cqs.get(cqn).ok_or(Rule::NoSuchObject.refuse())?;
    let consumer = device.read_be32(queue.doorbell).unwrap_or(0);
    let pending = queue.producer.wrapping_sub(consumer) & COUNTER_MASK;
    require(pending < 1 << cq::LOG_SIZE.get(context), Rule::Outstanding)?;
    let marker = Ready {
        entry: Completion::new(Opcode::Resize, 0, 0, 0).encode(device.now),
        opcode: Opcode::Resize,
        format: 0,
        before: None,
        solicited: false,
        failed: false,
    };
    write(device, cqn, &marker);
    misbehave::resized(device, cqn);
    let queue = device.cqs.get_mut(cqn).ok_or(Rule::NoSuchObject.refuse())?;
    queue.producer = queue.producer.wrapping_add(1);
    queue.buffer = buffer;
    queue.cqe_size = cqe_size;
    queue.log_size = cq::LOG_SIZE.get(context);
    for field in [cq::LOG_SIZE, cq::LOG_PAGE, cq::PAGE_OFFSET, cq::CQE_SIZE] {
        field.copy(context, &mut queue.context);
    }
    Ok(())
}
