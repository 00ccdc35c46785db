//! Flow steering commands: tables, groups, entries, roots and counters.

use super::Command;
use crate::budget::MAX_FLOWS;
use crate::flow::{Counter, Destination, Entry, MATCH, Table};
use crate::layout::command::{NUMBER32, OP_MOD, op};
use crate::layout::{Field, Wide, be32, bit, field, word};
use crate::status::{Outcome, Rule, require};

const TYPE: Field = field(0x10, 31, 24);
const TABLE: Field = field(0x14, 23, 0);
const CONTEXT: usize = 0x18;
const MISS_ACTION: Field = field(CONTEXT, 27, 24);
const LOG_SIZE: Field = field(CONTEXT, 7, 0);
const MISS_TABLE: Field = field(CONTEXT + 4, 23, 0);
const FORWARD_TO_MISS_TABLE: u32 = 1;
const GROUP_ID: Field = word(0x18);
const CRITERIA: usize = 0x40;
const FLOW_INDEX: Field = word(0x20);
const MODIFY_MASK: Field = field(0x18, 7, 0);
const COUNTERS: Field = field(0x18, 15, 0);
const COUNTER_ID: Field = word(0x1c);
const CLEAR: Field = bit(0x18, 31);

/// The flow context of SET_FLOW_TABLE_ENTRY.
mod context {
    use super::{Field, field, word};
    pub(super) const AT: usize = 0x40;
    pub(super) const GROUP: Field = word(0x04);
    pub(super) const TAG: Field = field(0x08, 23, 0);
    pub(super) const ACTION: Field = field(0x0c, 15, 0);
    pub(super) const DESTINATIONS: Field = field(0x10, 23, 0);
    pub(super) const COUNTERS: Field = field(0x14, 23, 0);
    pub(super) const VALUE: usize = 0x40;
    pub(super) const LIST: usize = 0x300;
}

/// Bits of the modify mask.
const MODIFY_ACTION: u32 = 1 << 0;
const MODIFY_TAG: u32 = 1 << 1;
const MODIFY_DESTINATIONS: u32 = 1 << 2;
const MODIFY_COUNTERS: u32 = 1 << 3;
const DROP: u32 = 1 << 1;
/// The largest table accepted, and the longest list of destinations.
const MAX_LOG_SIZE: u32 = 24;
const MAX_LIST: u32 = 64;

/// Runs one command of this family.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    let table = command.get(TABLE);
    let uid = command.uid;
    match opcode {
        op::CREATE_FLOW_TABLE => create_table(command),
        op::DESTROY_FLOW_TABLE => {
            let kind = command.get(TYPE) as u8;
            command.device.flows.of(table, uid)?;
            let root = command.device.roots.get(&kind) == Some(&table);
            if root {
                command.device.roots.remove(&kind);
            }
            command.device.flows.take(table, uid).map(|_| ())
        }
        op::MODIFY_FLOW_TABLE => {
            let miss = miss(command);
            command.device.flows.of_mut(table, uid)?.miss = miss;
            Ok(())
        }
        op::SET_FLOW_TABLE_ROOT => {
            let kind = command.get(TYPE) as u8;
            // Modifier 1 sets the default miss instead of naming a table.
            if OP_MOD.get(command.input) == 0 {
                require(
                    command.device.flows.of(table, uid)?.kind == kind,
                    Rule::ElementType,
                )?;
                command.device.roots.insert(kind, table);
            } else {
                command.device.roots.remove(&kind);
            }
            Ok(())
        }
        op::CREATE_FLOW_GROUP => {
            require(command.device.flow_entries() < MAX_FLOWS, Rule::TableFull)?;
            let criteria = command.context(CRITERIA, MATCH);
            let flows = command.device.flows.of_mut(table, uid)?;
            let id = flows.next_group;
            flows.next_group += 1;
            flows.groups.insert(id, criteria);
            command.set(field(0x08, 23, 0), id);
            Ok(())
        }
        op::DESTROY_FLOW_GROUP => {
            let group = command.get(GROUP_ID);
            let flows = command.device.flows.of_mut(table, uid)?;
            require(
                flows.entries.values().all(|entry| entry.group != group),
                Rule::InUse,
            )?;
            flows
                .groups
                .remove(&group)
                .map(|_| ())
                .ok_or(Rule::NoSuchObject.refuse())
        }
        op::SET_FLOW_TABLE_ENTRY => set_entry(command, table),
        op::DELETE_FLOW_TABLE_ENTRY => {
            let index = command.get(FLOW_INDEX);
            let flows = command.device.flows.of_mut(table, uid)?;
            flows
                .entries
                .remove(&index)
                .map(|_| ())
                .ok_or(Rule::NoSuchObject.refuse())
        }
        op::QUERY_FLOW_TABLE_ENTRY => {
            let index = command.get(FLOW_INDEX);
            let flows = command.device.flows.of(table, uid)?;
            let context = flows
                .entries
                .get(&index)
                .ok_or(Rule::NoSuchObject.refuse())?
                .context
                .clone();
            command.reply_context(context::AT, &context);
            Ok(())
        }
        op::ALLOC_FLOW_COUNTER => {
            let id = command.device.counters.add(uid, Counter::default())?;
            command.set(NUMBER32, id);
            Ok(())
        }
        op::DEALLOC_FLOW_COUNTER => command
            .device
            .counters
            .take(command.get(NUMBER32), uid)
            .map(|_| ()),
        op::QUERY_FLOW_COUNTER => query_counter(command),
        _ => Err(Rule::UnknownOpcode.refuse()),
    }
}

