//! Objects that are only a number: protection and transport domains, XRC domains, UAR pages and
//! PSVs; and multicast attachment.

use super::Command;
use crate::layout::command::op;
use crate::layout::{field, queue};
use crate::objects::{Psv, QueuePair};
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

const COUNTER_SET: crate::layout::Field = field(0x08, 7, 0);
const PSV_INDEX: crate::layout::Field = field(0x10, 23, 0);
const PSV_COUNT: crate::layout::Field = field(0x08, 31, 28);
const PSV_PD: crate::layout::Field = field(0x08, 23, 0);

/// Runs one command of this family.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let device = &mut *command.device;
    let fresh = match opcode {
        op::ALLOC_PD => device.pds.add(uid, ())?,
        op::ALLOC_UAR => device.uars.add(uid, ())?,
        op::ALLOC_XRCD => device.xrcds.add(uid, ())?,
        op::ALLOC_TRANSPORT_DOMAIN => device.domains.add(uid, ())?,
        op::ALLOC_Q_COUNTER => {
            let number = device.counter_sets.add(uid, ())?;
            command.set(COUNTER_SET, number);
            return Ok(());
        }
        op::DEALLOC_Q_COUNTER => {
            let number = command.get(COUNTER_SET);
            return command.device.counter_sets.take(number, uid);
        }
        op::CREATE_PSV => {
            let pd = PSV_PD.get(command.input);
            device.pds.shared(pd, uid)?;
            let count = PSV_COUNT.get(command.input) as usize;
            require((1..=4).contains(&count), Rule::OutOfRange)?;
            for at in 0..count {
                let signature = None;
                let number = command.device.psvs.add(uid, Psv { pd, signature })?;
                command.set(PSV_INDEX.at(4 * at), number);
            }
            return Ok(());
        }
        op::DEALLOC_PD => {
            device.pds.of(number, uid)?;
            require(!pd_in_use(command, number), Rule::InUse)?;
            return command.device.pds.take(number, uid);
        }
        op::DEALLOC_UAR => return device.uars.take(number, uid),
        op::DEALLOC_XRCD => {
            device.xrcds.of(number, uid)?;
            let used = device
                .shared
                .iter()
                .any(|(_, srq)| srq.xrcd == number && srq.xrcd != 0);
            require(!used, Rule::InUse)?;
            return device.xrcds.take(number, uid);
        }
        op::DEALLOC_TRANSPORT_DOMAIN => return device.domains.take(number, uid),
        op::DESTROY_PSV => return device.psvs.take(number, uid).map(|_| ()),
        op::ATTACH_TO_MCG => return attach(command),
        op::DETACH_FROM_MCG => return detach(command),
        _ => return Err(Rule::UnknownOpcode.refuse()),
    };
    command.reply(fresh);
    Ok(())
}

fn pd_in_use(command: &Command<'_>, pd: u32) -> bool {
    let device = &*command.device;
    device.qps.iter().any(|(_, qp)| qp.pd() == pd)
        || device
            .mkeys
            .iter()
            .any(|(_, key)| queue::mkey::PD.get(&key.context) == pd && is_live(&key.context))
        || device.shared.iter().any(|(_, srq)| srq.pd == pd)
        || device.psvs.iter().any(|(_, psv)| psv.pd == pd)
}

/// A key in the free state keeps the number of its last domain but does not use it.
fn is_live(mkc: &[u8]) -> bool {
    !queue::mkey::FREE.is_set(mkc)
}

fn group(command: &Command<'_>) -> [u8; 16] {
    let mut gid = [0; 16];
    gid.copy_from_slice(&command.context(0x10, 16));
    gid
}

fn attach(command: &mut Command<'_>) -> Outcome {
    let (uid, qpn, gid) = (command.uid, command.number(), group(command));
    command.device.qps.of(qpn, uid).map(QueuePair::pd)?;
    let groups = &command.device.multicast;
    require(
        groups.contains_key(&gid) || groups.len() < limit::GROUPS,
        Rule::TableFull,
    )?;
    let members = command.device.multicast.entry(gid).or_default();
    require(!members.contains(&qpn), Rule::InUse)?;
    require(members.len() < limit::QP_PER_GROUP, Rule::TableFull)?;
    members.push(qpn);
    Ok(())
}

fn detach(command: &mut Command<'_>) -> Outcome {
    let (uid, qpn, gid) = (command.uid, command.number(), group(command));
    command.device.qps.of(qpn, uid)?;
    let members = command
        .device
        .multicast
        .get_mut(&gid)
        .ok_or(Rule::NoSuchObject.refuse())?;
    let at = members
        .iter()
        .position(|member| *member == qpn)
        .ok_or(Rule::NoSuchObject.refuse())?;
    members.remove(at);
    if members.is_empty() {
        command.device.multicast.remove(&gid);
    }
    Ok(())
}
