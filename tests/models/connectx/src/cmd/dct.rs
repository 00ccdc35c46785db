//! Dynamically connected targets.

use super::Command;
use crate::engine::event;
use crate::layout::command::{CTX, REPLY_ECE};
use crate::layout::queue::dct;
use crate::objects::DcTarget;
use crate::status::{Outcome, Rule, require};

const ACTIVE: u32 = 0;
const DRAINED: u32 = 2;

/// CREATE_DCT.
pub(super) fn create(command: &mut Command<'_>) -> Outcome {
    let mut context = command.context(CTX, dct::LEN);
    let uid = command.uid;
    command.device.pds.shared(dct::PD.get(&context), uid)?;
    command.device.cqs.shared(dct::CQN.get(&context), uid)?;
    command.device.shared.shared(dct::SRQN.get(&context), uid)?;
    let agreed = command.agree(dct::ECE.get(&context))?;
    dct::ECE.set(&mut context, agreed);
    let number = command.device.numbers.add(uid, ())?;
    command.device.dcts.put(
        uid,
        number,
        DcTarget {
            context,
            draining: false,
        },
    );
    command.reply(number);
    command.set(REPLY_ECE, agreed);
    Ok(())
}

/// DRAIN_DCT: nothing is in flight between commands, so the drained event follows at once.
pub(super) fn drain(command: &mut Command<'_>) -> Outcome {
    let number = command.number();
    command.device.dcts.of_mut(number, command.uid)?.draining = true;
    event::dct_drained(command.device, number);
    Ok(())
}

/// DESTROY_DCT: succeeds only for a drained target.
pub(super) fn destroy(command: &mut Command<'_>) -> Outcome {
    let number = command.number();
    require(
        command.device.dcts.of(number, command.uid)?.draining,
        Rule::RingState,
    )?;
    command.device.dcts.take(number, command.uid)?;
    command.device.numbers.take(number, 0)
}

/// QUERY_DCT.
pub(super) fn query(command: &mut Command<'_>) -> Outcome {
    let target = command.device.dcts.of(command.number(), command.uid)?;
    let mut context = target.context.clone();
    dct::STATE.set(&mut context, if target.draining { DRAINED } else { ACTIVE });
    command.reply_context(CTX, &context);
    Ok(())
}