fn miss(command: &Command<'_>) -> Option<u32> {
    (command.get(MISS_ACTION) == FORWARD_TO_MISS_TABLE).then(|| command.get(MISS_TABLE))
}

fn create_table(command: &mut Command<'_>) -> Outcome {
    require(command.get(LOG_SIZE) <= MAX_LOG_SIZE, Rule::BadSize)?;
    let table = Table {
        kind: command.get(TYPE) as u8,
        log_size: command.get(LOG_SIZE),
        miss: miss(command),
        ..Table::default()
    };
    let id = command.device.flows.add(command.uid, table)?;
    command.set(field(0x08, 23, 0), id);
    Ok(())
}

fn set_entry(command: &mut Command<'_>, table: u32) -> Outcome {
    let (uid, index) = (command.uid, command.get(FLOW_INDEX));
    let at = |field: Field| field.at(context::AT).get(command.input);
    let (destinations, counters) = (at(context::DESTINATIONS), at(context::COUNTERS));
    require(
        destinations <= MAX_LIST && counters <= MAX_LIST,
        Rule::BadSize,
    )?;
    let list = context::AT + context::LIST;
    let entry = Entry {
        group: at(context::GROUP),
        value: command.context(context::AT + context::VALUE, MATCH),
        drop: at(context::ACTION) & DROP != 0,
        tag: at(context::TAG),
        destinations: (0..destinations as usize)
            .map(|i| destination(be32(command.input, list + i * 8)))
            .collect(),
        counters: (0..counters as usize)
            .map(|i| be32(command.input, list + (destinations as usize + i) * 8))
            .collect(),
        context: command.context(
            context::AT,
            context::LIST + (destinations + counters) as usize * 8,
        ),
    };
    for destination in &entry.destinations {
        match destination {
            Destination::Table(id) => command.device.flows.shared(*id, uid).map(|_| ())?,
            Destination::Tir(id) => command.device.tirs.shared(*id, uid).map(|_| ())?,
            Destination::Elsewhere => {}
        }
    }
    require(command.device.flow_entries() < MAX_FLOWS, Rule::TableFull)?;
    let (modify, mask) = (command.modifier == 1, command.get(MODIFY_MASK));
    let flows = command.device.flows.of_mut(table, uid)?;
    require(index < 1 << flows.log_size, Rule::OutOfRange)?;
    if !modify {
        require(flows.groups.contains_key(&entry.group), Rule::NoSuchObject)?;
        flows.entries.insert(index, entry);
        return Ok(());
    }
    let old = flows
        .entries
        .get_mut(&index)
        .ok_or(Rule::NoSuchObject.refuse())?;
    if mask & MODIFY_ACTION != 0 {
        old.drop = entry.drop;
    }
    if mask & MODIFY_TAG != 0 {
        old.tag = entry.tag;
    }
    if mask & MODIFY_DESTINATIONS != 0 {
        old.destinations = entry.destinations;
    }
    if mask & MODIFY_COUNTERS != 0 {
        old.counters = entry.counters;
    }
    Ok(())
}

fn destination(raw: u32) -> Destination {
    let id = raw & 0xff_ffff;
    match raw >> 24 {
        1 => Destination::Table(id),
        2 => Destination::Tir(id),
        _ => Destination::Elsewhere,
    }
}

fn query_counter(command: &mut Command<'_>) -> Outcome {
    let (first, count) = (command.get(COUNTER_ID), command.get(COUNTERS).max(1));
    let clear = CLEAR.is_set(command.input);
    for i in 0..count {
        let id = first.checked_add(i).ok_or(Rule::OutOfRange.refuse())?;
        let counter = command.device.counters.of_mut(id, command.uid)?;
        let value = *counter;
        if clear {
            *counter = Counter::default();
        }
        let at = 0x10 + i as usize * 16;
        Wide(at).set(command.output, value.packets);
        Wide(at + 8).set(command.output, value.bytes);
    }
    Ok(())
}
