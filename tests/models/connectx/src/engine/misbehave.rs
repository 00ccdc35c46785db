//! Where messages, completions and headers go wrong on request; see [`Misbehaviour`].

use std::sync::Arc;

use crate::device::Device;
use crate::engine::atomic::Atomic;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::fabric::Fabric;
use crate::engine::message::{Action, Message, Payload};
use crate::engine::receive::{Pool, Posted};
use crate::memory::{GuestMemory, Span, total};
use crate::misbehaviour::Misbehaviour;

/// How late the data of a read may be, in nanoseconds: its reader's memory stays that long.
const LATE: u64 = 20_000_000;
/// Number of additions carried out for each one that is not.
const ADDITIONS: u64 = 16;
/// The index of the request, from 0, that has no effect.
pub(super) const LOST: u16 = 0xfff;
const HOUR: u64 = 3_600_000_000_000;
const PAGE: u64 = 4096;

/// What a misbehaving function has deferred.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    /// A completion that lets another one overtake it, and its queue.
    held: Option<(u32, Completion)>,
    /// Read data that is not in memory yet.
    reads: Vec<Late>,
    /// The queue whose next completion is lost.
    losing: Option<u32>,
    additions: u64,
}

/// Bytes destined for a reader's memory.
#[derive(Debug)]
struct Late {
    memory: Arc<dyn GuestMemory>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    since: u64,
}

impl Device {
    /// Whether a function was asked for this misbehaviour.
    pub(crate) fn does(&self, misbehaviour: Misbehaviour) -> bool {
        self.faults.does(misbehaviour)
    }

    /// Whether a program's completion queue is to show this misbehaviour.
    pub(super) fn does_with(&self, cqn: u32, misbehaviour: Misbehaviour) -> bool {
        self.does(misbehaviour) && self.cqs.owner(cqn).is_some_and(|uid| uid != 0)
    }
}

impl Fabric {
    /// Gives a function these misbehaviours and no others.
    pub fn misbehave(&mut self, function: usize, what: &[Misbehaviour]) {
        if let Some(device) = self.devices.get_mut(function) {
            release(device);
            device.faults.put_off = PutOff::default();
            device.faults.misbehave(what);
        }
    }
}

/// Writes a completion, or whatever is written in its place.
pub(super) fn push(device: &mut Device, cqn: u32, done: Completion) {
    let does = |kind| device.does_with(cqn, kind);
    if does(Misbehaviour::LostCompletions) {
        return;
    }
    let (loses, swaps) = (
        does(Misbehaviour::ResizeLoses),
        does(Misbehaviour::CompletionOrder),
    );
    let done = changed(done, does);
    let put_off = &mut device.faults.put_off;
    if loses && put_off.losing == Some(cqn) {
        put_off.losing = None;
        return;
    }
    if !swaps {
        completion::enter(device, cqn, done);
        return;
    }
    match put_off.held.take() {
        Some((held_by, held)) if held_by == cqn => {
            completion::enter(device, cqn, done);
            completion::enter(device, cqn, held);
        }
        other => {
            put_off.held = Some((cqn, done));
            if let Some((cqn, held)) = other {
                completion::enter(device, cqn, held);
            }
        }
    }
}

/// Writes the completion held back, because nothing comes that could overtake it.
pub(super) fn release(device: &mut Device) {
    if let Some((cqn, held)) = device.faults.put_off.held.take() {
        completion::enter(device, cqn, held);
    }
}

/// Notes that a queue has been resized.
pub(super) fn resized(device: &mut Device, cqn: u32) {
    device.faults.put_off.losing = Some(cqn);
}

fn changed(mut done: Completion, does: impl Fn(Misbehaviour) -> bool) -> Completion {
    let immediate = matches!(done.opcode, Opcode::SendImmediate | Opcode::WriteImmediate);
    let received = immediate || matches!(done.opcode, Opcode::Send | Opcode::SendInvalidate);
    if received && does(Misbehaviour::ByteCount) {
        done.byte_count = done.byte_count.wrapping_add(1);
    }
    if immediate && does(Misbehaviour::ImmediateOrder) {
        done.immediate = done.immediate.swap_bytes();
    }
    if immediate && does(Misbehaviour::NoImmediate) {
        done.opcode = Opcode::Send;
    }
    if received && does(Misbehaviour::HeaderFlag) {
        done.flags_qpn ^= 1 << 28;
    }
    if received && does(Misbehaviour::SourceQueue) {
        done.flags_qpn ^= 0xff_fffe;
    }
    match done.syndrome {
        Some(Syndrome::Flushed) if does(Misbehaviour::FlushedAsDone) => {
            done.syndrome = None;
            done.opcode = match done.opcode {
                Opcode::RequestError => Opcode::Request,
                _ => Opcode::Send,
            };
        }
        Some(Syndrome::Flushed) | None => {}
        Some(syndrome) if does(Misbehaviour::Syndrome) => {
            done.syndrome = Some(match syndrome {
                Syndrome::LocalQpOperation => Syndrome::LocalProtection,
                _ => Syndrome::LocalQpOperation,
            });
        }
        Some(_) => {}
    }
    done
}

