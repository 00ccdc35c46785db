//! Raw send and receive queues, and the TIS, TIR and RQ table objects around them.

use super::Command;
use crate::buffer::sized;
use crate::engine::flush;
use crate::layout::command::{CURRENT_STATE, MODIFY_MASK, RING_CTX, op};
use crate::layout::queue::{ring, wq};
use crate::layout::transport::{rqt, tir, tis};
use crate::layout::{Field, be32, field};
use crate::objects::{RawRing, RingState};
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};
use crate::table::Table;

const MODIFY_PACING: u64 = 1 << 0;
const MODIFY_GROUP: u64 = 1 << 2;
/// Of a receive queue.
const MODIFY_VLAN: u64 = 1 << 1;
const MODIFY_LOOPBACK: u64 = 1 << 4;
/// The largest RQ table.
const MAX_TABLE: u32 = 256;

/// Runs one command of this family.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    match opcode {
        op::CREATE_TIS => create_tis(command),
        op::CREATE_TIR => create_tir(command),
        op::CREATE_RQT => create_rqt(command),
        op::MODIFY_RQT => modify_rqt(command),
        op::MODIFY_TIS | op::MODIFY_TIR => modify_plain(command, opcode),
        op::DESTROY_TIS => command
            .device
            .tises
            .take(command.number(), command.uid)
            .map(|_| ()),
        op::DESTROY_TIR => command
            .device
            .tirs
            .take(command.number(), command.uid)
            .map(|_| ()),
        op::DESTROY_RQT => command
            .device
            .tables
            .take(command.number(), command.uid)
            .map(|_| ()),
        op::QUERY_TIS => query(command, |device| &device.tises),
        op::QUERY_TIR => query(command, |device| &device.tirs),
        op::QUERY_RQT => query(command, |device| &device.tables),
        op::CREATE_SQ => create_ring(command, true),
        op::CREATE_RQ => create_ring(command, false),
        op::MODIFY_SQ => modify_sq(command),
        op::MODIFY_RQ => modify_rq(command),
        op::DESTROY_SQ => destroy_sq(command),
        op::DESTROY_RQ => destroy_rq(command),
        op::QUERY_SQ => query_ring(command, true),
        op::QUERY_RQ => query_ring(command, false),
        _ => Err(Rule::UnknownOpcode.refuse()),
    }
}

fn create_tis(command: &mut Command<'_>) -> Outcome {
    let context = command.context(RING_CTX, tis::LEN);
    command
        .device
        .domains
        .shared(tis::TD.get(&context), command.uid)?;
    let number = command.device.tises.add(command.uid, context)?;
    command.reply(number);
    Ok(())
}

fn create_tir(command: &mut Command<'_>) -> Outcome {
    let context = command.context(RING_CTX, tir::LEN);
    let uid = command.uid;
    // Programs that do their own steering name no transport domain.
    let domain = tir::TD.get(&context);
    if domain != 0 {
        command.device.domains.shared(domain, uid)?;
    }
    match tir::DISPATCH.get(&context) {
        0 => command
            .device
            .rqs
            .shared(tir::INLINE_RQN.get(&context), uid)
            .map(|_| ())?,
        1 => command
            .device
            .tables
            .shared(tir::TABLE.get(&context), uid)
            .map(|_| ())?,
        _ => return Err(Rule::Reserved.refuse()),
    }
    let number = command.device.tirs.add(uid, context)?;
    command.reply(number);
    Ok(())
}

/// Copies a table of at most `max` receive queues and checks each of them.
fn rq_table(command: &Command<'_>, max: u32) -> Outcome<Vec<u8>> {
    let header = command.context(RING_CTX, rqt::LEN);
    let actual = rqt::ACTUAL_SIZE.get(&header);
    require(actual <= max && max <= MAX_TABLE, Rule::BadSize)?;
    let mut context = command.context(RING_CTX, rqt::LIST + actual as usize * 4);
    rqt::MAX_SIZE.set(&mut context, max);
    for i in 0..actual as usize {
        let rqn = be32(&context, rqt::LIST + i * 4) & 0xff_ffff;
        command.device.rqs.shared(rqn, command.uid)?;
    }
    Ok(context)
}

