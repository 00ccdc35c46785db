//! Event queue commands.

use super::Command;
use crate::buffer::{Buffer, sized};
use crate::engine::event::ENTRY;
use crate::layout::command::{CTX, PAS};
use crate::layout::queue::eq;
use crate::layout::{Field, Wide, field};
use crate::objects::EventQueue;
use crate::pci::VECTORS;
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

const MASK: usize = 0x58;
const EQN: Field = field(0x08, 7, 0);

/// CREATE_EQ.
pub(super) fn create(command: &mut Command<'_>) -> Outcome {
    let context = command.context(CTX, eq::LEN);
    let length = sized(eq::LOG_SIZE, &context, limit::LOG_EQ, ENTRY)?;
    let vector = eq::VECTOR.get(&context);
    require(vector < VECTORS, Rule::OutOfRange)?;
    command.device.uars.of(eq::UAR.get(&context), 0)?;
    let buffer = Buffer::parse(
        command.input,
        PAS,
        eq::LOG_PAGE.get(&context),
        eq::PAGE_OFFSET.get(&context),
        length,
    )?;
    let mut mask = [0; 4];
    for (i, word) in mask.iter_mut().enumerate() {
        *word = command.get64(Wide(MASK + i * 8));
    }
    let log_size = eq::LOG_SIZE.get(&context);
    let queue = EventQueue {
        context,
        mask,
        buffer,
        log_size,
        vector,
        producer: 0,
        consumer: 0,
        armed: false,
    };
    let number = command.device.eqs.add(command.uid, queue)?;
    command.set(EQN, number);
    Ok(())
}

/// DESTROY_EQ.
pub(super) fn destroy(command: &mut Command<'_>) -> Outcome {
    let number = command.get(EQN);
    command.device.eqs.of(number, command.uid)?;
    let used = command.device.cqs.iter().any(|(_, cq)| cq.eqn == number);
    require(!used, Rule::InUse)?;
    command.device.eqs.take(number, command.uid).map(|_| ())
}

/// QUERY_EQ.
pub(super) fn query(command: &mut Command<'_>) -> Outcome {
    let queue = command.device.eqs.of(command.get(EQN), command.uid)?;
    let mut context = queue.context.clone();
    eq::CONSUMER.set(&mut context, queue.consumer);
    eq::PRODUCER.set(&mut context, queue.producer);
    eq::STATE.set(&mut context, if queue.armed { 9 } else { 10 });
    let (mask, pages) = (queue.mask, queue.buffer.pages().to_vec());
    command.reply_context(CTX, &context);
    for (i, word) in mask.into_iter().enumerate() {
        Wide(MASK + i * 8).set(command.output, word);
    }
    for (i, page) in pages.into_iter().enumerate() {
        Wide(PAS + i * 8).set(command.output, page);
    }
    Ok(())
}