/// The timestamp of a completion.
pub(super) fn stamp(device: &Device, cqn: u32) -> u64 {
    let now = device.now;
    if device.does_with(cqn, Misbehaviour::StampBack) {
        (1 << 60) - now.min(1 << 60)
    } else if device.does_with(cqn, Misbehaviour::StampFar) {
        now.saturating_add(HOUR)
    } else {
        now
    }
}

/// Corrupts what a message wrote to `spans`.
pub(super) fn arrived(device: &Device, memory: &dyn GuestMemory, spans: &[Span]) {
    if device.does(Misbehaviour::Data) {
        change_last(memory, spans);
    }
    if let Some(last) = spans.last()
        && device.does(Misbehaviour::DataBeyond)
    {
        let beyond = last.address + last.length;
        // The next page may belong to somebody else.
        if !beyond.is_multiple_of(PAGE) {
            let _ = memory.write(beyond, &[0]);
        }
    }
}

/// Corrupts what a frame wrote to a program's receive.
pub(super) fn frame(device: &Device, cqn: u32, spans: &[Span]) {
    if device.does_with(cqn, Misbehaviour::Data) {
        change_last(&*device.memory, spans);
    }
}

/// Corrupts what a message wrote to a receive, if that is the one to be lost.
pub(super) fn lost(device: &Device, pool: Pool, posted: &Posted, spans: &[Span]) {
    let last = match pool {
        Pool::Shared(number) => {
            let queue = device.shared.get(number);
            queue.is_some_and(|queue| queue.consumed == LOST + 1)
        }
        Pool::Own(_) | Pool::Raw(_) => posted.index == LOST,
    };
    if last && device.does(Misbehaviour::LostRequest) {
        change_last(&*device.memory, spans);
    }
}

fn change_last(memory: &dyn GuestMemory, spans: &[Span]) {
    let mut byte = [0];
    let last = spans.iter().rev().find(|span| span.length > 0);
    if let Some(at) = last.map(|span| span.address + span.length - 1)
        && memory.read(at, &mut byte).is_ok()
    {
        let _ = memory.write(at, &[!byte[0]]);
    }
}

/// Defers the data that a message reads; `false` if it is to arrive at once.
pub(super) fn put_off(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    spans: &[Span],
) -> bool {
    if !device.does(Misbehaviour::LateReads) {
        return false;
    }
    let length = usize::try_from(total(spans)).unwrap_or(usize::MAX);
    let Ok(bytes) = Payload::Memory(spans.to_vec()).bytes(&*device.memory, length) else {
        return false;
    };
    device.faults.put_off.reads.push(Late {
        memory: Arc::clone(source),
        spans: message.answer.clone(),
        bytes,
        since: device.now,
    });
    true
}

/// Delivers deferred data, after another message.
pub(super) fn bring(device: &mut Device, message: &Message) {
    if device.faults.put_off.reads.is_empty() || matches!(message.action, Action::Read) {
        return;
    }
    let now = device.now;
    for late in std::mem::take(&mut device.faults.put_off.reads) {
        if now.saturating_sub(late.since) < LATE {
            let _ = Payload::Inline(late.bytes).copy(&*late.memory, &*late.memory, &late.spans);
        }
    }
}

/// What becomes of an atomic operation; `None`: it is reported as done but not done.
pub(super) fn atomic(device: &mut Device, operation: Atomic) -> Option<Atomic> {
    let does = |kind| device.faults.does(kind);
    Some(match operation {
        Atomic::CompareSwap {
            mut compare,
            mut compare_mask,
            mut swap,
            swap_mask,
        } => {
            if does(Misbehaviour::AtomicOperands) {
                std::mem::swap(&mut compare, &mut swap);
            }
            if does(Misbehaviour::AtomicCompare) {
                compare_mask &= u64::from(u32::MAX);
            }
            Atomic::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            }
        }
        Atomic::FetchAdd { add, boundary } => {
            if does(Misbehaviour::AtomicLost) {
                let count = &mut device.faults.put_off.additions;
                *count += 1;
                if count.is_multiple_of(ADDITIONS) {
                    return None;
                }
            }
            let carry = device.does(Misbehaviour::AtomicCarry);
            Atomic::FetchAdd {
                add,
                boundary: boundary | u64::from(carry) << 31,
            }
        }
    })
}

/// Changes the header in front of a datagram.
pub(super) fn header(device: &Device, header: &mut [u8], ip4: bool) {
    if device.does(Misbehaviour::HeaderMissing) {
        header.fill(0);
    }
    let (protocol, sender) = if ip4 { (29, 35) } else { (6, 23) };
    for (kind, at) in [
        (Misbehaviour::HeaderProtocol, protocol),
        (Misbehaviour::HeaderAddress, sender),
    ] {
        if let Some(byte) = header.get_mut(at).filter(|_| device.does(kind)) {
            *byte ^= 0x55;
        }
    }
}