fn create_rqt(command: &mut Command<'_>) -> Outcome {
    let max = rqt::MAX_SIZE.at(RING_CTX).get(command.input);
    let context = rq_table(command, max)?;
    let number = command.device.tables.add(command.uid, context)?;
    command.reply(number);
    Ok(())
}

fn modify_rqt(command: &mut Command<'_>) -> Outcome {
    let (number, uid) = (command.number(), command.uid);
    let max = rqt::MAX_SIZE.get(command.device.tables.of(number, uid)?);
    let table = rq_table(command, max)?;
    *command.device.tables.of_mut(number, uid)? = table;
    Ok(())
}

fn modify_plain(command: &mut Command<'_>, opcode: u16) -> Outcome {
    let (number, uid) = (command.number(), command.uid);
    if opcode == op::MODIFY_TIS {
        return command.device.tises.of(number, uid).map(|_| ());
    }
    // Otherwise: the model neither computes the Toeplitz hash nor merges packets.
    let context = command.context(RING_CTX, tir::LEN);
    let loopback = command.get64(MODIFY_MASK) & MODIFY_LOOPBACK != 0;
    let old = command.device.tirs.of_mut(number, uid)?;
    if loopback {
        tir::SELF_LOOPBACK.copy(&context, old);
    }
    Ok(())
}

fn query(
    command: &mut Command<'_>,
    table: fn(&crate::device::Device) -> &Table<Vec<u8>>,
) -> Outcome {
    let context = table(command.device)
        .of(command.number(), command.uid)?
        .clone();
    command.reply_context(RING_CTX, &context);
    Ok(())
}

fn create_ring(command: &mut Command<'_>, send: bool) -> Outcome {
    let context = command.context(RING_CTX, ring::LEN);
    let uid = command.uid;
    let at = |field: Field| field.at(ring::WQ).get(&context);
    require(ring::STATE.get(&context) == 0, Rule::RingState)?;
    command.device.cqs.shared(ring::CQN.get(&context), uid)?;
    let log_stride = at(wq::LOG_STRIDE);
    if send {
        require(ring::TIS_LIST_SIZE.get(&context) <= 1, Rule::BadSize)?;
        if ring::TIS_LIST_SIZE.get(&context) == 1 {
            command.device.tises.shared(ring::TIS.get(&context), uid)?;
        }
        command.device.uars.shared(at(wq::UAR), uid)?;
        require(log_stride == 6, Rule::BadSize)?;
    } else {
        require(ring::MEM_RQ_TYPE.get(&context) == 0, Rule::ElementType)?;
        // The kernel's own ring for dropped frames has no buffers and therefore no protection
        // domain.
        if uid != 0 || at(wq::PD) != 0 {
            command.device.pds.shared(at(wq::PD), uid)?;
        }
        require((4..=12).contains(&log_stride), Rule::BadSize)?;
    }
    let length = sized(
        wq::LOG_SIZE.at(ring::WQ),
        &context,
        limit::LOG_WQ,
        1 << log_stride,
    )?;
    let queue = RawRing {
        buffer: command.ring_buffer(&context, length)?,
        doorbell: command.ring_doorbell(&context)?,
        entries: 1 << at(wq::LOG_SIZE),
        stride: 1 << log_stride,
        consumer: 0,
        state: RingState::Reset,
        queued: false,
        blocked_until: 0,
        context,
    };
    let number = command.device.numbers.add(uid, ())?;
    let group = ring::QUEUE_GROUP.get(&queue.context);
    if send && group != 0 {
        command.device.scheduler.attach(uid, 0, group)?;
    }
    let table = if send {
        &mut command.device.sqs
    } else {
        &mut command.device.rqs
    };
    table.put(uid, number, queue);
    command.reply(number);
    Ok(())
}

