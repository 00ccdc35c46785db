//! Completion queue commands.

use super::Command;
use crate::buffer::{Buffer, sized};
use crate::engine::{completion, compress};
use crate::layout::Wide;
use crate::layout::command::{CTX, CTX_UMEM_ID, CTX_UMEM_OFFSET, CTX_UMEM_VALID, PARAM, PAS};
use crate::layout::queue::cq;
use crate::objects::CompletionQueue;
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

/// Bits of the resize field select that a resize must set together.
const RESIZE_SIZE: u32 = 1;
/// Bits of the modify field select.
const MODIFY_PERIOD: u32 = 1;
const MODIFY_COUNT: u32 = 2;
const OP_RESIZE: u16 = 1;

fn entry_size(context: &[u8]) -> Outcome<u64> {
    match cq::CQE_SIZE.get(context) {
        0 => Ok(64),
        // 128-byte entries: either the first half may be left out, or it is padding.
        1 | 2 => Ok(128),
        _ => Err(Rule::BadSize.refuse()),
    }
}

fn buffer(command: &Command<'_>, context: &[u8]) -> Outcome<Buffer> {
    let length = sized(cq::LOG_SIZE, context, limit::LOG_CQ, entry_size(context)?)?;
    if CTX_UMEM_VALID.is_set(command.input) {
        let umem = command
            .device
            .umems
            .of(command.get(CTX_UMEM_ID), command.uid)?;
        return umem.part(command.get64(CTX_UMEM_OFFSET), length);
    }
    Buffer::parse(
        command.input,
        PAS,
        cq::LOG_PAGE.get(context),
        cq::PAGE_OFFSET.get(context),
        length,
    )
}

/// CREATE_CQ.
pub(super) fn create(command: &mut Command<'_>) -> Outcome {
    let context = command.context(CTX, cq::LEN);
    compress::check(&context)?;
    let eqn = cq::EQN.get(&context) & 0xff;
    command.device.eqs.shared(eqn, command.uid)?;
    command
        .device
        .uars
        .shared(cq::UAR.get(&context), command.uid)?;
    let doorbell = command.doorbell(
        cq::DBR_UMEM_VALID
            .is_set(&context)
            .then(|| cq::DBR_UMEM_ID.get(&context)),
        cq::DBR_ADDR.get(&context),
        8,
    )?;
    let queue = CompletionQueue {
        buffer: buffer(command, &context)?,
        log_size: cq::LOG_SIZE.get(&context),
        cqe_size: entry_size(&context)?,
        doorbell,
        eqn,
        producer: 0,
        solicited: 0,
        arm: None,
        failed: false,
        waiting: Vec::new(),
        context,
    };
    let number = command.device.cqs.add(command.uid, queue)?;
    command.reply(number);
    Ok(())
}

/// DESTROY_CQ.
pub(super) fn destroy(command: &mut Command<'_>) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let device = &mut *command.device;
    device.cqs.of(number, uid)?;
    let used = device
        .qps
        .iter()
        .any(|(_, qp)| qp.send_cq() == number || qp.recv_cq() == number)
        || device
            .sqs
            .iter()
            .chain(device.rqs.iter())
            .any(|(_, ring)| ring.cqn() == number)
        || device.shared.iter().any(|(_, srq)| srq.cqn == number);
    require(!used, Rule::InUse)?;
    device.cqs.take(number, uid).map(|_| ())
}

/// QUERY_CQ.
pub(super) fn query(command: &mut Command<'_>) -> Outcome {
    let number = command.number();
    let queue = command.device.cqs.of(number, command.uid)?;
    let mut context = queue.context.clone();
    let consumer = command.device.read_be32(queue.doorbell).unwrap_or(0);
    cq::CONSUMER.set(&mut context, consumer);
    cq::PRODUCER.set(&mut context, queue.producer);
    cq::LAST_SOLICITED.set(&mut context, queue.solicited);
    cq::STATUS.set(&mut context, if queue.failed { 9 } else { 0 });
    cq::STATE.set(
        &mut context,
        match queue.arm {
            Some(crate::objects::Arm::Any) => 9,
            Some(crate::objects::Arm::Solicited) => 6,
            None => 10,
        },
    );
    let pages = queue.buffer.pages().to_vec();
    command.reply_context(CTX, &context);
    for (i, page) in pages.into_iter().enumerate() {
        Wide(PAS + i * 8).set(command.output, page);
    }
    Ok(())
}

/// MODIFY_CQ: moderation, or a new buffer.
pub(super) fn modify(command: &mut Command<'_>) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let context = command.context(CTX, cq::LEN);
    let select = command.get(PARAM);
    command.device.cqs.of(number, uid)?;
    if command.modifier == OP_RESIZE {
        require(select & RESIZE_SIZE != 0, Rule::Reserved)?;
        let buffer = buffer(command, &context)?;
        let size = entry_size(&context)?;
        return completion::resize(command.device, number, &context, buffer, size);
    }
    let queue = command.device.cqs.of_mut(number, uid)?;
    if select & MODIFY_PERIOD != 0 {
        cq::PERIOD.copy(&context, &mut queue.context);
    }
    if select & MODIFY_COUNT != 0 {
        cq::MAX_COUNT.copy(&context, &mut queue.context);
    }
    Ok(())
}

impl Command<'_> {
    /// The bus address of a doorbell record of `length` bytes, which lies in a umem or is given
    /// directly.
    pub(super) fn doorbell(&self, umem: Option<u32>, address: u64, length: u64) -> Outcome<u64> {
        let address = match umem {
            Some(id) => self
                .device
                .umems
                .of(id, self.uid)?
                .part(address, length)?
                .address(0),
            None => Some(address),
        };
        let address = address.ok_or(Rule::Umem.refuse())?;
        require(address.is_multiple_of(4), Rule::Reserved)?;
        Ok(address)
    }
}
