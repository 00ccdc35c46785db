//! Packet pacing and scheduling element commands.

use super::Command;
use crate::layout::transport::{pacing, sched};
use crate::layout::{Field, field, word};
use crate::qos::{Element, ElementKind, Rate};
use crate::status::{Outcome, Rule, require};

const RATE_INDEX: Field = field(0x08, 15, 0);
const RATE_CTX: usize = 0x10;
const HIERARCHY: Field = field(0x08, 31, 24);
const ELEMENT_ID: Field = word(0x0c);
const CREATED_ID: Field = word(0x10);
const MODIFY: Field = word(0x14);
const ELEMENT_CTX: usize = 0x20;
/// The hierarchy of the NIC's own send queues.
const NIC: u8 = 3;
/// Bits of the modify mask.
const MODIFY_SHARE: u32 = 1;
const MODIFY_BANDWIDTH: u32 = 2;

/// SET_PP_RATE_LIMIT.
pub(super) fn set_rate(command: &mut Command<'_>) -> Outcome {
    let at = |field: Field| command.get(field.at(RATE_CTX));
    let rate = Rate {
        kilobits: at(pacing::RATE),
        burst: at(pacing::BURST),
        packet: at(pacing::PACKET_SIZE) as u16,
    };
    command
        .device
        .pacing
        .set(command.get(RATE_INDEX) as u16, rate)
}

/// QUERY_RATE_LIMIT.
pub(super) fn query_rate(command: &mut Command<'_>) -> Outcome {
    let rate = command
        .device
        .pacing
        .get(command.get(RATE_INDEX) as u16)
        .ok_or(Rule::NoSuchObject.refuse())?;
    command.set(pacing::RATE.at(RATE_CTX), rate.kilobits);
    command.set(pacing::BURST.at(RATE_CTX), rate.burst);
    command.set(pacing::PACKET_SIZE.at(RATE_CTX), u32::from(rate.packet));
    Ok(())
}

/// Adds the element described by a scheduling context.
pub(super) fn add(command: &mut Command<'_>, hierarchy: u8, context: Vec<u8>) -> Outcome<u32> {
    require(hierarchy == NIC, Rule::OutOfRange)?;
    let kind = ElementKind::parse(sched::TYPE.get(&context))?;
    if kind == ElementKind::Tsar {
        // Deficit weighted round robin is the only arbiter supported.
        require(sched::TSAR_TYPE.get(&context) == 0, Rule::ElementType)?;
    }
    let element = Element {
        kind,
        hierarchy,
        parent: sched::PARENT.get(&context),
        share: sched::SHARE.get(&context),
        max_bandwidth: sched::MAX_BANDWIDTH.get(&context),
        users: 0,
        context,
    };
    command.device.scheduler.add(command.uid, element)
}

/// Changes the fields that `select` names to those of a scheduling context.
pub(super) fn change(command: &mut Command<'_>, id: u32, select: u32, context: &[u8]) -> Outcome {
    let share = (select & MODIFY_SHARE != 0).then(|| sched::SHARE.get(context));
    let cap = (select & MODIFY_BANDWIDTH != 0).then(|| sched::MAX_BANDWIDTH.get(context));
    command.device.scheduler.modify(command.uid, id, share, cap)
}

/// The current scheduling context of an element.
pub(super) fn context(command: &Command<'_>, id: u32) -> Outcome<Vec<u8>> {
    let element = command.device.scheduler.of(command.uid, id)?;
    let mut context = element.context.clone();
    sched::SHARE.set(&mut context, element.share);
    sched::MAX_BANDWIDTH.set(&mut context, element.max_bandwidth);
    Ok(context)
}

/// CREATE_SCHEDULING_ELEMENT.
pub(super) fn create_element(command: &mut Command<'_>) -> Outcome {
    let context = command.context(ELEMENT_CTX, sched::LEN);
    let hierarchy = command.get(HIERARCHY) as u8;
    let id = add(command, hierarchy, context)?;
    command.set(CREATED_ID, id);
    Ok(())
}

/// MODIFY_SCHEDULING_ELEMENT.
pub(super) fn modify_element(command: &mut Command<'_>) -> Outcome {
    let context = command.context(ELEMENT_CTX, sched::LEN);
    change(
        command,
        command.get(ELEMENT_ID),
        command.get(MODIFY),
        &context,
    )
}

/// QUERY_SCHEDULING_ELEMENT.
pub(super) fn query_element(command: &mut Command<'_>) -> Outcome {
    let context = context(command, command.get(ELEMENT_ID))?;
    command.reply_context(ELEMENT_CTX, &context);
    Ok(())
}

/// DESTROY_SCHEDULING_ELEMENT.
pub(super) fn destroy_element(command: &mut Command<'_>) -> Outcome {
    command
        .device
        .scheduler
        .remove(command.uid, command.get(ELEMENT_ID))
}