/// Checks the state that the command expects and returns the state it requests.
fn transition(command: &Command<'_>, queue: &RawRing, context: &[u8]) -> Outcome<RingState> {
    require(
        command.get(CURRENT_STATE) == queue.state as u32,
        Rule::RingState,
    )?;
    let next = RingState::parse(ring::STATE.get(context)).ok_or(Rule::Reserved.refuse())?;
    require(
        !(queue.state == RingState::Error && next == RingState::Ready),
        Rule::RingState,
    )?;
    Ok(next)
}

fn modify_sq(command: &mut Command<'_>) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let context = command.context(RING_CTX, ring::LEN);
    let mask = command.get64(MODIFY_MASK);
    let queue = command.device.sqs.of(number, uid)?;
    let next = transition(command, queue, &context)?;
    if mask & MODIFY_PACING != 0 {
        let index = ring::PACING_INDEX.get(&context) as u16;
        require(
            index == 0 || command.device.pacing.get(index).is_some(),
            Rule::NoSuchObject,
        )?;
    }
    if mask & MODIFY_GROUP != 0 {
        let old = ring::QUEUE_GROUP.get(&queue.context);
        command
            .device
            .scheduler
            .attach(uid, old, ring::QUEUE_GROUP.get(&context))?;
    }
    let queue = command.device.sqs.of_mut(number, uid)?;
    if mask & MODIFY_PACING != 0 {
        ring::PACING_INDEX.copy(&context, &mut queue.context);
    }
    if mask & MODIFY_GROUP != 0 {
        ring::QUEUE_GROUP.copy(&context, &mut queue.context);
    }
    enter(queue, next);
    command.device.kicked.push(number);
    Ok(())
}

fn modify_rq(command: &mut Command<'_>) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let context = command.context(RING_CTX, ring::LEN);
    let next = transition(command, command.device.rqs.of(number, uid)?, &context)?;
    let changes_vlan = command.get64(MODIFY_MASK) & MODIFY_VLAN != 0;
    let queue = command.device.rqs.of_mut(number, uid)?;
    if changes_vlan {
        ring::KEEPS_VLAN.copy(&context, &mut queue.context);
    }
    enter(queue, next);
    if next == RingState::Error {
        flush::raw_receives(command.device, number);
    }
    Ok(())
}

fn enter(queue: &mut RawRing, next: RingState) {
    if next == RingState::Reset {
        queue.consumer = 0;
    }
    queue.state = next;
}

fn destroy_sq(command: &mut Command<'_>) -> Outcome {
    let number = command.number();
    let queue = command.device.sqs.take(number, command.uid)?;
    command
        .device
        .scheduler
        .detach(ring::QUEUE_GROUP.get(&queue.context));
    command.device.numbers.take(number, 0)
}

fn destroy_rq(command: &mut Command<'_>) -> Outcome {
    let number = command.number();
    let device = &mut *command.device;
    device.rqs.of(number, command.uid)?;
    let used = device
        .tirs
        .iter()
        .any(|(_, tir)| tir::DISPATCH.get(tir) == 0 && tir::INLINE_RQN.get(tir) == number);
    require(!used, Rule::InUse)?;
    device.rqs.take(number, command.uid)?;
    device.numbers.take(number, 0)
}

fn query_ring(command: &mut Command<'_>, send: bool) -> Outcome {
    const HW_COUNTER: Field = field(0x18, 31, 0);
    let table = if send {
        &command.device.sqs
    } else {
        &command.device.rqs
    };
    let queue = table.of(command.number(), command.uid)?;
    let mut context = queue.context.clone();
    ring::STATE.set(&mut context, queue.state as u32);
    HW_COUNTER
        .at(ring::WQ)
        .set(&mut context, u32::from(queue.consumer));
    command.reply_context(RING_CTX, &context);
    Ok(())
}
