//! Shared receive queues: receive memory pools, XRC SRQs and the plain SRQ of interface step 0.

use super::Command;
use crate::buffer::{Buffer, sized};
use crate::engine::receive;
use crate::layout::command::{
    self, CTX, CTX_UMEM_ID, CTX_UMEM_OFFSET, CTX_UMEM_VALID, PAS, RING_CTX, op,
};
use crate::layout::queue::{ring, srq, wq};
use crate::layout::{Field, field};
use crate::objects::{RingState, SharedKind, SharedQueue};
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

const LIMIT: Field = field(0x0c, 15, 0);
/// ARM_RQ for an SRQ rather than an RQ.
const ARM_SRQ: u16 = 1;
const WQ_LINKED: u32 = 0;
const WQ_CYCLIC: u32 = 1;

/// Runs one command of this family.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    match opcode {
        op::CREATE_RMP => create_rmp(command),
        op::CREATE_XRC_SRQ => create(command, SharedKind::Xrc),
        op::CREATE_SRQ => create(command, SharedKind::Legacy),
        op::DESTROY_RMP => destroy(command, SharedKind::Rmp),
        op::DESTROY_XRC_SRQ => destroy(command, SharedKind::Xrc),
        op::DESTROY_SRQ => destroy(command, SharedKind::Legacy),
        op::QUERY_RMP => query(command, SharedKind::Rmp),
        op::QUERY_XRC_SRQ => query(command, SharedKind::Xrc),
        op::QUERY_SRQ => query(command, SharedKind::Legacy),
        op::MODIFY_RMP => modify_rmp(command),
        op::ARM_XRC_SRQ => arm(command, SharedKind::Xrc, command.get(LIMIT) as u16),
        op::ARM_RQ => {
            require(command.modifier == ARM_SRQ, Rule::OutOfRange)?;
            arm(command, SharedKind::Legacy, command.get(LIMIT) as u16)
        }
        _ => Err(Rule::UnknownOpcode.refuse()),
    }
}

fn create_rmp(command: &mut Command<'_>) -> Outcome {
    let context = command.context(RING_CTX, ring::LEN);
    let at = |field: Field| field.at(ring::WQ).get(&context);
    let cyclic = match at(wq::TYPE) {
        WQ_LINKED => false,
        WQ_CYCLIC => true,
        _ => return Err(Rule::Reserved.refuse()),
    };
    command.device.pds.shared(at(wq::PD), command.uid)?;
    let log_stride = at(wq::LOG_STRIDE);
    require((5..=12).contains(&log_stride), Rule::BadSize)?;
    let length = sized(
        wq::LOG_SIZE.at(ring::WQ),
        &context,
        limit::LOG_WQ,
        1 << log_stride,
    )?;
    let buffer = command.ring_buffer(&context, length)?;
    let queue = SharedQueue {
        kind: SharedKind::Rmp,
        buffer,
        log_size: at(wq::LOG_SIZE),
        stride: 1 << log_stride,
        doorbell: command.ring_doorbell(&context)?,
        head: 0,
        consumed: 0,
        cyclic,
        limit: at(wq::LIMIT) as u16,
        pd: at(wq::PD),
        cqn: 0,
        xrcd: 0,
        user_index: 0xff_ffff,
        context,
    };
    add(command, queue)
}

fn create(command: &mut Command<'_>, kind: SharedKind) -> Outcome {
    let context = command.context(CTX, srq::LEN);
    let uid = command.uid;
    command.device.pds.shared(srq::PD.get(&context), uid)?;
    let cqn = srq::CQN.get(&context);
    if kind == SharedKind::Xrc {
        command.device.xrcds.shared(srq::XRCD.get(&context), uid)?;
        command.device.cqs.shared(cqn, uid)?;
    }
    let stride = 16u32 << srq::LOG_STRIDE.get(&context);
    let length = sized(srq::LOG_SIZE, &context, limit::LOG_SRQ, u64::from(stride))?;
    let buffer = if kind == SharedKind::Xrc && CTX_UMEM_VALID.is_set(command.input) {
        let umem = command.device.umems.of(command.get(CTX_UMEM_ID), uid)?;
        umem.part(command.get64(CTX_UMEM_OFFSET), length)?
    } else {
        Buffer::parse(
            command.input,
            PAS,
            srq::LOG_PAGE.get(&context),
            srq::PAGE_OFFSET.get(&context),
            length,
        )?
    };
    let umem = srq::DBR_UMEM_VALID
        .is_set(&context)
        .then(|| srq::DBR_UMEM_ID.get(&context));
    let queue = SharedQueue {
        kind,
        buffer,
        log_size: srq::LOG_SIZE.get(&context),
        stride,
        doorbell: command.doorbell(umem, srq::DBR_ADDR.get(&context), 4)?,
        head: 0,
        consumed: 0,
        cyclic: false,
        limit: srq::LIMIT.get(&context) as u16,
        pd: srq::PD.get(&context),
        cqn: if kind == SharedKind::Xrc { cqn } else { 0 },
        xrcd: if kind == SharedKind::Xrc {
            srq::XRCD.get(&context)
        } else {
            0
        },
        user_index: srq::USER_INDEX.get(&context),
        context,
    };
    add(command, queue)
}

