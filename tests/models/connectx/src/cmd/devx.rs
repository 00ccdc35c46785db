//! User contexts, umems and general objects.

use super::{Command, data_key, qos, steering_memory};
use crate::buffer::Umem;
use crate::layout::command::{NUMBER32, op};
use crate::layout::transport::sched;
use crate::layout::{Field, Wide, field, word};
use crate::status::{Outcome, Rule, require};

const UCTX_CAP: Field = word(0x10);
const UID_REPLY: Field = field(0x08, 15, 0);
const UMEM: usize = 0x10;
const OBJECT_TYPE: Field = field(0x04, 15, 0);
/// Scheduling element as a general object.
const SCHEDULING_ELEMENT: u32 = 0x26;
const SELECT: Wide = Wide(0x10);
const HIERARCHY: Field = field(0x18, 31, 24);
const ELEMENT_CTX: usize = 0x30;

/// CREATE_UCTX; the returned number is the uid of later commands.
pub(super) fn create_context(command: &mut Command<'_>) -> Outcome {
    let capabilities = command.get(UCTX_CAP);
    let number = command.device.contexts.add(0, capabilities)?;
    command.set(UID_REPLY, number);
    Ok(())
}

/// DESTROY_UCTX: also destroys everything that still belongs to the context.
pub(super) fn destroy_context(command: &mut Command<'_>) -> Outcome {
    let uid = command.get(UID_REPLY) as u16;
    command.device.contexts.take(u32::from(uid), 0)?;
    let device = &mut *command.device;
    let orphans = device.purge(uid);
    if orphans != 0 {
        device.report(
            "objects left at DESTROY_UCTX",
            &format!("{orphans} of uid {uid}"),
        );
    }
    Ok(())
}

/// CREATE_UMEM.
pub(super) fn create_umem(command: &mut Command<'_>) -> Outcome {
    let umem = Umem::parse(command.input.get(UMEM..).ok_or(Rule::TooShort.refuse())?)?;
    let number = command.device.umems.add(command.uid, umem)?;
    command.set(NUMBER32, number);
    Ok(())
}

/// DESTROY_UMEM.
pub(super) fn destroy_umem(command: &mut Command<'_>) -> Outcome {
    command
        .device
        .umems
        .take(command.get(NUMBER32), command.uid)
        .map(|_| ())
}

/// Commands on general objects; scheduling elements, keys of data and memory for steering are the
/// only types modelled.
pub(super) fn general_object(command: &mut Command<'_>, opcode: u16) -> Outcome {
    if command.get(OBJECT_TYPE) == data_key::TYPE {
        return data_key::run(command, opcode);
    }
    if command.get(OBJECT_TYPE) == steering_memory::TYPE {
        return steering_memory::run(command, opcode);
    }
    require(
        command.get(OBJECT_TYPE) == SCHEDULING_ELEMENT,
        Rule::ElementType,
    )?;
    let id = command.get(NUMBER32);
    let context = command.context(ELEMENT_CTX, sched::LEN);
    match opcode {
        op::CREATE_GENERAL_OBJECT => {
            let hierarchy = command.get(HIERARCHY) as u8;
            let id = qos::add(command, hierarchy, context)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        op::MODIFY_GENERAL_OBJECT => {
            let select = command.get64(SELECT) as u32;
            qos::change(command, id, select, &context)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        op::QUERY_GENERAL_OBJECT => {
            let context = qos::context(command, id)?;
            command.set(NUMBER32, id);
            command.reply_context(ELEMENT_CTX, &context);
            Ok(())
        }
        _ => {
            command.device.scheduler.remove(command.uid, id)?;
            command.set(NUMBER32, id);
            Ok(())
        }
    }
}

impl crate::device::Device {
    /// Removes everything a user context owns, users before what they use; returns how many objects
    /// there were.
    fn purge(&mut self, uid: u16) -> usize {
        let mut count = 0;
        for number in self.qps.owned_by(uid) {
            count += usize::from(self.qps.take(number, 0).is_ok());
            let _ = self.numbers.take(number, 0);
        }
        for number in self.dcts.owned_by(uid) {
            count += usize::from(self.dcts.take(number, 0).is_ok());
            let _ = self.numbers.take(number, 0);
        }
        for number in self.sqs.owned_by(uid) {
            count += usize::from(self.sqs.take(number, 0).is_ok());
            let _ = self.numbers.take(number, 0);
        }
        for number in self.rqs.owned_by(uid) {
            count += usize::from(self.rqs.take(number, 0).is_ok());
            let _ = self.numbers.take(number, 0);
        }
        for id in self.scheduler.owned_by(uid) {
            count += usize::from(self.scheduler.remove(0, id).is_ok());
        }
        macro_rules! purge {
            ($($table:ident),*) => {$(
                for number in self.$table.owned_by(uid) {
                    count += usize::from(self.$table.take(number, 0).is_ok());
                }
            )*};
        }
        purge!(
            flows,
            counters,
            counter_sets,
            tirs,
            tises,
            tables,
            shared,
            cqs,
            mkeys,
            umems,
            xrcds,
            domains,
            pds,
            uars,
            psvs,
            data_keys,
            steering_memory
        );
        count
    }
}