fn add(command: &mut Command<'_>, queue: SharedQueue) -> Outcome {
    let number = command.device.shared.add(command.uid, queue)?;
    command.reply(number);
    Ok(())
}

fn destroy(command: &mut Command<'_>, kind: SharedKind) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    of_kind(command, kind)?;
    let used = command
        .device
        .qps
        .iter()
        .any(|(_, qp)| qp.shared_queue() == Some(number));
    require(!used || kind == SharedKind::Xrc, Rule::InUse)?;
    command.device.shared.take(number, uid).map(|_| ())
}

fn of_kind<'a>(command: &'a Command<'_>, kind: SharedKind) -> Outcome<&'a SharedQueue> {
    let queue = command.device.shared.of(command.number(), command.uid)?;
    require(queue.kind == kind, Rule::NoSuchObject)?;
    Ok(queue)
}

fn query(command: &mut Command<'_>, kind: SharedKind) -> Outcome {
    let queue = of_kind(command, kind)?;
    let (mut context, limit) = (queue.context.clone(), u32::from(queue.limit));
    let left = receive::available(command.device, queue).unwrap_or(0);
    match kind {
        SharedKind::Rmp => {
            ring::STATE.set(&mut context, RingState::Ready as u32);
            wq::LIMIT.at(ring::WQ).set(&mut context, limit);
            command.reply_context(RING_CTX, &context);
        }
        SharedKind::Xrc | SharedKind::Legacy => {
            srq::STATE.set(&mut context, 0);
            srq::LIMIT.set(&mut context, limit);
            srq::COUNT.set(&mut context, u32::from(left));
            command.reply_context(CTX, &context);
        }
    }
    Ok(())
}

fn modify_rmp(command: &mut Command<'_>) -> Outcome {
    let context = command.context(RING_CTX, ring::LEN);
    if command.get64(command::MODIFY_MASK) & 1 == 0 {
        return of_kind(command, SharedKind::Rmp).map(|_| ());
    }
    arm(
        command,
        SharedKind::Rmp,
        wq::LIMIT.at(ring::WQ).get(&context) as u16,
    )
}

/// Arms the limit event, which fires at once if the queue is already below the limit.
fn arm(command: &mut Command<'_>, kind: SharedKind, limit: u16) -> Outcome {
    of_kind(command, kind)?;
    let number = command.number();
    command.device.shared.of_mut(number, command.uid)?.limit = limit;
    receive::check_limit(command.device, number);
    Ok(())
}

impl Command<'_> {
    /// The buffer of an RMP, SQ or RQ context.
    pub(super) fn ring_buffer(&self, context: &[u8], length: u64) -> Outcome<Buffer> {
        let at = |field: Field| field.at(ring::WQ).get(context);
        if at(wq::UMEM_VALID) != 0 {
            let umem = self.device.umems.of(at(wq::UMEM_ID), self.uid)?;
            return umem.part(wq::UMEM_OFFSET.at(ring::WQ).get(context), length);
        }
        let list = RING_CTX + ring::WQ + wq::PAS;
        Buffer::parse(
            self.input,
            list,
            at(wq::LOG_PAGE),
            at(wq::PAGE_OFFSET),
            length,
        )
    }

    /// The doorbell record of an RMP, SQ or RQ context.
    pub(super) fn ring_doorbell(&self, context: &[u8]) -> Outcome<u64> {
        let at = |field: Field| field.at(ring::WQ).get(context);
        let umem = (at(wq::DBR_UMEM_VALID) != 0).then(|| at(wq::DBR_UMEM_ID));
        self.doorbell(umem, wq::DBR_ADDR.at(ring::WQ).get(context), 8)
    }
}
